package escalator

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// maxNamed is how many dead letters get a record of their own of a try that
// failed or was a reminder. When a channel first tells of them, all do.
const maxNamed = 100

// record puts a try on record: once for each dead letter that the message tells
// of. It goes on until it is stored or ctx ends.
func (s *session) record(ctx context.Context, j *job, r channel.Result) {
	s.observe(j, r)
	named, rest := j.members, 0
	if (!r.Told() || !j.first) && len(named) > maxNamed {
		named, rest = named[:maxNamed], len(named)-maxNamed
	}
	kind, address := s.kindOf(j.channel)
	try := escalation.Try{Incident: j.a.id, Policy: j.policy, Step: j.step, Channel: j.channel, Kind: kind,
		Address: address, Message: j.message.ID, Number: j.try, Action: actionOf(j), Result: r, Program: s.o.Name,
		Software: s.o.Software}
	if rest > 0 {
		try.Detail = fmt.Sprintf("the message told of %d more", rest)
	}
	msgs := make([]*nats.Msg, 0, len(named))
	for _, m := range named {
		rec := try.Record(m.Problem)
		msg, err := rec.Message()
		if err != nil {
			s.log.Error().Err(err).Msg(logevent.EscalationNotRecorded)
			continue
		}
		msgs = append(msgs, msg)
	}
	s.publish(ctx, msgs)
}

func actionOf(j *job) string {
	switch {
	case j.action == channel.Resolve:
		return "resolve"
	case j.again:
		return "reminder"
	}
	return "trigger"
}

func (s *session) kindOf(name string) (kind, address string) {
	if c, ok := s.channels.Get(name); ok {
		return string(c.Kind), c.Address()
	}
	return "", ""
}

// chunk bounds how many records are under way at once.
const chunk = 1000

func (s *session) publish(ctx context.Context, msgs []*nats.Msg) {
	for len(msgs) > 0 {
		n := min(chunk, len(msgs))
		if _, err := s.pub.PublishAll(ctx, msgs[:n]...); err != nil {
			s.log.Error().Err(err).Msg(logevent.EscalationNotRecorded)
			return
		}
		msgs = msgs[n:]
	}
}

// observe writes the one line and the metrics of a try.
func (s *session) observe(j *job, r channel.Result) {
	kind, address := s.kindOf(j.channel)
	s.metrics.tries.WithLabelValues(kind, string(r.Outcome)).Inc()
	first := j.members[0]
	if r.Told() && j.first {
		s.metrics.told.Observe(r.StartedAt.Add(r.Duration).Sub(first.At).Seconds())
	}
	e := s.log.Info()
	if !r.Told() {
		e = s.log.Warn()
	}
	e.Str("incident_id", j.a.id).Str("message_id", j.message.ID).Str("tenant", first.Tenant).Str("channel",
		j.channel).Str("channel_kind", kind).
		Str("address", address).Int("step", j.step).Int("try", j.try).Str("action", actionOf(j)).Int("dead_letters",
		len(j.members)).
		Str("outcome", string(r.Outcome)).Str("class", string(r.Class)).Int("status", r.Status).Int64("duration_us",
		r.Duration.Microseconds()).
		Str("error", r.Error).Time("tell_by", j.tellBy).Msg(logevent.Escalation)
}

// alert is the try that reaches nobody: it says so on every way there is.
func (s *session) alert(j *job) channel.Result {
	first := j.members[0]
	r := channel.Result{Class: outcome.ClassTerminal, Outcome: outcome.NobodyTold, StartedAt: time.Now().UTC(),
		Error: "no policy names anybody to tell; make one with: waybill escalation-policy create"}
	if j.step == 0 {
		r.Error = "no channel of the policy could tell anybody in time; see: waybill escalation show " + j.a.id
	}
	s.metrics.untold.Add(float64(len(j.members)))
	s.log.Error().Str("incident_id", j.a.id).Str("tenant", first.Tenant).Str("event_id", first.EventID).Str("endpoint_id",
		first.EndpointID).
		Str("reason", first.Reason).Int("dead_letters", len(j.members)).Str("escalation_policy", j.policy).Str("hint",
		r.Error).Msg(logevent.EscalationNobodyTold)
	// Whoever listens on the subject hears it; that nobody may is why it does not count as told.
	ctx, cancel := context.WithTimeout(context.Background(), minTry)
	defer cancel()
	s.o.Sender.Send(ctx, channel.Channel{Name: escalation.Nobody, Kind: channel.NATS,
		Subject: streams.AlertSubject(first.Tenant)}, j.message)
	r.Duration = time.Since(r.StartedAt)
	return r
}
