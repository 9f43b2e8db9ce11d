package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// announce says what is to be said about alarms, in order.
func (w *Watchdog) announce(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case changes := <-w.alarms:
			for _, c := range changes {
				w.say(ctx, c)
			}
		}
	}
}

// say logs one change of an alarm, puts it on record, and asks for people to be
// told. If that cannot be stored, people are told directly: the alarm may be
// about what it would be stored in.
func (w *Watchdog) say(ctx context.Context, c change) {
	level := zerolog.ErrorLevel
	if c.Action == actionCleared {
		level = zerolog.InfoLevel
	}
	w.log.WithLevel(level).Str("code", string(c.Code)).Str("subject", c.Subject).Str("severity",
		string(c.Severity)).Str("detail", c.Detail).
		Str("next", c.Next).Time("raised_at", c.RaisedAt).Msg(c.Action)
	r := w.alarmRecord(c)
	t := escalation.Of(r)
	msgs, err := alarmMessages(r, t, c.Action != actionCleared && c.Code != NobodyToTell)
	if err != nil {
		w.log.Error().Err(err).Msg(logevent.AlarmNotStored)
		return
	}
	if w.connected() {
		bounded, cancel := context.WithTimeout(ctx, storeBound)
		defer cancel()
		if _, err = w.pub.PublishAll(bounded, msgs...); err == nil {
			return // read back from LEDGER, it is followed until people are told
		}
		w.log.Warn().Err(err).Str("code", string(c.Code)).Msg(logevent.AlarmNotStored)
	}
	if len(msgs) > 1 {
		at := task{key: keyOf(r.ID), by: c.ToldAt.Add(tellWithin), try: 1}
		w.tell(ctx, []alert{{task: at, Problem: t}})
	}
}

func (w *Watchdog) alarmRecord(c change) record.Record {
	about := c.Detail + "; " + c.Next
	if c.Subject != "" {
		about = c.Subject + ": " + about
	}
	return record.Record{ID: record.AlarmID(string(c.Code), c.Subject, c.RaisedAt, c.Words), Kind: record.OperatorAction,
		At:     time.Now(),
		Tenant: w.alarmTenant(c), Actor: Actor, Action: c.Action, Reason: string(c.Code), Detail: about,
		Outcome:    string(c.Severity),
		Dispatcher: w.o.Name, Software: w.o.Software}
}

// alarmTenant is whose policies say who is told: those for Tenant, else those
// for the default tenant.
func (w *Watchdog) alarmTenant(c change) string {
	for _, tenant := range []string{Tenant, defaultTenant} {
		t := escalation.Problem{Kind: record.OperatorAction, Tenant: tenant, Reason: string(c.Code)}
		if escalation.Choose(w.policies.All(), t).Revision > 0 { // one that somebody made
			return tenant
		}
	}
	return Tenant
}

const defaultTenant = "default"

func alarmMessages(r record.Record, t escalation.Problem, tell bool) ([]*nats.Msg, error) {
	m, err := r.Message()
	if err != nil || !tell {
		return []*nats.Msg{m}, err
	}
	ask, err := t.Message()
	if err != nil {
		return nil, fmt.Errorf("alarm: %w", err)
	}
	return []*nats.Msg{m, ask}, nil
}
