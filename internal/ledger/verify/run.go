package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
)

const defaultChunk = 512 * merkle.TileWidth

// saveEvery is how many chunks lie between two states.
const saveEvery = 8

// overdue is how long records may wait for a checkpoint: the sink signs within a
// minute of the last record.
const overdue = 10 * time.Minute

// Options of a run. Now is required.
type Options struct {
	Now time.Time
	// Name of the ledger, which a state is bound to.
	Name string
	// Keys whose checkpoints count. None: all checkpoints count, and none is proven.
	Keys []note.Verifier
	// Outside are checkpoints kept elsewhere than in the database.
	Outside []Published
	// From and To limit which records are read; zero To: to the end.
	From, To uint64
	// Stream is LEDGER; nil: not to be had.
	Stream Stream
	// Kept is the stream CHECKPOINTS; nil: not to be had.
	Kept *Kept
	// Workers read at once. Default: one more than there are cores.
	Workers int
	// ChunkRecords are read at once, a multiple of 256. Default 131,072: enough that
	// neither a query's own cost counts nor that ClickHouse reads whole granules at
	// both ends, few enough that several fit in memory.
	ChunkRecords uint64
	// Progress is told of every chunk.
	Progress func(done, total uint64)
	// Resume goes on where an earlier run stopped. Save keeps where this one is.
	Resume *State
	Save   func(State) error
}

// run is one verification.
type run struct {
	o       Options
	source  Source
	g       gathered
	extent  Extent
	end     uint64 // of what is read
	ledger  uint64 // where the ledger ends
	retired []Retirement
	w       *walk
	read    uint64
	report  Report
}

// Run verifies. An error says that it could not be done or was interrupted;
// whether the ledger is good, the Report says.
func Run(ctx context.Context, source Source, o Options) (Report, error) {
	r := &run{o: o, source: source}
	began := time.Now()
	if err := r.prepare(ctx); err != nil {
		return r.report, err
	}
	if err := r.walkAll(ctx); err != nil {
		return r.report, err
	}
	if err := r.conclude(ctx); err != nil {
		return r.report, err
	}
	r.report.Seconds = time.Since(began).Seconds()
	return r.report, nil
}

// prepare reads the checkpoints before it asks where the ledger ends: so every
// one of them must be of records that are there.
func (r *run) prepare(ctx context.Context) error {
	stored, err := r.source.Checkpoints(ctx)
	if err != nil {
		return err
	}
	r.g = gather(append(stored, r.o.Outside...), r.o.Keys)
	if r.extent, err = r.source.Extent(ctx); err != nil {
		return err
	}
	actions, err := r.source.Actions(ctx, record.ActionRetired)
	if err != nil {
		return err
	}
	back, err := r.source.Actions(ctx, record.ActionKept)
	if err != nil {
		return err
	}
	r.retired = retirements(actions, back)
	var gone uint64
	for _, x := range r.retired {
		for _, span := range x.Ranges {
			gone += span.Last - span.First + 1
		}
	}
	gone = min(gone, r.extent.End) // forged ranges must not make the ledger endless
	var far []Record
	if known := r.extent.known(gone + slack); r.extent.End > known {
		if far, err = r.source.Beyond(ctx, known, maxStrays); err != nil {
			return err
		}
	}
	r.ledger = r.extent.end(gone, uint64(len(far)))
	r.end = r.ledger
	if r.o.To > 0 {
		r.end = min(r.o.To, r.ledger)
	}
	if r.o.From > r.end {
		return fmt.Errorf("%w: record %d is behind the end of what is to be verified, %d", ErrRange, r.o.From, r.end)
	}
	return r.start(ctx)
}

// maxStrays are listed of the rows behind the ledger's end.
const maxStrays = 1000

// ErrRange says that the records asked for are not there.
var ErrRange = errors.New("no such records")

// whole says whether the run is over the whole ledger.
func (r *run) whole() bool { return r.o.From == 0 && r.end == r.ledger }

// start makes the walk, or takes one up.
func (r *run) start(ctx context.Context) error {
	var covered uint64
	if n := len(r.g.trusted); n > 0 {
		covered = r.g.trusted[n-1].Size
	}
	// The newest tiles may still be on their way.
	tiledTo := min(covered, r.ledger) / merkle.TileWidth
	if s := r.o.Resume; s != nil && r.whole() {
		if s.Ledger == r.binding(s.Next) && s.Next <= r.end {
			w, err := s.walk(r.g.trusted, r.source.Tile, tiledTo)
			if err != nil {
				return err
			}
			r.w, r.read = w, s.Read
			r.w.gone.listed = listed(r.retired)
			r.report.ResumedAt = s.Next
			return nil
		}
		r.report.Notes = append(r.report.Notes, "the state is of another ledger or of other checkpoints: the run began anew")
	}
	r.w = newWalk(r.g.trusted, r.source.Tile, tiledTo)
	r.w.gone.listed = listed(r.retired)
	if first := r.o.From &^ (merkle.TileWidth - 1); first > 0 {
		r.w.partial = true
		if err := r.w.skip(ctx, first, r.source.Tile); err != nil {
			return err
		}
		for r.w.next < len(r.g.trusted) && r.g.trusted[r.w.next].Size <= first {
			r.w.next++
		}
	}
	return nil
}

// binding names the ledger and what was known of it before next.
func (r *run) binding(next uint64) string {
	h := sha256.New()
	fmt.Fprintln(h, r.o.Name)
	for _, k := range r.o.Keys {
		fmt.Fprintf(h, "%s+%08x\n", k.Name(), k.KeyHash())
	}
	for _, c := range r.g.trusted {
		if c.Size <= next {
			fmt.Fprintf(h, "%d %x\n", c.Size, c.Root)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// job is one chunk on its way through the workers.
type job struct {
	first, end uint64
	done       chan jobResult
}

type jobResult struct {
	chunkResult
	rows uint64
	err  error
}

// readEnd is one behind the last record of the tiles that hold what was asked for.
func (r *run) readEnd() uint64 {
	if r.whole() {
		return r.end
	}
	return min((r.end+merkle.TileWidth-1)&^(merkle.TileWidth-1), r.ledger)
}

// walkAll reads in parallel and walks in order.
func (r *run) walkAll(ctx context.Context) error {
	until := r.readEnd()
	if err := r.walkTo(ctx, until); err != nil {
		return err
	}
	if r.whole() {
		return nil
	}
	return r.reach(ctx)
}

// reach goes on behind a range to the first checkpoint that covers it.
func (r *run) reach(ctx context.Context) error {
	i := slices.IndexFunc(r.g.trusted, func(c Checkpoint) bool { return c.Size >= r.end })
	if i < 0 || r.g.trusted[i].Size > r.ledger || r.w.good >= r.end {
		return nil
	}
	size := r.g.trusted[i].Size
	if size <= r.w.rows.size {
		return nil
	}
	r.w.partial = true
	for r.w.next < len(r.g.trusted) && r.g.trusted[r.w.next].Size < size {
		r.w.next++
	}
	if full := size &^ (merkle.TileWidth - 1); full > r.w.rows.size {
		if r.w.rows.size%merkle.TileWidth != 0 {
			return nil
		}
		if err := r.w.skip(ctx, full, r.source.Tile); err != nil {
			return err
		}
		r.w.judge()
	}
	if size > r.w.rows.size {
		r.report.Reached = &Range{r.w.rows.size, min(r.ledger, (size+merkle.TileWidth-1)&^(merkle.TileWidth-1))}
		return r.walkTo(ctx, min(r.ledger, (size+merkle.TileWidth-1)&^(merkle.TileWidth-1)))
	}
	return nil
}

func (r *run) walkTo(ctx context.Context, end uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	workers := r.o.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0) + 1
	}
	chunk := r.o.ChunkRecords &^ (merkle.TileWidth - 1)
	if chunk == 0 {
		chunk = defaultChunk
	}
	jobs, order := make(chan *job), make(chan *job, 2*workers)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range workers {
		wg.Go(func() { r.work(ctx, jobs) })
	}
	wg.Go(func() {
		defer close(order)
		defer close(jobs)
		for first := r.w.rows.size; first < end; first += chunk {
			j := &job{first: first, end: min(first+chunk, end), done: make(chan jobResult, 1)}
			select { // order first: it bounds how far the workers are ahead
			case order <- j:
			case <-ctx.Done():
				return
			}
			select {
			case jobs <- j:
			case <-ctx.Done():
				return
			}
		}
	})
	return r.collect(ctx, order, end)
}

func (r *run) collect(ctx context.Context, order <-chan *job, end uint64) error {
	for n := 1; ; n++ {
		j, more := <-order
		if !more {
			return ctx.Err()
		}
		var got jobResult
		select {
		case got = <-j.done:
		case <-ctx.Done():
			return r.interrupted(ctx.Err())
		}
		if got.err != nil {
			return r.interrupted(got.err)
		}
		if err := r.w.add(ctx, got.chunkResult); err != nil {
			return err
		}
		r.read += got.rows
		if r.o.Progress != nil {
			r.o.Progress(j.end, end)
		}
		if n%saveEvery == 0 && j.end < end {
			if err := r.save(); err != nil {
				return err
			}
		}
	}
}

// interrupted keeps how far the run came.
func (r *run) interrupted(err error) error { return errors.Join(err, r.save()) }

func (r *run) save() error {
	if r.o.Save == nil || !r.whole() || r.w.rows.size%merkle.TileWidth != 0 {
		return nil
	}
	return r.o.Save(r.w.state(r.binding(r.w.rows.size), r.read))
}

func (r *run) work(ctx context.Context, jobs <-chan *job) {
	var reader ChunkReader
	defer func() {
		if reader != nil {
			_ = reader.Close()
		}
	}()
	for j := range jobs {
		if reader == nil {
			var err error
			if reader, err = r.source.Open(ctx); err != nil {
				j.done <- jobResult{err: err}
				continue
			}
		}
		c, err := reader.Chunk(ctx, j.first, j.end)
		if err != nil {
			j.done <- jobResult{err: err}
			continue
		}
		j.done <- jobResult{chunkResult: inspect(c, r.w.tiledTo), rows: uint64(len(c.Rows))}
	}
}

// zero is the hash of nothing known.
var zero tlog.Hash
