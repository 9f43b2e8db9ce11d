// Package transparency lets implementations that are not ours judge the log: a
// client reads and verifies all of it, a witness cosigns it. It is a module of
// its own: nobody who uses Waybill needs them as libraries.
package transparency

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/torchwood"
	"github.com/rs/zerolog"
	f_note "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/witness/persistence/inmemory"
	"github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	product "github.com/waybill-dev/waybill/internal/ledger/transparency"
	"github.com/waybill-dev/waybill/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	origin   = "log.example/independent"
	patience = 90 * time.Second
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// log is a ledger whose log is served and grows.
type log struct {
	t      *testing.T
	db     *ledger.DB
	dsn    string
	nats   *testkit.Server
	keys   *checkpoint.Keys
	url    string
	bodies [][]byte
	// witnesses are verifier keys by name; timestamps is where they are asked for.
	witnesses  map[string]string
	timestamps string
}

func newLog(t *testing.T) *log {
	t.Helper()
	dsn := testkit.ClickHouse(t).DSN
	db, err := ledger.Open(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	path := filepath.Join(t.TempDir(), "checkpoint.key")
	if _, err := checkpoint.CreateFile(path, origin); err != nil {
		t.Fatal(err)
	}
	keys, err := checkpoint.OpenKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	(&product.Server{Store: db, Origin: origin, Log: zerolog.Nop()}).Routes(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &log{t: t, db: db, dsn: dsn, nats: testkit.NATS(t), keys: keys, url: server.URL + "/log",
		witnesses: map[string]string{}}
}

func (l *log) append(n int) {
	l.t.Helper()
	var records []record.Record
	for i := range n {
		records = append(records, record.Record{ID: fmt.Sprintf("rec-%d", len(l.bodies)+i), Kind: record.Attempt, At: noon,
			Tenant: "acme"})
	}
	l.state(records...)
}

// state appends these records.
func (l *log) state(records ...record.Record) {
	l.t.Helper()
	var rows []ledger.Row
	for _, r := range records {
		idx := uint64(len(l.bodies))
		body, err := r.Encode()
		if err != nil {
			l.t.Fatal(err)
		}
		l.bodies = append(l.bodies, body)
		rows = append(rows, ledger.Row{Idx: idx, StreamSeq: idx + 7, StreamEpoch: 1_790_000_000_000_000_001, Body: body,
			Record: r})
	}
	if err := l.db.Append(context.Background(), rows); err != nil {
		l.t.Fatal(err)
	}
}

// follow signs and has cosigned what is there, until stop.
func (l *log) follow(witnesses ...product.Witness) (stop func()) {
	l.t.Helper()
	var output syncBuffer
	p, err := product.New(product.Options{Store: l.db, NATS: l.nats.Connect(), Log: zerolog.New(&output), Keys: l.keys,
		Every: 100 * time.Millisecond, Quiet: 20 * time.Millisecond, Witnesses: witnesses, TimestampURL: l.timestamps})
	if err != nil {
		l.t.Fatal(err)
	}
	at, err := l.db.Last(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Follow(ctx, at, func() bool { return true })
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		if l.t.Failed() {
			l.t.Log(output.String())
		}
	})
	l.t.Cleanup(stop)
	return stop
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// fetch reads the checkpoint over HTTP as others do, until it has so many records
// and is signed by all the verifiers.
func (l *log) fetch(size int, verifiers ...note.Verifier) torchwood.Checkpoint {
	l.t.Helper()
	f := l.fetcher()
	deadline, tick := time.NewTimer(patience), time.NewTicker(20*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	var last error
	for {
		signed, err := f.ReadEndpoint(context.Background(), "checkpoint")
		if err == nil {
			var n *note.Note
			n, err = note.Open(signed, note.VerifierList(verifiers...))
			if err == nil && len(n.Sigs) == len(verifiers) {
				c, err := torchwood.ParseCheckpoint(n.Text)
				if err != nil {
					l.t.Fatalf("%v:\n%s", err, signed)
				}
				if c.N == int64(size) {
					if c.Origin != origin {
						l.t.Errorf("origin %q", c.Origin)
					}
					return c
				}
			}
			err = fmt.Errorf("%w:\n%s", err, signed)
		}
		last = err
		select {
		case <-tick.C:
		case <-deadline.C:
			l.t.Fatalf("no checkpoint of %d records by %d signers; the last was: %v", size, len(verifiers), last)
		}
	}
}

func (l *log) fetcher() *torchwood.TileFetcher {
	l.t.Helper()
	f, err := torchwood.NewTileFetcher(l.url)
	if err != nil {
		l.t.Fatal(err)
	}
	return f
}

func (l *log) verifier() note.Verifier {
	l.t.Helper()
	v, err := note.NewVerifier(l.keys.List()[0].Verifier)
	if err != nil {
		l.t.Fatal(err)
	}
	return v
}

func TestAnIndependentClientReadsAndVerifiesTheWholeLog(t *testing.T) {
	l := newLog(t)
	for range 3 {
		l.append(22_000)
	}
	l.follow()
	tree := l.fetch(66_000, l.verifier())
	client, err := torchwood.NewClient(l.fetcher())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	next := 0
	for next < len(l.bodies) {
		before := next
		for i, entry := range client.Entries(ctx, tree.Tree, int64(next)) {
			want := merkle.Entry(1_790_000_000_000_000_001, uint64(next)+7, l.bodies[next])
			if i != int64(next) || string(entry) != string(want) {
				t.Fatalf("entry %d is %q, want %d %q", i, entry, next, want)
			}
			next++
		}
		if err := client.Err(); err != nil || next == before {
			t.Fatalf("at entry %d: %v", next, err)
		}
	}
	for _, n := range []int64{0, 255, 256, 65_535, 65_536, 65_999} {
		entry, proof, err := client.Entry(ctx, tree.Tree, n)
		if err != nil {
			t.Fatalf("entry %d: %v", n, err)
		}
		if err := tlog.CheckRecord(proof, tree.N, tree.Hash, n, tlog.RecordHash(entry)); err != nil {
			t.Errorf("entry %d: %v", n, err)
		}
		ours, err := merkle.NewReader(ctx, l.db).ProveRecord(uint64(tree.N), uint64(n))
		if err != nil || fmt.Sprint(ours) != fmt.Sprint(proof) {
			t.Errorf("entry %d: our proof %v is not the client's %v: %v", n, ours, proof, err)
		}
	}
	// A tree that is not ours is found out by the same client.
	forged := tree.Tree
	forged.Hash[0] ^= 1
	if _, _, err := client.Entry(ctx, forged, 5); err == nil {
		t.Error("the client accepts tiles under another root")
	}
}

// newWitness runs a witness of another project, and counts its answers by status.
func newWitness(t *testing.T, l *log, name string) (product.Witness, note.Verifier, *answers) {
	t.Helper()
	secret, public, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := f_note.NewSignerForCosignatureV1(secret)
	if err != nil {
		t.Fatal(err)
	}
	vkey, err := f_note.VKeyToCosignatureV1(public)
	if err != nil {
		t.Fatal(err)
	}
	l.witnesses[name] = vkey
	w, err := witness.New(context.Background(), witness.Opts{Persistence: inmemory.New(), Signers: []note.Signer{signer},
		VerifierForLog: func(_ context.Context, o string) (note.Verifier, bool, error) {
			return l.verifier(), o == origin,
				nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	a := &answers{next: http.HandlerFunc(witness.NewHTTPHandler(w).AddCheckpoint), seen: map[int]int{}}
	mux := http.NewServeMux()
	mux.Handle("POST /w/add-checkpoint", a)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p, err := product.ParseWitness(server.URL + "/w=" + vkey)
	if err != nil {
		t.Fatal(err)
	}
	v, err := f_note.NewVerifierForCosignatureV1(vkey)
	if err != nil {
		t.Fatal(err)
	}
	return p, v, a
}

type answers struct {
	next http.Handler
	mu   sync.Mutex
	seen map[int]int
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	a.next.ServeHTTP(rec, r)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[rec.status]++
}

func (a *answers) of(status int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[status]
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func TestWitnessesOfAnotherProjectCosignAndAnotherClientAcceptsThat(t *testing.T) {
	l := newLog(t)
	one, oneKey, oneSaid := newWitness(t, l, "one.witness.example")
	two, twoKey, twoSaid := newWitness(t, l, "two.witness.example")
	verifiers := []note.Verifier{l.verifier(), oneKey, twoKey}

	l.append(300)
	stop := l.follow(one)
	l.fetch(300, verifiers[:2]...)
	stop()
	// A sink that does not know where the witnesses are: one has 300, the other nothing.
	l.append(70_000)
	stop = l.follow(one, two)
	c := l.fetch(70_300, verifiers...)
	if oneSaid.of(http.StatusConflict) == 0 {
		t.Error("the first witness was not found at another size")
	}
	if twoSaid.of(http.StatusConflict) != 0 || twoSaid.of(http.StatusOK) == 0 {
		t.Errorf("the second witness answered %v", twoSaid.seen)
	}
	stop()
	l.append(1)
	l.follow(one, two)
	l.fetch(70_301, verifiers...)

	// The cosignatures are over the same root that the tiles have.
	root, err := merkle.NewReader(context.Background(), l.db).TreeHash(70_300)
	if err != nil || root != c.Hash {
		t.Errorf("root %s, cosigned %s: %v", root, c.Hash, err)
	}
}
