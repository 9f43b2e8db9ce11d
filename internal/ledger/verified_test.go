package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/ledger/verify"
)

const (
	origin = "example.com/ledger"
	epoch  = int64(1_790_000_000_000_000_007)
)

// signed is a ledger with its tree and checkpoints, as the sink leaves it.
type signed struct {
	t      *testing.T
	db     *ledger.DB
	conn   driver.Conn
	dsn    string
	rows   []ledger.Row
	sizes  []uint64
	signer note.Signer
	key    note.Verifier
	// outside are the checkpoints as somebody else kept them.
	outside []verify.Published
	stream  *keptStream
	now     time.Time
}

// newSigned makes a ledger of n records, with checkpoints of these sizes.
func newSigned(t *testing.T, n int, sizes ...uint64) *signed {
	t.Helper()
	return newSignedWith(t, n, nil, sizes...)
}

// newSignedWith is newSigned with some of the records given.
func newSignedWith(t *testing.T, n int, given map[int]record.Record, sizes ...uint64) *signed {
	t.Helper()
	db, conn, d := open(t)
	s := &signed{t: t, db: db, conn: conn, dsn: d.DSN, sizes: sizes, now: start.Add(time.Duration(n) * time.Second)}
	s.signer, s.key = newKey(t, origin)
	s.fill(n, given)
	return s
}

func newKey(t testing.TB, name string) (note.Signer, note.Verifier) {
	t.Helper()
	private, public, err := note.GenerateKey(nil, name)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := checkpoint.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	return signer, key
}

// start is near a month's end, so that the ledger has two partitions.
var start = time.Date(2026, 10, 31, 23, 55, 0, 0, time.UTC)

// made is record n of a ledger: attempts, with some of other kinds between.
func made(n int) record.Record {
	at := start.Add(time.Duration(n)*time.Second + 123_456_789)
	r := record.Record{ID: fmt.Sprintf("att_%06d", n), Kind: record.Attempt, At: at, Tenant: "acme",
		EventID: fmt.Sprintf("evt_%06d", n/2), EndpointID: "ep_1",
		EventType: "order.paid", EventAt: at.Add(-time.Minute), EventSeq: uint64(n + 1), StoredAt: at.Add(-time.Second),
		SubjectType: "order", SubjectID: "o_17",
		DeliverBy: at.Add(time.Hour), Endpoints: 3, Reason: "x", Attempt: 1 + n%3, ReplayID: "rpl_1",
		StartedAt: at.Add(-70 * time.Millisecond), DurationUS: 71_000,
		Status: 200, Outcome: "response", Class: "delivered", Decision: "delivered", NextAttemptAt: at.Add(time.Minute),
		URL:           "https://hooks.example.com/in",
		PayloadDigest: strings.Repeat("a1", 32), Attempts: 2, Actor: "ann@example.com", Action: "created",
		EndpointRevision: 3,
		ResponseHeaders:  map[string]string{"content-type": "application/json"}, ResponseExcerpt: `{"ok":true}`,
		KeyIDs: []string{"k1"}, SignedAt: at.Truncate(time.Second)}
	if n%5 == 0 {
		r = record.Record{ID: fmt.Sprintf("rec_%06d", n), Kind: record.DeliveryOwed, At: at, Tenant: "übel",
			EventID: fmt.Sprintf("evt_%06d", n/2), EndpointID: "ep_2"}
	}
	return r
}

func (s *signed) fill(n int, given map[int]record.Record) {
	s.t.Helper()
	var leaves []tlog.Hash
	for i := range n {
		rec := made(i)
		if g, ok := given[i]; ok {
			g.At = rec.At
			rec = g
		}
		r := row(s.t, uint64(i), rec)
		r.StreamEpoch = epoch
		if i == 7 { // what is no record is in the ledger too
			r.Body = []byte("not a record")
			r.Record, _ = ledger.ReadMessage("acme", r.Body, r.StreamSeq, r.Record.At)
		}
		s.rows = append(s.rows, r)
		leaves = append(leaves, merkle.LeafHash(epoch, r.StreamSeq, r.Body))
	}
	for rest := s.rows; len(rest) > 0; {
		m := ledger.SameMonth(rest)
		s.must(s.db.Append(context.Background(), rest[:m]))
		rest = rest[m:]
	}
	full := n / 256 * 256
	if full > 0 {
		s.must(s.db.AppendTiles(context.Background(), 0, 0, leaves[:full]))
	}
	var above []tlog.Hash
	for i := 0; i < full/merkle.TileWidth; i++ {
		above = append(above, merkle.Root(leaves[i*merkle.TileWidth:(i+1)*merkle.TileWidth]))
	}
	if whole := len(above) / merkle.TileWidth * merkle.TileWidth; whole > 0 {
		s.must(s.db.AppendTiles(context.Background(), 1, 0, above[:whole]))
	}
	for _, size := range s.sizes {
		s.sign(leaves[:size], s.now, true)
	}
	s.stream = &keptStream{epoch: epoch}
	for _, r := range s.rows {
		s.stream.bodies = append(s.stream.bodies, r.Body)
	}
}

// sign makes a checkpoint over leaves, stores it, and keeps it outside.
func (s *signed) sign(leaves []tlog.Hash, at time.Time, store bool) verify.Published {
	s.t.Helper()
	c := checkpoint.Checkpoint{Origin: origin, Size: uint64(len(leaves)), Root: rootOf(s.t, leaves)}
	b, err := note.Sign(&note.Note{Text: c.Text()}, s.signer)
	s.must(err)
	if store {
		s.must(s.db.AppendCheckpoint(context.Background(), ledger.Checkpoint{Size: c.Size, At: at, Origin: c.Origin,
			Key: checkpoint.KeyID(s.key), Root: c.Root, Note: string(b)}))
	}
	p := verify.Published{Source: verify.FromStream, Note: string(b), At: at}
	s.outside = append(s.outside, p)
	return p
}

// rootOf is computed by the library, not by what is tested.
func rootOf(t testing.TB, leaves []tlog.Hash) tlog.Hash {
	t.Helper()
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			out[i] = stored[x]
		}
		return out, nil
	})
	for i, l := range leaves {
		h, err := tlog.StoredHashesForRecordHash(int64(i), l, reader)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, h...)
	}
	root, err := tlog.TreeHash(int64(len(leaves)), reader)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func (s *signed) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// sql is what an attacker does.
func (s *signed) sql(format string, args ...any) {
	s.t.Helper()
	statement := fmt.Sprintf(format, args...)
	if err := s.conn.Exec(context.Background(), statement); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

// update rewrites rows.
func (s *signed) update(table, set, where string) {
	s.t.Helper()
	s.sql("ALTER TABLE %s UPDATE %s WHERE %s SETTINGS mutations_sync = 2", table, set, where)
}

// verify runs with the key, and with what is kept outside if asked.
func (s *signed) verify(change ...func(*verify.Options)) verify.Report {
	s.t.Helper()
	o := verify.Options{Now: s.now, Name: "test", Keys: []note.Verifier{s.key}}
	for _, c := range change {
		c(&o)
	}
	r, err := verify.Run(context.Background(), &ledger.Verified{DB: s.db}, o)
	s.must(err)
	return r
}

func keysOf(s *signed) []note.Verifier { return []note.Verifier{s.key} }

func (s *signed) withOutside(o *verify.Options) { o.Outside = s.outside }
func (s *signed) withStream(o *verify.Options)  { o.Stream = s.stream }

// keptStream is LEDGER as it was published.
type keptStream struct {
	epoch  int64
	trim   int // so many are gone
	bodies [][]byte
}

func (k *keptStream) Extent(context.Context) (verify.StreamExtent, error) {
	return verify.StreamExtent{Epoch: k.epoch, First: uint64(k.trim + 1), Last: uint64(len(k.bodies))}, nil
}

func (k *keptStream) Read(_ context.Context, first uint64, yield func(uint64, []byte) error) error {
	for i := int(first) - 1; i < len(k.bodies); i++ {
		if err := yield(uint64(i+1), k.bodies[i]); err != nil {
			return err
		}
	}
	return nil
}

// first is the finding that names the smallest index.
func first(r verify.Report) *verify.Finding {
	var out *verify.Finding
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Count > 0 && (out == nil || f.First < out.First) {
			out = f
		}
	}
	return out
}

// wantFirst checks that the report names record n as the first wrong one, with this code.
func wantFirst(t *testing.T, r verify.Report, n uint64, code verify.Code) {
	t.Helper()
	f := first(r)
	if r.Good || f == nil || f.First != n || f.Code != code {
		t.Errorf("good %v; want %s at %d first; got %+v", r.Good, code, n, r.Findings)
	}
}

func TestALedgerThatIsAsItWasSignedIsGood(t *testing.T) {
	t.Parallel()
	s := newSigned(t, 700, 100, 256, 300, 512, 600, 690)
	r := s.verify()
	if !r.Good || r.Read != 700 || r.Checkpoints.Agreed != 6 || r.Last == nil || r.Last.Size != 690 || r.Uncovered != 10 ||
		len(r.Unproven) != 2 {
		t.Errorf("got %+v", r)
	}
	r = s.verify(s.withOutside, s.withStream)
	if !r.Good || r.Checkpoints.Outside != 6 || r.Stream == nil || r.Stream.Compared != 700 || len(r.Unproven) != 1 {
		t.Errorf("with all: %+v", r)
	}
	if r = s.verify(func(o *verify.Options) { o.Keys = nil }); !r.Good ||
		!slices.ContainsFunc(r.Unproven, func(u string) bool { return strings.Contains(u, "no key was given") }) {
		t.Errorf("without a key: %+v", r)
	}
	_, other := newKey(t, origin)
	if r = s.verify(func(o *verify.Options) { o.Keys = []note.Verifier{other} }); r.Good || r.Codes() != "no_checkpoint" {
		t.Errorf("with another key: %+v", r)
	}
	for _, span := range [][2]uint64{{0, 256}, {256, 512}, {300, 301}, {520, 680}, {0, 690}, {512, 600}, {690, 700}} {
		r := s.verify(func(o *verify.Options) { o.From, o.To = span[0], span[1] })
		if len(r.Findings) != 0 || span[1] <= 690 && r.Uncovered != 0 {
			t.Errorf("%v: %+v", span, r)
		}
	}
}

func TestAnEmptyLedgerIsGood(t *testing.T) {
	t.Parallel()
	s := newSigned(t, 0)
	if r := s.verify(); !r.Good || r.Ledger != 0 {
		t.Errorf("got %+v", r)
	}
}
