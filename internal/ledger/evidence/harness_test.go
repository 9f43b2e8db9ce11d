package evidence_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

const (
	origin = "example.com/waybill"
	epoch  = 1_790_000_000_000_000_001
)

// log is a ledger in memory: the records, the tree over them, and keys.
type log struct {
	t       testing.TB
	signer  note.Signer
	key     evidence.Key
	vkey    string
	witness ed25519.PrivateKey
	vwit    string
	bodies  [][]byte
	records []record.Record
}

func newLog(t testing.TB) *log {
	t.Helper()
	l := &log{t: t}
	private, verifier, err := checkpoint.Generate(origin)
	l.must(err)
	l.signer, err = note.NewSigner(private)
	l.must(err)
	l.vkey, l.key = verifier, parseKey(t, verifier)
	var public ed25519.PublicKey
	public, l.witness, err = ed25519.GenerateKey(nil)
	l.must(err)
	raw := append([]byte{4}, public...)
	hash := sha256.Sum256(append([]byte("w.example\n"), raw...))
	l.vwit = fmt.Sprintf("w.example+%x+%s", hash[:4], base64.StdEncoding.EncodeToString(raw))
	return l
}

func parseKey(t testing.TB, vkey string) evidence.Key {
	t.Helper()
	k, err := evidence.ParseKey(vkey)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (l *log) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// tell appends a record.
func (l *log) tell(kind record.Kind, event, endpoint string, change func(*record.Record)) {
	l.t.Helper()
	n := len(l.records)
	r := record.Record{ID: fmt.Sprintf("rec-%d", n), Kind: kind, At: noon.Add(time.Duration(n) * time.Second),
		Tenant: "acme", EventID: event, EndpointID: endpoint}
	if change != nil {
		change(&r)
	}
	b, err := r.Encode()
	l.must(err)
	l.records, l.bodies = append(l.records, r), append(l.bodies, b)
}

func (l *log) leaf(i int) tlog.Hash { return merkle.LeafHash(epoch, uint64(i)+1, l.bodies[i]) }

// Tiles and Leaves make it a merkle.Store.
func (l *log) Tiles(_ context.Context, want []merkle.Tile) ([][]tlog.Hash, error) {
	return make([][]tlog.Hash, len(want)), nil
}

func (l *log) Leaves(_ context.Context, first, end uint64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for i := first; i < end; i++ {
		out = append(out, l.leaf(int(i)))
	}
	return out, nil
}

// note signs a checkpoint over size records; the witness signs too if it is asked.
func (l *log) note(size int, witnessed bool) string {
	l.t.Helper()
	root, err := merkle.NewReader(context.Background(), l).TreeHash(uint64(size))
	l.must(err)
	text := checkpoint.Checkpoint{Origin: origin, Size: uint64(size), Root: root}.Text()
	signed, err := note.Sign(&note.Note{Text: text}, l.signer)
	l.must(err)
	if !witnessed {
		return string(signed)
	}
	const seconds = 1_793_620_900
	hash := parseHash(l.t, l.vwit)
	raw := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, hash), seconds)
	raw = append(raw, ed25519.Sign(l.witness, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, text))...)
	return string(signed) + "— w.example " + base64.StdEncoding.EncodeToString(raw) + "\n"
}

func parseHash(t testing.TB, vkey string) uint32 {
	t.Helper()
	v, err := checkpoint.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	return v.KeyHash()
}

// file gathers, as an export does, what belongs to the subject.
func (l *log) file(s evidence.Subject) *evidence.File {
	l.t.Helper()
	var own []record.Record
	for i := range l.records {
		if s.Owns(&l.records[i]) {
			own = append(own, l.records[i])
		}
	}
	want := evidence.Want(s, own)
	f := &evidence.File{Subject: s, Statement: evidence.Statement{ExportedAt: noon.Add(time.Hour),
		ExportedBy: "alice@host", Software: "Waybill/test",
		CheckpointAt: noon.Add(time.Minute), Queries: []evidence.Query{{Finds: "records that name the event",
			SQL: "SELECT 1 WHERE a = '\u00e9\\'\"'\n"}}}}
	f.Checkpoint.Note = l.note(len(l.records), true)
	var changes []record.Record
	var at []int
	for i := range l.records {
		role, ok := want.Role(&l.records[i])
		switch {
		case ok && (role == evidence.OfEvent || role == evidence.OfEndpoint):
			f.Records = append(f.Records, l.record(i, len(l.records)))
		case ok:
			changes, at = append(changes, l.records[i]), append(at, i)
		}
	}
	for _, i := range evidence.InForce(own, changes) {
		f.Records = append(f.Records, l.record(at[i], len(l.records)))
	}
	slices.SortFunc(f.Records, func(a, b evidence.Record) int { return int(a.Idx) - int(b.Idx) })
	return f
}

func (l *log) record(i, size int) evidence.Record {
	l.t.Helper()
	p, err := merkle.NewReader(context.Background(), l).ProveRecord(uint64(size), uint64(i))
	l.must(err)
	return evidence.Record{Idx: uint64(i), Epoch: epoch, Seq: uint64(i) + 1, Body: l.bodies[i], Proof: p}
}

func (l *log) verify(b []byte) *evidence.Report {
	l.t.Helper()
	return evidence.Verify(b, l.options())
}

func (l *log) options() evidence.Options {
	return evidence.Options{Keys: []evidence.Key{l.key}, Witnesses: []evidence.Key{parseKey(l.t, l.vwit)}}
}

// reseal gives a changed file the digest that fits it, as a forger would.
func reseal(b []byte) []byte {
	at := strings.LastIndex(strings.TrimSuffix(string(b), "\n"), "\n") + 1
	sum := sha256.Sum256(b[:at])
	return fmt.Appendf(slices.Clone(b[:at]), "\"sha256\":\"%x\"}\n", sum)
}

const endpoint = "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"

// tellSmall is an event that was delivered at the second attempt, among others.
func (l *log) tellSmall(event string) {
	l.tell(record.EndpointChanged, "", endpoint, func(r *record.Record) {
		r.EndpointRevision, r.Action, r.URL = 7,
			"create", "https://a.example/in"
	})
	l.tell(record.EventAccepted, event, "", func(r *record.Record) {
		r.EventType, r.Endpoints, r.EndpointIDs, r.DataDigest = "order.paid", 1, []string{endpoint},
			fmt.Sprintf("%x", sha256.Sum256([]byte(`{"n":1}`)))
	})
	l.tell(record.DeliveryOwed, event, endpoint,
		func(r *record.Record) { r.EventType, r.EndpointRevision = "order.paid", 7 })
	l.tell(record.Attempt, event, endpoint, func(r *record.Record) {
		r.Attempt, r.Status, r.Outcome, r.Class, r.Decision, r.StartedAt = 1, 502, "status_retryable", "retryable", "retry",
			r.At
	})
	l.tell(record.Attempt, event, endpoint, func(r *record.Record) {
		r.Attempt, r.Status, r.Outcome, r.Class, r.Decision, r.EndpointRevision, r.StartedAt = 2, 200, "delivered",
			"delivered", "delivered", 7, r.At
		r.PayloadDigest, r.PayloadBytes = fmt.Sprintf("%x", sha256.Sum256([]byte("body 2"))), 6
	})
}

// tellLarge has everything.
func (l *log) tellLarge(event string) {
	l.tell(record.EventTypeChanged, "", "", func(r *record.Record) {
		r.EventTypes, r.Detail, r.Actor = []string{"order.*"}, "deliver_within 1h", "carol"
	})
	l.tell(record.EventTypeChanged, "", "", func(r *record.Record) { r.EventTypes = []string{"other.*"} })
	l.tell(record.OperatorAction, "", "", func(r *record.Record) {
		r.Tenant, r.Action, r.EscalationPolicy, r.Revision, r.Actor = "all", "escalation_policy.created", "night", 3, "dave"
	})
	l.tellSmall("another")
	l.tellSmall(event)
	l.tell(record.DeliveryOwed, event, "ep_bad", func(r *record.Record) {
		r.EventType, r.DeliverBy = "order.paid",
			noon.Add(time.Minute)
	})
	for n := 1; n <= 4; n++ {
		if n == 3 {
			continue // it is missing
		}
		l.tell(record.Attempt, event, "ep_bad", func(r *record.Record) {
			r.Attempt, r.Outcome, r.Class, r.Decision, r.StartedAt, r.DurationUS = n, "timeout", "retryable", "retry", r.At,
				400_000
			r.Error, r.URL = "</td><script>alert(1)</script> \u202e & \"x\"", "https://b.example/<b>"
		})
	}
	l.tell(record.DeliveryDeadLetter, event, "ep_bad",
		func(r *record.Record) { r.Reason, r.Attempts, r.EndpointRevision = "attempts_exhausted", 5, 9 })
	l.tell(record.Escalation, event, "ep_bad", func(r *record.Record) {
		r.Outcome, r.Channel, r.EscalationPolicy, r.Step, r.Action = "delivered", "pager", "night", 1, "trigger"
	})
	l.tell(record.Escalation, event, "ep_bad", func(r *record.Record) {
		r.Outcome, r.Action, r.Actor = "handed_over",
			"handed_over", "watchdog"
	})
	l.tell(record.EscalationAcked, event, "ep_bad", func(r *record.Record) { r.Actor = "bob" })
	l.tell(record.ReplayRequested, event, "ep_bad",
		func(r *record.Record) { r.ReplayID, r.Actor, r.Reason = "rpl_1", "alice", "mended" })
	l.tell(record.DeliveryOwed, event, "ep_bad", func(r *record.Record) { r.ReplayID = "rpl_1" })
	l.tell(record.Attempt, event, "ep_bad", func(r *record.Record) {
		r.Attempt, r.Outcome, r.ReplayID, r.StartedAt = 6,
			"unknown", "rpl_1", r.At
	})
}

func subject(event string) evidence.Subject { return evidence.Subject{Tenant: "acme", EventID: event} }
