package sink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/jetstream/lease"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// errOvertaken ends a session: ClickHouse holds something else than this
// session wrote. Another sink wrote there, or an insert of an earlier session
// landed late.
var errOvertaken = errors.New("the ledger ends elsewhere than this sink left it")

// appendTimeout bounds one insert. It outlasts a slow disk's fsync and a burst
// of merges; past it the insert counts as uncertain, and the position is read again.
const appendTimeout = 60 * time.Second

// session writes from the ledger's position on until something fails. It
// leaves nothing to be cleaned up: whatever line the process dies on, the next
// session starts from the rows that are in ClickHouse.
func (s *Sink) session(ctx context.Context, l *lease.Lease) error {
	if err := s.o.Ledger.Migrate(ctx); err != nil {
		return err
	}
	at, err := s.o.Ledger.Position(ctx)
	if err != nil {
		return err
	}
	from, err := s.locate(ctx, at)
	if err != nil {
		return err
	}
	from.report(s.o.Log, at)
	p := &positionReporter{sink: s}
	// While ClickHouse takes nothing, sessions are short; LEDGER needs its room most of all then.
	if time.Since(s.trimmedAt) >= s.o.TrimEvery {
		p.say(ctx, at)
		s.trim(ctx, l, at)
	}
	known, err := s.knownIDs(ctx, at, from)
	if err != nil {
		return err
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r, err := s.open(ctx, at, from, known)
	if err != nil {
		return err
	}
	defer r.close()
	if s.o.Tree != nil {
		beside.Go(func() { s.o.Tree.Follow(ctx, at, l.Valid) })
	}
	s.writing(at)
	return s.write(ctx, l, r, at, p)
}

// knownIDs are those that records are compared with.
func (s *Sink) knownIDs(ctx context.Context, at ledger.Position, from start) (*recent, error) {
	limit := s.o.RecentIDs
	if at.Next > 0 {
		turned, err := s.o.Ledger.Turned(ctx, behind(at.Next, s.o.RecentIDsTurned), from.epoch)
		if err != nil {
			return nil, err
		}
		if turned || from.turned {
			limit = s.o.RecentIDsTurned
		}
	}
	known := newRecent(limit)
	if at.Next == 0 {
		return known, nil
	}
	return known, s.o.Ledger.IDs(ctx, behind(at.Next, limit), known.add)
}

func behind(next uint64, n int) uint64 { return next - min(next, uint64(n)) }

// write inserts what the reader hands over. at is where ClickHouse stands.
func (s *Sink) write(ctx context.Context, l *lease.Lease, r *reader, at ledger.Position, p *positionReporter) error {
	trim, say := time.NewTicker(s.o.TrimEvery), time.NewTicker(sayEvery)
	defer trim.Stop()
	defer say.Stop()
	p.say(ctx, at)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-r.failed:
			return err
		case <-trim.C:
			p.say(ctx, at) // first: what is removed must be known to be in ClickHouse
			s.trim(ctx, l, at)
		case <-say.C:
			p.say(ctx, at)
		case b := <-r.batches:
			if len(b.rows) > 0 {
				err := s.look(ctx, at, b)
				if err != nil {
					return err
				}
				if at, err = s.flush(ctx, l, at, b); err != nil {
					return err
				}
				s.writing(at)
			}
			b.stored()
		}
	}
}

// look finds out, before a batch that follows a wait, whether the ledger still
// ends where it did. Rows that somebody deleted meanwhile come back from LEDGER
// in the next session; what is inserted behind them would leave a hole for ever.
// A full batch follows the one before at once, and that one was read back.
func (s *Sink) look(ctx context.Context, at ledger.Position, b batch) error {
	if len(b.rows) >= s.o.BatchRecords || b.bytes >= s.o.BatchBytes {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	got, err := s.o.Ledger.Last(bounded)
	if err == nil && got != at {
		err = overtaken(got, at)
	}
	return err
}

func overtaken(got, want ledger.Position) error {
	return fmt.Errorf("%w: %d records up to %q, not %d up to %q", errOvertaken, got.Next, got.ID, want.Next, want.ID)
}

// flush stores a batch in as few inserts as it takes, and returns where
// ClickHouse stands after it.
func (s *Sink) flush(ctx context.Context, l *lease.Lease, at ledger.Position, b batch) (ledger.Position, error) {
	rest, most := b.rows, len(b.rows)
	for len(rest) > 0 {
		rows := rest[:min(ledger.SameMonth(rest), most)]
		next, err := s.insert(ctx, l, at, rows)
		if errors.Is(err, ledger.ErrOverlong) && len(rows) > 1 {
			most = len(rows) / 2
			continue
		}
		if err != nil {
			return at, err
		}
		at, rest = next, rest[len(rows):]
	}
	return at, nil
}

// insert stores rows, which begin at at.Next, and reads back that the ledger
// ends with them. Until it did, nothing of them counts as stored: an insert can
// land though it failed, and be dropped for its token though it succeeded.
func (s *Sink) insert(ctx context.Context, l *lease.Lease, at ledger.Position, rows []ledger.Row) (ledger.Position,
	error) {
	if !l.Valid() {
		return at, lease.ErrLost
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	if err := s.o.Ledger.Append(bounded, rows); err != nil {
		return at, err
	}
	got, err := s.o.Ledger.Last(bounded)
	if err != nil {
		return at, err
	}
	last := rows[len(rows)-1]
	want := ledger.Position{Next: last.Idx + 1, StreamSeq: last.StreamSeq, StreamEpoch: last.StreamEpoch,
		ID: last.Record.ID}
	if got != want {
		return at, overtaken(got, want)
	}
	s.metrics.inserts.Observe(time.Since(began).Seconds())
	s.metrics.stored.Add(float64(len(rows)))
	if s.o.Tree != nil {
		s.o.Tree.Landed(rows)
	}
	return want, nil
}

func (s *Sink) writing(at ledger.Position) {
	if !s.Status().Writing {
		s.o.Log.Info().Uint64("records", at.Next).Uint64("stream_seq", at.StreamSeq).Msg(logevent.LedgerSinkWriting)
	}
	s.reported = ""
	s.metrics.writing.Set(1)
	s.metrics.position.Set(float64(at.StreamSeq))
	s.status.Store(&Status{Writing: true, Stored: at.Next, StreamSeq: at.StreamSeq})
}
