package escalator

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// saveBound bounds one write of an incident, saveAgain the pause before the
	// next try: people are told meanwhile.
	saveBound = 2 * time.Second
	saveAgain = time.Second
)

// save stores the incident once the records of what it says are stored: if the
// process dies before, what was sent is sent again, under the same id. It
// returns when to try again.
func (a *actor) save(ctx context.Context, now time.Time) time.Time {
	if !a.dirty && !a.counted || a.unrecorded > 0 {
		return time.Time{}
	}
	if next := a.savedAt.Add(saveAgain); !a.dirty && now.Before(next) {
		return next // counts alone can wait: they are known from the problems
	}
	a.savedAt = now
	b, err := a.doc.Encode()
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, saveBound)
		defer cancel()
		var rev uint64
		if rev, err = a.s.kv.Update(ctx, streams.IncidentKey(a.id), b, a.revision); err == nil {
			a.revision, a.dirty, a.counted = rev, false, false
			return time.Time{}
		}
		if errors.Is(err, jetstream.ErrKeyExists) {
			if err = a.reload(ctx); err == nil {
				a.dirty = true
				return now // with the acknowledgement that was in between
			}
		}
	}
	a.s.log.Warn().Err(err).Str("incident_id", a.id).Msg(logevent.IncidentNotSaved)
	a.dirty, a.counted = false, true // at the pace of counts
	return now.Add(saveAgain)
}

// reload looks at what somebody else has written: an acknowledgement, or an
// earlier write of our own whose answer was lost.
func (a *actor) reload(ctx context.Context) error {
	e, err := a.s.kv.Get(ctx, streams.IncidentKey(a.id))
	if err != nil {
		return err
	}
	stored, err := escalation.DecodeIncident(e.Value())
	if err != nil {
		return err
	}
	a.revision = e.Revision()
	if stored.State == escalation.Acknowledged && a.doc.State == escalation.Open {
		a.acknowledge(acknowledgement{stored, e.Revision()})
	}
	return nil
}
