package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// What ended stays ended. LEDGER knows ids for two minutes: a record that is
// stated again after that stands in it a second time, perhaps behind the end of
// what it is about, which is forgotten here. So what was first true long before
// it was stated is in doubt, and before anybody is told of it, LEDGER is asked
// whether it ended in between. Nothing needs to be remembered for that, and a
// watchdog that starts behind the end knows the same.
const (
	// restatedAfter is less than the time that ids are known for, and more than
	// a record takes to be stated first.
	restatedAfter = time.Minute
	// readBound bounds one reading of LEDGER for what is in doubt. What cannot be
	// read by then is told of: silence would be worse.
	readBound = 5 * time.Minute
	// askSlack is how far apart the clocks of a stage and the server may be.
	askSlack = time.Minute
)

// doubt is an obligation that may have ended before it was stated again.
type doubt struct {
	key    key
	since  time.Time // it did not end before
	before uint64    // sequence of the record that is in doubt
}

// doubtful notes that what k is about was true since a time, long before the
// record says so.
func (o *obligations) doubtful(k key, since time.Time) {
	if _, ok := o.by[k]; ok {
		o.doubts[k] = since.UnixMilli()
	}
}

// firstAt is when what a record states was first true; zero: as it says.
func firstAt(r *record.Record) time.Time {
	if r.ReplayID != "" {
		return ids.Time(ids.Replay, r.ReplayID)
	}
	return r.StoredAt
}

// late says whether a record may be stated again.
func late(r *record.Record) (since time.Time, ok bool) {
	since = firstAt(r)
	return since, !since.IsZero() && r.At.Sub(since) > restatedAfter
}

// forget ends what is kept of an obligation.
func (o *obligations) forget(k key) {
	delete(o.by, k)
	delete(o.doubts, k)
}

// unsure are the obligations that need something and are in doubt, as the last
// survey saw them.
func (o *obligations) unsure() []doubt {
	var out []doubt
	for _, k := range o.waiting {
		if since, ok := o.doubts[k]; ok {
			out = append(out, doubt{k, time.UnixMilli(since), o.by[k].first})
		}
	}
	return out
}

// answer takes in what LEDGER says of them.
func (o *obligations) answer(asked []doubt, ended map[key]bool) {
	for _, d := range asked {
		delete(o.doubts, d.key)
		if ended[d.key] && o.by[d.key].first == d.before {
			o.forget(d.key)
		}
	}
}

// endOf is the obligation that a record ends; ok: it ends one.
func endOf(r *record.Record) (k key, ok bool) {
	switch {
	case r.Kind == record.Attempt && r.Decision == string(outcome.VerdictDelivered), r.Kind == record.DeliveryDeadLetter,
		r.Kind == record.DeliveryCancelled:
		return keyOf(aboutDelivery(r)), true
	case r.Kind == record.EventRejected:
		return keyOf(r.ID), true
	}
	return k, false
}

// askLedger reads LEDGER for the ends of what is in doubt.
func askLedger(ctx context.Context, js jetstream.JetStream, asked []doubt) (map[key]bool, error) {
	want, from, last := map[key]uint64{}, asked[0].since, uint64(0)
	for _, d := range asked {
		want[d.key] = d.before
		last = max(last, d.before)
		if d.since.Before(from) {
			from = d.since
		}
	}
	from = from.Add(-askSlack)
	c, err := js.OrderedConsumer(ctx, streams.Ledger, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &from, InactiveThreshold: time.Minute})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", streams.Ledger, err)
	}
	messages, err := c.Messages(jetstream.PullMaxMessages(readBatch))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", streams.Ledger, err)
	}
	defer messages.Stop()
	ended := map[key]bool{}
	for {
		m, err := messages.Next(jetstream.NextContext(ctx)) // at last the record that is in doubt
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", streams.Ledger, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		if rec, err := record.Decode(m.Data()); err == nil && meta.Sequence.Stream < last {
			if k, ok := endOf(&rec); ok && meta.Sequence.Stream < want[k] {
				ended[k] = true
			}
		}
		if meta.Sequence.Stream >= last || meta.NumPending == 0 {
			return ended, nil
		}
	}
}

// asking is one reading of LEDGER under way.
type asking struct {
	owed  *obligations // whose doubts they are
	asked []doubt
	ended map[key]bool
	err   error
}

// clear asks about what is in doubt, beside the reading, and takes in what came
// of it. One question is under way at a time.
func (r *reader) clear(ctx context.Context) {
	select {
	case a := <-r.answers:
		r.asking = false
		switch {
		case a.owed != r.owed: // LEDGER was opened anew
		case a.err == nil || errors.Is(a.err, context.DeadlineExceeded):
			a.owed.answer(a.asked, a.ended)
		case ctx.Err() == nil:
			r.w.log.Warn().Err(a.err).Int("deliveries", len(a.asked)).Msg(logevent.WatchdogDoubtsNotCleared)
		}
	default:
	}
	asked := r.owed.unsure()
	if r.asking || len(asked) == 0 {
		return
	}
	r.asking = true
	owed := r.owed
	go func() {
		bounded, cancel := context.WithTimeout(ctx, readBound)
		defer cancel()
		ended, err := askLedger(bounded, r.w.js, asked)
		r.answers <- asking{owed, asked, ended, err}
	}()
}
