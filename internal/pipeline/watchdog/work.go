package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// maxTasks is how much is in hand at once; the nearest deadlines go first.
	maxTasks = 20_000
	// againMin and againMax bound the pause after a telling that failed.
	againMin = 2 * time.Second
	againMax = time.Minute
	// nobodyPause is the pause before it is looked again whether there is anybody
	// to tell: the dead letters of a deployment without policies cost nothing.
	nobodyPause = 5 * time.Minute
)

// result is what came of a task.
type result struct {
	key   key
	step  step
	ok    bool
	later bool // nothing can come of it soon
	gone  bool // its record is no longer in LEDGER: nothing can be said of it
}

// give hands tasks to the worker, unless it is busy: then they come again at
// the next turn.
func (r *reader) give(tasks []task) {
	if len(tasks) == 0 || !r.w.Leading() {
		return
	}
	now := time.Now()
	var ready []task
	for _, t := range tasks {
		if _, ok := r.busy[t.key]; ok || now.Before(r.again[t.key].at) {
			continue
		}
		t.try = r.again[t.key].times + 1
		ready = append(ready, t)
	}
	if len(ready) == 0 {
		return
	}
	sortByDeadline(ready)
	ready = ready[:min(len(ready), maxTasks-len(r.busy))]
	select {
	case r.w.tasks <- ready:
		for _, t := range ready {
			r.busy[t.key] = struct{}{}
		}
	default:
	}
}

// finish takes in what came of tasks. That people were told is on record, too;
// it is noted here at once so that nothing is told again meanwhile.
func (r *reader) finish() {
	for {
		select {
		case d := <-r.w.done:
			r.finishOne(d)
			continue
		default:
		}
		return
	}
}

func (r *reader) finishOne(d result) {
	delete(r.busy, d.key)
	switch {
	case d.gone:
		delete(r.owed.by, d.key)
		delete(r.again, d.key)
	case d.later:
		r.again[d.key] = attempted{0, time.Now().Add(nobodyPause)}
	case !d.ok:
		a := r.again[d.key]
		r.again[d.key] = attempted{a.times + 1, time.Now().Add(min(againMin<<min(a.times, 10), againMax))}
	default:
		delete(r.again, d.key)
		switch d.step {
		case handOver:
			r.owed.mark(d.key, handedOver)
		case count:
			r.owed.mark(d.key, tallied)
		case tell:
			if e, ok := r.owed.by[d.key]; ok {
				r.owed.told(d.key, &record.Record{At: time.Now()}, e.last)
			}
		}
	}
}

// work does the tasks, a batch at a time.
func (w *Watchdog) work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case tasks := <-w.tasks:
			w.do(ctx, tasks)
		}
	}
}

// alert is a task with what is to be said.
type alert struct {
	task
	escalation.Problem
	overdue bool // there is no verdict on record
}

func (w *Watchdog) do(ctx context.Context, tasks []task) {
	by := map[step][]alert{}
	for _, t := range tasks {
		c, err := w.alertOf(ctx, t)
		switch {
		case err == nil && t.step == tell && escalation.Choose(w.policies.All(), c.Problem).Revision == 0:
			w.log.Error().Str("tenant", c.Tenant).Str("event_id", c.EventID).Str("endpoint_id", c.EndpointID).Str("reason",
				c.Reason).Msg(logevent.WatchdogNobodyToTell + ": no policy is for it; make one with: waybill escalation-policy create")
			w.done <- result{key: t.key, step: t.step, later: true}
		case errors.Is(err, jetstream.ErrMsgNotFound):
			w.log.Error().Uint64("seq", t.seq).Msg(logevent.WatchdogRecordGone +
				": a delivery is overdue, and its record is no longer " +
				"in LEDGER; look in ClickHouse")
			w.done <- result{key: t.key, step: t.step, gone: true}
		case err != nil:
			w.log.Warn().Err(err).Uint64("seq", t.seq).Msg(logevent.WatchdogRecordUnread)
			w.done <- result{key: t.key, step: t.step}
		default:
			by[t.step] = append(by[t.step], c)
		}
	}
	// Telling comes first: it is what the others wait for.
	w.report(by[tell], w.tell(ctx, by[tell]))
	w.report(by[handOver], w.handOver(ctx, by[handOver]))
	w.report(by[count], w.count(ctx, by[count]))
}

func (w *Watchdog) report(cs []alert, ok map[key]bool) {
	for _, c := range cs {
		w.done <- result{key: c.key, step: c.step, ok: ok[c.key]}
	}
}

// alert reads what there is to say from the obligation's record.
func (w *Watchdog) alertOf(ctx context.Context, t task) (alert, error) {
	ctx, cancel := context.WithTimeout(ctx, storeBound)
	defer cancel()
	m, err := streams.ReadFrom(w.js, streams.Ledger).At(ctx, t.seq)
	if err != nil {
		return alert{}, err
	}
	r, err := record.Decode(m.Data)
	if err != nil {
		return alert{}, err
	}
	c := alert{task: t, Problem: escalation.Of(r)}
	if r.Kind == record.DeliveryOwed || r.Kind == record.Attempt {
		c.overdue = true
		c.ID, c.Kind = aboutDelivery(&r), record.DeliveryDeadLetter
		c.Reason, c.Why = overdueReason, "it has no verdict though its attempts should have ended; the watchdog says so, "+
			"not a dispatcher"
		c.Attempts = max(r.Attempt, 0)
		c.At = time.Now().UTC()
	}
	return c, nil
}

// overdueReason is the reason of a delivery whose time is over, whoever says so.
const overdueReason = "deadline_exceeded"

// handOver asks the escalator: for what it was never asked, or may have lost.
// Of what it knows it tells nobody again.
func (w *Watchdog) handOver(ctx context.Context, cs []alert) map[key]bool {
	var msgs []*nats.Msg
	for _, c := range cs {
		ask, err := c.Message()
		if err != nil {
			w.log.Error().Err(err).Msg(logevent.WatchdogNotHandedOver)
			continue
		}
		r := escalation.Try{Action: actionHandedOver, Actor: Actor, Detail: c.detail(), Program: w.o.Name,
			Software: w.o.Software,
			Result:   channel.Result{Outcome: actionHandedOver, Class: outcome.ClassRetryable}}.Record(c.Problem)
		r.ID, r.At = record.WatchdogID(record.Escalation, actionHandedOver, c.ID), time.Now()
		on, err := r.Message()
		if err != nil {
			w.log.Error().Err(err).Msg(logevent.WatchdogNotHandedOver)
			continue
		}
		w.log.Warn().Str("tenant", c.Tenant).Str("event_id", c.EventID).Str("endpoint_id", c.EndpointID).Str("reason",
			c.Reason).
			Bool("overdue", c.overdue).Time("deliver_by", c.DeliverBy).Msg(logevent.WatchdogHandedOver)
		msgs = append(msgs, ask, on)
	}
	return w.publish(ctx, cs, msgs, actionHandedOver)
}

// count puts on record that nobody was told within five minutes.
func (w *Watchdog) count(ctx context.Context, cs []alert) map[key]bool {
	var msgs []*nats.Msg
	for _, c := range cs {
		r := record.Record{ID: record.WatchdogID(record.OperatorAction, actionNotTold, c.ID), Kind: record.OperatorAction,
			At:     time.Now(),
			Tenant: c.Tenant, EventID: c.EventID, EndpointID: c.EndpointID, EventType: c.EventType, ReplayID: c.ReplayID,
			DeliverBy: c.DeliverBy,
			Actor:     Actor, Action: actionNotTold, Reason: c.Reason, Detail: c.ID, Dispatcher: w.o.Name,
			Software: w.o.Software}
		m, err := r.Message()
		if err != nil {
			w.log.Error().Err(err).Msg(logevent.WatchdogNotCounted)
			continue
		}
		w.log.Error().Str("tenant", c.Tenant).Str("event_id", c.EventID).Str("endpoint_id", c.EndpointID).Str("reason",
			c.Reason).Msg(logevent.WatchdogNotToldInTime)
		msgs = append(msgs, m)
	}
	ok := w.publish(ctx, cs, msgs, actionNotTold)
	for _, c := range cs {
		if ok[c.key] && c.Kind != record.OperatorAction {
			w.metrics.late.Inc()
		}
	}
	return ok
}

// publish stores messages for alerts, all or none as far as is known.
func (w *Watchdog) publish(ctx context.Context, cs []alert, msgs []*nats.Msg, action string) map[key]bool {
	ok := map[key]bool{}
	if len(msgs) == 0 {
		return ok
	}
	ctx, cancel := context.WithTimeout(ctx, storeBound)
	defer cancel()
	if _, err := w.pub.PublishAll(ctx, msgs...); err != nil {
		w.log.Warn().Err(err).Str("action", action).Msg(logevent.WatchdogNotStored)
		return ok
	}
	w.metrics.told.WithLabelValues(action).Add(float64(len(cs)))
	for _, c := range cs {
		ok[c.key] = true
	}
	return ok
}

// detail is what a record says of the alert besides.
func (c alert) detail() string {
	if !c.overdue {
		return ""
	}
	return fmt.Sprintf("no verdict is on record (record %d of LEDGER)", c.seq)
}
