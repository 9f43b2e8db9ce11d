package escalation

import (
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/channel"
)

// Try is one try to tell people, as it goes on record.
type Try struct {
	Incident string // its id
	Policy   string // its name
	Step     int
	Channel  string // its name, with kind and address; both "" when there is none of that name
	Kind     string
	Address  string
	Message  string // its id
	Number   int    // 1, 2, 3 …
	Action   string // trigger, reminder, resolve
	Actor    string // who tells, where that is not the escalator
	Detail   string
	Result   channel.Result
	Program  string // the name of the process, and its software
	Software string
}

// Record is what goes on record of the try about one problem. There is one record
// for each problem that the message told of.
func (t Try) Record(p Problem) record.Record {
	return record.Record{
		ID:   record.EscalationID(t.Message, t.Channel, t.Number, p.ID),
		Kind: record.Escalation, At: t.Result.StartedAt.Add(t.Result.Duration),
		Tenant: p.Tenant, EventID: p.EventID, EndpointID: p.EndpointID, EventType: p.EventType, ReplayID: p.ReplayID,
		DeliverBy: p.DeliverBy, Reason: p.Reason, Detail: t.Detail, Actor: t.Actor, Action: t.Action,
		Attempt: t.Number, StartedAt: t.Result.StartedAt, DurationUS: t.Result.Duration.Microseconds(),
		Status: t.Result.Status, Outcome: string(t.Result.Outcome), Class: string(t.Result.Class), Error: t.Result.Error,
		URL: t.Address, IncidentID: t.Incident, MessageID: t.Message, EscalationPolicy: t.Policy, Step: t.Step,
		Channel: t.Channel, ChannelKind: t.Kind, Dispatcher: t.Program, Software: t.Software,
	}
}
