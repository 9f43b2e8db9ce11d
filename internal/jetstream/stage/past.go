package stage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// findBound keeps a search in a stream from holding a message for ever. What
	// was read until then is kept for the next try.
	findBound = 30 * time.Second
	// lookBack is how much further back a search reads than it must: what waits
	// does not come in order.
	lookBack = time.Minute
	// pastKept is how long what was read is kept that nobody asks for.
	pastKept = 10 * time.Minute
)

// past is what was stated on some subjects, by message id: after an outage, or
// under a load that is too high, much may be in hand that waited for longer than
// the stream remembers ids, and each statement is read once for all of it.
type past struct {
	mu   sync.Mutex // guards what follows
	used time.Time
	seqs map[[16]byte]uint64 // nil: nothing was read
	// first and last are the sequences between which everything was read; from is
	// the time that first stands for, zero when it is the beginning.
	first, last uint64
	from        time.Time
	// until is when the last reading to the stream's end began. What was stated
	// before is in seqs.
	until time.Time
	// behind is where a reading back that did not come to its end goes on.
	behind struct{ first, next uint64 }
	epoch  time.Time // when the stream was made: its sequences mean something in it alone
}

func digestOf(id string) [16]byte {
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:16])
}

// find looks on subjects for a statement that was stored since a time and whose
// id the stream may have forgotten; nil means that there is none of those stored
// before until. fresh looks for all that was stored before now.
//
// A search is complete or an error: that something did not come in time is never
// taken for its absence.
func (j *Journal) find(ctx context.Context, subjects []string, id string, since time.Time, fresh bool) (stands []byte,
	until time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, findBound)
	defer cancel()
	p := j.pastOf(subjects)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = j.now()
	for range 2 {
		if err := j.cover(ctx, p, subjects, since, fresh); err != nil {
			return nil, until, fmt.Errorf("searching %s for %s: %w", j.stream, id, err)
		}
		seq, ok := p.seqs[digestOf(id)]
		if !ok {
			return nil, p.until, nil
		}
		m, err := j.leader.At(ctx, seq)
		if err == nil && m.Header.Get(nats.MsgIdHdr) == id {
			return m.Data, p.until, nil
		}
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, until, fmt.Errorf("searching %s for %s: %w", j.stream, id, err)
		}
		p.forget() // the stream was trimmed, or made anew
	}
	return nil, until, fmt.Errorf("searching %s for %s: the stream changed meanwhile", j.stream, id)
}

// forget begins anew.
func (p *past) forget() {
	p.seqs, p.first, p.last, p.from, p.until, p.behind.first = nil, 0, 0, time.Time{}, time.Time{}, 0
}

// take notes a statement. One that was stated again once the stream had forgotten
// the first changes nothing: the first stands.
func (p *past) take(s seen) {
	id := digestOf(s.id)
	if seq, ok := p.seqs[id]; !ok || s.seq < seq {
		p.seqs[id] = s.seq
	}
}

// pastOf is what is known of subjects. It lets go of what nobody has asked for
// for a while.
func (j *Journal) pastOf(subjects []string) *past {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := strings.Join(subjects, " ")
	p := j.past[key]
	if p != nil {
		return p
	}
	for k, other := range j.past {
		if other.mu.TryLock() {
			if j.now().Sub(other.used) > pastKept {
				delete(j.past, k)
			}
			other.mu.Unlock()
		}
	}
	p = &past{}
	j.past[key] = p
	return p
}

// cover reads what p lacks of what was stated since a time, up to what the
// stream remembers by itself, or with fresh up to now.
func (j *Journal) cover(ctx context.Context, p *past, subjects []string, since time.Time, fresh bool) error {
	now, from := j.now(), since.Add(-lookBack)
	if j.unsure(since) {
		from = time.Time{} // the beginning
	}
	if p.reaches(from) && !fresh && !j.forgotten(p.until) {
		return nil
	}
	stream, err := j.js.Stream(ctx, j.stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", j.stream, err)
	}
	info := stream.CachedInfo()
	if !p.epoch.Equal(info.Created) || info.State.LastSeq < p.last {
		p.forget()
		p.epoch = info.Created
	}
	if !p.reaches(from) {
		if err := j.coverBack(ctx, p, subjects, from, info.State.LastSeq); err != nil {
			return err
		}
	}
	end, err := j.lastOn(ctx, subjects)
	if err != nil {
		return err
	}
	if end > p.last {
		next, err := j.scan(ctx, subjects, p.last+1, end, p.take)
		p.last = next - 1
		if err != nil {
			return err
		}
	}
	p.until = now
	return nil
}

// reaches says that what was stored from a time on was read as far back.
func (p *past) reaches(from time.Time) bool {
	return p.seqs != nil && (p.from.IsZero() || !from.IsZero() && !from.Before(p.from))
}

// coverBack reads what was stored from a time on and before the first that p knows.
func (j *Journal) coverBack(ctx context.Context, p *past, subjects []string, from time.Time, end uint64) (err error) {
	first := uint64(1)
	if !from.IsZero() {
		if first, err = j.firstSince(ctx, subjects, from); err != nil {
			return err
		}
		if first == 0 { // what comes, comes behind the end
			first = end + 1
		}
	}
	if p.seqs == nil {
		p.seqs, p.first, p.last, p.from = map[[16]byte]uint64{}, first, first-1, from
		return nil
	}
	if first < p.first {
		begin := first
		if p.behind.first > 0 && p.behind.first <= first {
			begin, first = p.behind.next, p.behind.first
		}
		next, err := j.scan(ctx, subjects, begin, p.first-1, p.take)
		if err != nil {
			p.behind.first, p.behind.next = first, next
			return err
		}
		p.first = first
	}
	p.from, p.behind.first = from, 0
	return nil
}
