package transparency_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/transparency"
	"github.com/waybill-dev/waybill/streams"
)

func TestTheTreeFollowsTheRecordsOverTheEdgesOfTiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := h.start(h.db, nil)
	for _, n := range []int{1, 254, 1, 1, 255, 700, 3} { // 1, 255, 256, 257, 512, 1212, 1215
		r.Landed(h.append(n))
		h.waitSigned(len(h.leaves))
		if n == 255 { // another one goes on
			r.end()
			r = h.start(h.db, nil)
		}
	}
	h.check()
	onStream := h.onStream()
	if c, err := checkpoint.Parse(onStream); err != nil || c.Size != 1215 {
		t.Errorf("on the stream: %s, %v", onStream, err)
	}
	if r.Fault() != "" || r.Note() != "" {
		t.Errorf("fault %q", r.Fault())
	}
	// Nothing new, nothing signed.
	before := h.checkpoints()
	r.end()
	r = h.start(h.db, nil)
	r.Landed(h.append(1))
	h.waitSigned(1216)
	if got := h.checkpoints(); got != before+1 {
		t.Errorf("%d checkpoints, want %d", got, before+1)
	}
}

func (h *harness) checkpoints() int {
	h.t.Helper()
	n := 0
	if err := h.db.Checkpoints(context.Background(), 0, 1<<62,
		func(ledger.Checkpoint) error { n++; return nil }); err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *harness) onStream() string {
	h.t.Helper()
	s, err := h.nats.JetStream().Stream(context.Background(), streams.Checkpoints)
	if err != nil {
		h.t.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(context.Background(), streams.CheckpointsSubject)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(m.Data)
}

// A ledger that is older than the tree, and rows that were never handed over.
func TestALedgerWithoutATreeIsBackFilled(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for range 3 {
		h.append(23_000)
	}
	r := h.start(h.db, nil)
	h.waitSigned(69_000)
	h.append(300) // not handed over
	r.Landed(h.append(200))
	h.waitSigned(69_500)
	h.check()
	if !strings.Contains(h.log.String(), "ledger_log.back_filled") {
		t.Error("nothing was said about it")
	}
}

func TestWithoutAKeyTilesAreStoredAndNothingIsSigned(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := h.start(h.db, func(o *transparency.Options) { o.Keys = nil })
	r.Landed(h.append(600))
	h.eventually("the tiles are stored", func() bool {
		tiled, err := h.db.Tiled(context.Background())
		return err == nil && len(tiled) == 1 && tiled[0] == 2
	})
	if h.checkpoints() != 0 {
		t.Error("something was signed")
	}
	h.check()
}

func TestALedgerThatWasPutBackIsNotSignedUntilItHasItsTailAgain(t *testing.T) {
	t.Parallel()
	for _, kept := range []string{"by the stream", "by ClickHouse", "by the process"} {
		t.Run("the checkpoint is kept "+kept, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			r := h.start(h.db, nil)
			r.Landed(h.append(400))
			h.waitSigned(400)
			r.Landed(h.append(100))
			h.waitSigned(500)
			h.eventually("it is on the stream", func() bool { return strings.HasPrefix(h.onStream(), origin+"\n500\n") })
			r.end()

			restored := newHarness(t) // a database of its own: last week's
			restored.keys, restored.log = h.keys, h.log
			if kept == "by the stream" {
				restored.nats = h.nats
			}
			restored.append(300)
			if kept == "by ClickHouse" {
				c, err := h.db.LastCheckpoint(context.Background(), origin)
				if err == nil {
					err = restored.db.AppendCheckpoint(context.Background(), c)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if kept == "by the process" {
				swap := &swapped{Store: h.db}
				r = h.start(swap, nil)
				r.Landed(h.append(1))
				h.waitSigned(501)
				r.end()
				swap.Store = restored.db
				r.follow(restored)
			} else {
				r = restored.start(restored.db, nil)
			}
			restored.eventually("it refuses", func() bool { return strings.Contains(r.Note(), "300 records") })
			if !strings.Contains(r.Note(), "waybill ledger verify") ||
				!strings.Contains(h.log.String(), "ledger_log.signs_nothing") {
				t.Errorf("note %q", r.Note())
			}
			r.Landed(restored.append(150))
			restored.eventually("it still refuses", func() bool {
				tiled, err := restored.db.Tiled(context.Background())
				return err == nil && len(tiled) == 1 && r.Fault() != "" // it goes on to store tiles
			})
			r.Landed(restored.append(100))
			c := restored.waitSignedOver(501)
			if c.Size != 550 || r.Fault() != "" {
				t.Errorf("checkpoint of %d, fault %q", c.Size, r.Fault())
			}
			if kept == "by the stream" {
				if c, err := restored.db.CheckpointOver(context.Background(), 1); err != nil || c.Size != 400 || c.Key == "" {
					t.Errorf("the first checkpoint is of %d records by %q, %v; want that of 400 from the stream", c.Size, c.Key, err)
				}
			}
			restored.check()
		})
	}
}

// swapped is a store that is put back under a running process.
type swapped struct{ transparency.Store }

func (h *harness) waitSignedOver(size int) (c ledger.Checkpoint) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("a checkpoint over %d records", size), func() bool {
		got, err := h.db.LastCheckpoint(context.Background(), origin)
		c = got
		return err == nil && got.Size > uint64(size)
	})
	return c
}

func TestAnotherHistoryIsNeverSigned(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := h.start(h.db, nil)
	r.Landed(h.append(500))
	h.waitSigned(500)
	h.eventually("it is on the stream", func() bool { return strings.HasPrefix(h.onStream(), origin+"\n500\n") })
	r.end()

	other := newHarness(t)
	other.keys, other.nats, other.log = h.keys, h.nats, h.log
	other.append(100)
	if err := other.db.Append(context.Background(), other.rows(900, "-forged")); err != nil {
		t.Fatal(err)
	}
	r = other.start(other.db, nil)
	other.eventually("it refuses", func() bool {
		return strings.Contains(r.Fault(),
			"not those of the signed checkpoint")
	})
	rows := other.append(50)
	r.Landed(rows)
	other.eventually("it stores tiles all the same", func() bool {
		tiled, err := other.db.Tiled(context.Background())
		return err == nil && len(tiled) == 1 && tiled[0] == 4
	})
	if other.checkpoints() != 0 || !strings.HasPrefix(h.onStream(), origin+"\n500\n") {
		t.Error("another history was signed")
	}
	// It is a fact of its own.
	s, err := h.nats.JetStream().Stream(context.Background(), streams.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(context.Background(), streams.LedgerSubjects)
	if err != nil || !strings.Contains(string(m.Data), transparency.ActionUnsigned) {
		t.Errorf("on record: %v", err)
	}
}

// Tiles that are newer than the records, as after a backup of the one table that
// is older than that of the other, are compared, not stored again.
func TestTilesThatAreAheadOfTheRecordsAreCompared(t *testing.T) {
	t.Parallel()
	for _, wrong := range []bool{false, true} {
		h := newHarness(t)
		all := h.rows(1024, "")
		tiles := append([]tlog.Hash(nil), h.leaves...)
		if wrong {
			tiles[700][0] ^= 1
		}
		if err := h.db.AppendTiles(context.Background(), 0, 0, tiles); err != nil {
			t.Fatal(err)
		}
		if err := h.db.Append(context.Background(), all[:400]); err != nil {
			t.Fatal(err)
		}
		r := h.start(h.db, nil)
		h.waitSigned(400)
		if err := h.db.Append(context.Background(), all[400:]); err != nil {
			t.Fatal(err)
		}
		r.Landed(all[400:])
		if wrong {
			h.eventually("it refuses", func() bool { return strings.Contains(r.Fault(), "tile 2 of level 0") })
			continue
		}
		h.waitSigned(1024)
		h.check()
	}
}

// faulty is a store in which calls fail before or after they took effect.
type faulty struct {
	transparency.Store
	before, after func(call string) error
}

var errInjected = fmt.Errorf("injected: %w", ledger.ErrUnavailable)

func (f *faulty) around(call string, do func() error) error {
	if err := f.before(call); err != nil {
		return err
	}
	err := do()
	if err == nil {
		err = f.after(call)
	}
	return err
}

func (f *faulty) Tiled(ctx context.Context) (n []uint64, err error) {
	err = f.around("Tiled", func() error { n, err = f.Store.Tiled(ctx); return err })
	return n, err
}

func (f *faulty) TileHashes(ctx context.Context, level int, first, end uint64,
	yield func(uint64, []tlog.Hash) error) error {
	return f.around("TileHashes", func() error { return f.Store.TileHashes(ctx, level, first, end, yield) })
}

func (f *faulty) AppendTiles(ctx context.Context, level int, first uint64, hashes []tlog.Hash) error {
	return f.around("AppendTiles", func() error { return f.Store.AppendTiles(ctx, level, first, hashes) })
}

func (f *faulty) Entries(ctx context.Context, first, end uint64, yield func(uint64, []byte) error) error {
	return f.around("Entries", func() error { return f.Store.Entries(ctx, first, end, yield) })
}

func (f *faulty) LastCheckpoint(ctx context.Context, origin string) (c ledger.Checkpoint, err error) {
	err = f.around("LastCheckpoint", func() error {
		c, err = f.Store.LastCheckpoint(ctx, origin)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil
		}
		return err
	})
	if err == nil && c.Size == 0 {
		err = ledger.ErrNotFound
	}
	return c, err
}

func (f *faulty) AppendCheckpoint(ctx context.Context, c ledger.Checkpoint) error {
	return f.around("AppendCheckpoint", func() error { return f.Store.AppendCheckpoint(ctx, c) })
}

func TestALogThatDiesAtAnyStepIsFollowedByOneThatGoesOn(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"Tiled", "TileHashes", "Entries", "AppendTiles", "LastCheckpoint", "AppendCheckpoint"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+call, func(t *testing.T) {
				t.Parallel()
				h := newHarness(t)
				r := h.start(h.db, nil)
				first := 300
				if call == "AppendTiles" {
					first = 65_300 // what follows ends a tile of level 1 too
				}
				r.Landed(h.append(first))
				h.waitSigned(first)
				r.end()

				var died atomic.Bool
				dead := make(chan struct{})
				die := func(c string) error {
					if c == call && died.CompareAndSwap(false, true) {
						close(dead)
					}
					if died.Load() {
						return errInjected
					}
					return nil
				}
				f := &faulty{Store: h.db, before: die, after: func(string) error { return nil }}
				if when == "after" {
					f.after, f.before = die, func(string) error {
						if died.Load() {
							return errInjected
						}
						return nil
					}
				}
				h.append(700) // past the ends of tiles
				r = h.start(f, nil)
				select {
				case <-dead:
				case <-time.After(patience):
					t.Fatalf("%s was not called", call)
				}
				r.end()

				r = h.start(h.db, nil)
				r.Landed(h.append(10))
				h.waitSigned(first + 710)
				r.end()
				h.check()
			})
		}
	}
}

func TestWhateverFailsTheTreeGoesOnByItself(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var calls, injected atomic.Int64
	fail := func(string) error {
		if n := calls.Add(1); n%3 == 0 && injected.Load() < 8 {
			injected.Add(1)
			return errInjected
		}
		return nil
	}
	r := h.start(&faulty{Store: h.db, before: fail, after: fail}, nil)
	for range 8 {
		r.Landed(h.append(333))
		h.waitSigned(len(h.leaves))
	}
	if injected.Load() < 8 {
		t.Errorf("only %d faults", injected.Load())
	}
	h.check()
}
