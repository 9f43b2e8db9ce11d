package custody

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/lease"
	"github.com/waybill-dev/waybill/streams"
)

// rangesPerRecord keeps one record far below what a message may hold.
const rangesPerRecord = 2000

// LeastYears is what HIPAA asks of required documentation, 45 CFR 164.316(b)(2)(i).
const LeastYears = 6

// TooYoung says that a cutoff would let records go that must be kept.
func TooYoung(cutoff, now time.Time) bool { return cutoff.After(now.UTC().AddDate(-LeastYears, 0, 0)) }

// Candidate is a month, and why it is kept if it is.
type Candidate struct {
	Month   string `json:"month"`
	Records uint64 `json:"records"`
	Kept    string `json:"kept,omitempty"`
	Retired bool   `json:"retired"`

	month uint32
	last  uint64
}

// Plan says for each month that ends at cutoff or before whether it can go.
func (k *Keeper) Plan(ctx context.Context, cutoff time.Time) ([]Candidate, error) {
	s, err := k.State(ctx)
	if err != nil {
		return nil, err
	}
	months, err := k.DB.Months(ctx)
	if err != nil {
		return nil, err
	}
	out := []Candidate{}
	for _, m := range months {
		if Begin(m.Month).AddDate(0, 1, 0).After(cutoff) {
			continue
		}
		c := Candidate{Month: Name(m.Month), Records: m.Rows, month: m.Month, last: m.Last}
		if c.Kept, err = k.kept(ctx, s, c, cutoff); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// kept says why a month cannot go; "": it can.
func (k *Keeper) kept(ctx context.Context, s State, c Candidate, cutoff time.Time) (string, error) {
	if why, err := k.held(ctx, s, c.month); err != nil || why != "" {
		return why, err
	}
	for _, r := range s.Retirements {
		in, err := k.inMonth(ctx, c.month, r.Idx)
		if err != nil {
			return "", err
		}
		if in {
			return "has the record of a retirement (" + Name(r.Month) + "), which stays", nil
		}
	}
	inForce, err := k.DB.InForce(ctx, c.month, cutoff)
	if err != nil {
		return "", err
	}
	if inForce != "" {
		return "has settings that were in force within the retention: " + inForce, nil
	}
	checkpoint, tiles, err := k.DB.Covered(ctx, c.last)
	switch {
	case err != nil:
		return "", err
	case !checkpoint:
		return "no checkpoint covers it", nil
	case !tiles:
		return "its hashes are not all stored", nil
	}
	return "", nil
}

// held says which hold keeps a month; "": none.
func (k *Keeper) held(ctx context.Context, s State, month uint32) (string, error) {
	for _, h := range s.Active() {
		own, err := k.inMonth(ctx, month, h.Idx)
		if err != nil {
			return "", err
		}
		if own {
			return "has the record of " + h.ID + ", which is active", nil
		}
		touches, err := k.DB.Touches(ctx, month, h.Scope())
		if err != nil {
			return "", err
		}
		if touches {
			return "held by " + h.ID + " (" + h.Covers() + ")", nil
		}
	}
	return "", nil
}

func (k *Keeper) inMonth(ctx context.Context, month uint32, idx uint64) (bool, error) {
	m, found, err := k.DB.MonthOf(ctx, idx)
	return found && m == month, err
}

// Retire drops what Plan lets go. Only one may at a time.
//
// For each month: the retirement goes on record; once that is in ClickHouse at
// index r, every hold with a smaller index is there too, because records come in
// order. A hold that touches the month then, also one behind r, takes the
// retirement back. Else the month is dropped. So a hold wins unless it came
// between that last look and the drop; its index is then behind r, and whoever
// added it is told. Dying anywhere leaves a retirement on record whose rows are
// still there: the next run takes it up at the look for holds.
func (k *Keeper) Retire(ctx context.Context, cutoff time.Time, actor, reason string) ([]Candidate, error) {
	var plan []Candidate
	o := lease.Options{JS: k.JS, Key: streams.RetireLease, Name: ids.New("retire_", k.Now()), Log: k.Log}
	err := lease.Hold(ctx, o, func(held context.Context, l *lease.Lease) (err error) {
		plan, err = k.Plan(held, cutoff)
		for i := range plan {
			if err != nil {
				break
			}
			if plan[i].Kept != "" {
				// What was on record as retired, and must stay after all, is taken back.
				_, err = k.takeBack(held, plan[i].month, actor, plan[i].Kept)
				continue
			}
			err = k.retire(held, l, &plan[i], actor, reason)
		}
		return err
	})
	return plan, err
}

// pending is a retirement of a month that is on record whole, and some of whose
// records are still there.
func (k *Keeper) pending(ctx context.Context, month uint32) (State, *Retirement, error) {
	s, err := k.State(ctx)
	if err != nil {
		return s, nil, err
	}
	for i := range s.Retirements {
		r := &s.Retirements[i]
		if r.Month != month || !r.Complete() {
			continue
		}
		if left, err := k.DB.RowsIn(ctx, r.Ranges); err != nil || left > 0 {
			return s, r, err
		}
	}
	return s, nil, nil
}

func (k *Keeper) retire(ctx context.Context, l *lease.Lease, c *Candidate, actor, reason string) error {
	_, r, err := k.pending(ctx, c.month)
	if err != nil {
		return err
	}
	if r == nil {
		if err := k.state(ctx, c, actor, reason); err != nil {
			return err
		}
	}
	if k.Before != nil {
		if err := k.Before(c.month); err != nil {
			return err
		}
	}
	s, r, err := k.pending(ctx, c.month)
	if err != nil {
		return err
	}
	if r == nil {
		return fmt.Errorf("month %s is not on record as retired although it was put there; run this again", c.Month)
	}
	if c.Kept, err = k.held(ctx, s, c.month); err != nil {
		return err
	}
	if c.Kept != "" {
		_, err := k.takeBack(ctx, c.month, actor, c.Kept)
		return err
	}
	if !l.Valid() {
		return lease.ErrLost
	}
	if err := k.DB.DropMonth(ctx, c.month, r.Ranges); err != nil {
		return err
	}
	c.Retired = true
	return nil
}

// state puts a retirement on record: which records will be gone.
func (k *Keeper) state(ctx context.Context, c *Candidate, actor, reason string) error {
	ranges, err := k.DB.MonthRanges(ctx, c.month)
	if err != nil {
		return err
	}
	id := ids.New("ret_", k.Now())
	parts := (len(ranges) + rangesPerRecord - 1) / rangesPerRecord
	for n := range parts {
		some := ranges[n*rangesPerRecord : min((n+1)*rangesPerRecord, len(ranges))]
		what := record.Retirement{ID: id, Month: c.month, Parts: parts, Part: n + 1, Ranges: some}
		if _, err := k.putOnRecord(ctx, record.ActionRetired, actor, reason, what.Detail(), what.Settings()); err != nil {
			return err
		}
	}
	c.Records = record.RangesCount(ranges)
	return nil
}

// takeBack takes back every retirement of a month of which nothing is gone yet.
func (k *Keeper) takeBack(ctx context.Context, month uint32, actor, why string) (n int, err error) {
	s, err := k.State(ctx)
	if err != nil {
		return 0, err
	}
	for _, r := range s.Retirements {
		if r.Month != month || r.Kept {
			continue
		}
		// What is gone stays on record as retired.
		if left, err := k.DB.RowsIn(ctx, r.Ranges); err != nil || left < record.RangesCount(r.Ranges) {
			if err != nil {
				return n, err
			}
			continue
		}
		what := record.Retirement{ID: r.ID, Month: month}
		if _, err := k.putOnRecord(ctx, record.ActionKept, actor, why, what.Detail(), what.Settings()); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
