package transparency_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/ledger/transparency"
	"github.com/waybill-dev/waybill/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// patience bounds every wait: a test that needs it has failed.
const patience = 2 * time.Minute

const origin = "log.example/test"

// harness is a ledger in ClickHouse, a NATS server, and what was appended so far.
type harness struct {
	t      testing.TB
	nats   *testkit.Server
	db     *ledger.DB
	keys   *checkpoint.Keys
	log    *syncBuffer
	leaves []tlog.Hash
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	db, err := ledger.Open(context.Background(), testkit.ClickHouse(t).DSN)
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
	h := &harness{t: t, nats: testkit.NATS(t), db: db, keys: keys, log: &syncBuffer{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", h.log)
		}
	})
	return h
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

const epoch = 1_790_000_000_000_000_001

// rows makes the next n rows of the ledger; salt makes them others.
func (h *harness) rows(n int, salt string) []ledger.Row {
	h.t.Helper()
	at := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	out := make([]ledger.Row, 0, n)
	for range n {
		idx := uint64(len(h.leaves))
		r := record.Record{ID: fmt.Sprintf("rec-%d%s", idx, salt), Kind: record.Attempt, At: at, Tenant: "acme"}
		body, err := r.Encode()
		if err != nil {
			h.t.Fatal(err)
		}
		out = append(out, ledger.Row{Idx: idx, StreamSeq: idx + 1, StreamEpoch: epoch, Body: body, Record: r})
		h.leaves = append(h.leaves, merkle.LeafHash(epoch, idx+1, body))
	}
	return out
}

// append puts the next n records into ClickHouse.
func (h *harness) append(n int) []ledger.Row {
	h.t.Helper()
	rows := h.rows(n, "")
	if len(rows) > 0 {
		if err := h.db.Append(context.Background(), rows); err != nil {
			h.t.Fatal(err)
		}
	}
	return rows
}

// position is where ClickHouse stands.
func (h *harness) position() ledger.Position {
	h.t.Helper()
	p, err := h.db.Last(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// running is a log that follows.
type running struct {
	*transparency.Log
	stop context.CancelFunc
	done chan struct{}
}

func (h *harness) start(store transparency.Store, change func(*transparency.Options)) *running {
	h.t.Helper()
	o := transparency.Options{Store: store, NATS: h.nats.Connect(), Log: zerolog.New(h.log), Keys: h.keys,
		Every: 60 * time.Millisecond, Quiet: 20 * time.Millisecond}
	if change != nil {
		change(&o)
	}
	l, err := transparency.New(o)
	if err != nil {
		h.t.Fatal(err)
	}
	r := &running{Log: l, done: make(chan struct{})}
	r.follow(h)
	h.t.Cleanup(r.end)
	return r
}

// follow begins a session, as the sink does.
func (r *running) follow(h *harness) {
	at := h.position()
	ctx, cancel := context.WithCancel(context.Background())
	r.stop, r.done = cancel, make(chan struct{})
	go func() {
		defer close(r.done)
		r.Follow(ctx, at, func() bool { return true })
	}()
}

func (r *running) end() {
	r.stop()
	<-r.done
}

// eventually polls until ok.
func (h *harness) eventually(what string, ok func() bool) {
	h.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			h.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// waitSigned waits for a checkpoint of size records and returns it.
func (h *harness) waitSigned(size int) ledger.Checkpoint {
	h.t.Helper()
	var c ledger.Checkpoint
	h.eventually(fmt.Sprintf("a checkpoint of %d records", size), func() bool {
		got, err := h.db.LastCheckpoint(context.Background(), origin)
		c = got
		return err == nil && got.Size >= uint64(size)
	})
	if c.Size != uint64(size) {
		h.t.Fatalf("a checkpoint of %d records, want %d", c.Size, size)
	}
	return c
}

// check verifies everything that is stored: each checkpoint has the root of the
// records, and the tiles are those of the records, each once.
func (h *harness) check() {
	h.t.Helper()
	ctx := context.Background()
	known, err := h.keys.Verifiers()
	if err != nil {
		h.t.Fatal(err)
	}
	r := merkle.NewReader(ctx, leavesOnly(h.leaves))
	err = h.db.Checkpoints(ctx, 0, 1<<62, func(row ledger.Checkpoint) error {
		c, _, err := checkpoint.Open([]byte(row.Note), known)
		if err != nil {
			return err
		}
		want, err := r.TreeHash(row.Size)
		if err != nil {
			return err
		}
		if c != (checkpoint.Checkpoint{Origin: origin, Size: row.Size, Root: want}) || row.Root != want {
			h.t.Errorf("checkpoint of %d records: %+v, want root %s", row.Size, c, want)
		}
		return nil
	})
	if err != nil {
		h.t.Error(err)
	}
	tiled, err := h.db.Tiled(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	want := uint64(len(h.leaves))
	for level := 0; want >= merkle.TileWidth; level++ {
		want /= merkle.TileWidth
		if level >= len(tiled) || tiled[level] != want {
			h.t.Fatalf("tiles %v, want %d in level %d", tiled, want, level)
		}
		next := uint64(0)
		err := h.db.TileHashes(ctx, level, 0, want, func(number uint64, hashes []tlog.Hash) error {
			if number != next {
				h.t.Errorf("tile %d of level %d, want %d", number, level, next)
			}
			next++
			good, err := r.Hashes(level, number*merkle.TileWidth, (number+1)*merkle.TileWidth)
			if err == nil && string(merkle.Join(good)) != string(merkle.Join(hashes)) {
				h.t.Errorf("tile %d of level %d is wrong", number, level)
			}
			return err
		})
		if err != nil {
			h.t.Error(err)
		}
	}
}

// leavesOnly is a store without tiles.
type leavesOnly []tlog.Hash

func (leavesOnly) Tiles(_ context.Context, want []merkle.Tile) ([][]tlog.Hash, error) {
	return make([][]tlog.Hash, len(want)), nil
}

func (l leavesOnly) Leaves(_ context.Context, first, end uint64) ([]tlog.Hash, error) {
	return l[first:end], nil
}
