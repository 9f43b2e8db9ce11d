package escalation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/channel"
)

const (
	// listed is how many dead letters a message names.
	listed = 5
	// counted is how many reasons and endpoints it counts by name.
	counted = 5
)

// explained is a reason with what it means.
func explained(reason string) string {
	if r := outcome.Reason(reason); r.Known() {
		return reason + ": " + r.Sentence()
	}
	return reason
}

// Notice is what one message says.
type Notice struct {
	Incident *Incident
	// Members that it tells of, in order; Again says that the channel told of
	// them before.
	Members []Problem
	Again   bool
	Step    int
	Number  int // of the message
	Source  string
	Link    string // of the incident. Optional
	Now     time.Time
}

// Message writes the notice for people and programs. It holds no payload:
// ids, types, codes and times are all there is to quote.
func (n Notice) Message() channel.Message {
	i := n.Incident
	m := channel.Message{ID: i.MessageID(n.Number), Key: i.ID, Action: channel.Trigger, Title: n.title(), Source: n.Source,
		Link: n.Link, At: n.Now.UTC()}
	var b strings.Builder
	if len(n.Members) == 1 {
		describe(&b, n.Members[0])
	} else {
		n.summary(&b)
	}
	if i.Scope == ManyEndpoints {
		fmt.Fprintf(&b, "\nMore than %d endpoints of this tenant fail at once: this incident is for all that have none of "+
			"their own.\n", MaxOwn)
	}
	fmt.Fprintf(&b, "\nWho takes this stops the messages%s with:\n  waybill escalation ack %s --by YOUR-NAME\n", i.of(),
		i.ID)
	n.next(&b)
	m.Text, m.Data = b.String(), n.data()
	return m
}

func (n Notice) title() string {
	t := n.Members[0]
	again := ""
	if n.Again || n.Step > 1 {
		again = "Not acknowledged yet: "
	}
	switch {
	case t.Kind == record.OperatorAction && len(n.Members) > 1:
		return fmt.Sprintf("%s%d alarms of Waybill itself", again, len(n.Members))
	case t.Kind == record.OperatorAction:
		return fmt.Sprintf("%sWaybill itself: %s", again, t.Reason)
	case len(n.Members) > 1 && n.rejected() == len(n.Members):
		return fmt.Sprintf("%s%d rejected events of tenant %s%s", again, len(n.Members), t.Tenant, n.types())
	case len(n.Members) > 1:
		return fmt.Sprintf("%s%d dead letters of tenant %s%s%s", again, len(n.Members), t.Tenant, n.to(), n.types())
	}
	if t.Kind == record.EventRejected {
		return fmt.Sprintf("%sevent %s of tenant %s was rejected", again, orUnknown(t.EventID), t.Tenant)
	}
	return fmt.Sprintf("%s%s was not delivered to %s", again, orUnknown(t.EventType), receiver(t))
}

// of says what an acknowledgement takes.
func (i *Incident) of() string {
	switch scope, endpoint := i.About(); scope {
	case OneEndpoint:
		return " about " + endpoint
	case ManyEndpoints:
		return " about all of these endpoints"
	}
	return ""
}

// to names the endpoint, or says how many there are.
func (n Notice) to() string {
	endpoints := map[string]int{}
	for _, t := range n.Members {
		if t.EndpointID != "" {
			endpoints[receiver(t)]++
		}
	}
	if len(endpoints) == 1 && n.rejected() == 0 {
		return " to " + ranked(endpoints)[0]
	}
	if n.Incident.Scope == ManyEndpoints {
		return fmt.Sprintf(" to %d endpoints", len(endpoints))
	}
	return ""
}

// rejected counts the events that nobody gets.
func (n Notice) rejected() int {
	rejected := 0
	for _, t := range n.Members {
		if t.Kind == record.EventRejected {
			rejected++
		}
	}
	return rejected
}

// types names the most frequent event type: whose affair it is shows there first.
func (n Notice) types() string {
	counts := map[string]int{}
	for _, t := range n.Members {
		counts[orUnknown(t.EventType)]++
	}
	text := ": " + ranked(counts)[0]
	switch more := len(counts) - 1; more {
	case 0:
	case 1:
		text += " and another type"
	default:
		text += fmt.Sprintf(" and %d other types", more)
	}
	return text
}

// next says what to run. Each command can be pasted.
func (n Notice) next(b *strings.Builder) {
	if n.Members[0].Kind == record.OperatorAction {
		b.WriteString("What is wrong now, and what to do:\n  waybill doctor\n")
		return
	}
	owed := slices.IndexFunc(n.Members, func(t Problem) bool { return t.Kind == record.DeliveryDeadLetter })
	if owed >= 0 {
		n.nextOfDeadLetter(b, n.Members[owed])
	}
	if n.rejected() == 0 {
		return
	}
	if len(n.Members) == 1 {
		b.WriteString("Its producer has to publish it again, correctly. What is on record:\n")
	} else {
		b.WriteString("What was rejected, its producer has to publish again, correctly. What is on record:\n")
	}
	for _, t := range n.Members {
		if t.Kind == record.EventRejected && t.EventID != "" {
			fmt.Fprintf(b, "  waybill event show %s\n", quoted(t.EventID))
			return
		}
	}
	b.WriteString("  waybill escalation show " + n.Incident.ID + "\n")
}

func (n Notice) nextOfDeadLetter(b *strings.Builder, t Problem) {
	event := quoted(t.EventID)
	if len(n.Members)-n.rejected() == 1 {
		fmt.Fprintf(b, "What happened:\n  waybill delivery show %s --endpoint %s\nSend it again once the cause is mended:\n",
			event, t.EndpointID)
	} else {
		since := t.At
		for _, other := range n.Members {
			if other.At.Before(since) {
				since = other.At
			}
		}
		only := ""
		if scope, endpoint := n.Incident.About(); scope == OneEndpoint {
			only = " --endpoint " + endpoint
		}
		fmt.Fprintf(b, "All of them:\n  waybill deadletter list --tenant %s%s --resolution open --since %s --limit 500\n",
			quoted(t.Tenant), only,
			since.UTC().Truncate(time.Second).Format(time.RFC3339))
		fmt.Fprintf(b, "What happened to the first:\n  waybill delivery show %s --endpoint %s\nSend each again once the "+
			"cause is mended, as the first:\n", event, t.EndpointID)
	}
	if t.Reason == "endpoint_gone" || t.Reason == "endpoint_disabled" {
		fmt.Fprintf(b, "  waybill endpoint enable %s\n", t.EndpointID)
	}
	fmt.Fprintf(b, "  waybill replay event %s --endpoint %s --reason WHY\n", event, t.EndpointID)
}

func receiver(t Problem) string {
	if t.Host == "" {
		return t.EndpointID
	}
	return t.EndpointID + " (" + t.Host + ")"
}

func orUnknown(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return s
}

// quoted makes an id safe to paste into a shell.
func quoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func describe(b *strings.Builder, t Problem) {
	if t.Kind == record.OperatorAction {
		fmt.Fprintf(b, "Alarm %s: %s\nSeen at: %s.\n", t.Reason, t.Why, moment(t.At))
		return
	}
	if t.Kind == record.EventRejected {
		fmt.Fprintf(b, "Event %s, type %s, of tenant %s was rejected: %s. Nobody gets it.\n", orUnknown(t.EventID),
			orUnknown(t.EventType), t.Tenant, outcome.Reason(t.Reason).Sentence())
	} else {
		fmt.Fprintf(b, "Event %s, type %s, of tenant %s was owed to endpoint %s and was not delivered.\n", t.EventID,
			orUnknown(t.EventType), t.Tenant, receiver(t))
		attempts := fmt.Sprintf("after %d attempts", t.Attempts)
		switch t.Attempts {
		case 0:
			attempts = "without an attempt"
		case 1:
			attempts = "after one attempt"
		}
		fmt.Fprintf(b, "Why: %s (%s, %s).\n", outcome.Reason(t.Reason).Sentence(), t.Reason, attempts)
		if t.Why != "" {
			fmt.Fprintf(b, "On record: %s.\n", t.Why)
		}
	}
	if !t.DeliverBy.IsZero() {
		fmt.Fprintf(b, "Promised by: %s.\n", moment(t.DeliverBy))
	}
	if t.ReplayID != "" {
		fmt.Fprintf(b, "It was a replay: %s.\n", t.ReplayID)
	}
	fmt.Fprintf(b, "Given up at: %s.\n", moment(t.At))
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func (n Notice) summary(b *strings.Builder) {
	reasons, endpoints := map[string]int{}, map[string]int{}
	earliest := time.Time{}
	for _, t := range n.Members {
		reasons[explained(t.Reason)]++
		if t.EndpointID != "" {
			endpoints[receiver(t)]++
		}
		if !t.DeliverBy.IsZero() && (earliest.IsZero() || t.DeliverBy.Before(earliest)) {
			earliest = t.DeliverBy
		}
	}
	if n.Members[0].Kind == record.OperatorAction {
		for _, t := range n.Members[:min(2*listed, len(n.Members))] {
			fmt.Fprintf(b, "%s: %s\n", t.Reason, t.Why)
		}
		return
	}
	switch rejected := n.rejected(); rejected {
	case 0:
		fmt.Fprintf(b, "%d events of tenant %s were owed and were not delivered.\n", len(n.Members), n.Incident.Tenant)
	case len(n.Members):
		fmt.Fprintf(b, "%d events of tenant %s were rejected. Nobody gets them.\n", len(n.Members), n.Incident.Tenant)
	default:
		fmt.Fprintf(b, "%d events of tenant %s were not delivered; %d of them were rejected, and nobody gets those.\n",
			len(n.Members), n.Incident.Tenant, rejected)
	}
	ranking(b, "Why", reasons)
	ranking(b, "To", endpoints)
	if !earliest.IsZero() {
		fmt.Fprintf(b, "The first was promised by: %s.\n", moment(earliest))
	}
	b.WriteString("Among them:\n")
	for _, t := range n.Members[:min(listed, len(n.Members))] {
		to := ""
		if t.EndpointID != "" {
			to = ", to " + t.EndpointID
		}
		fmt.Fprintf(b, "  %s, %s%s: %s\n", orUnknown(t.EventID), orUnknown(t.EventType), to, t.Reason)
	}
}

// ranked are the names, the most frequent first.
func ranked(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		if counts[x] != counts[y] {
			return counts[y] - counts[x]
		}
		return strings.Compare(x, y)
	})
}

// ranking lists the most frequent names with their counts.
func ranking(b *strings.Builder, label string, counts map[string]int) {
	names := ranked(counts)
	for k, name := range names {
		if k == counted {
			fmt.Fprintf(b, "  and %d more\n", len(names)-counted)
			return
		}
		if k == 0 {
			fmt.Fprintf(b, "%s:\n", label)
		}
		fmt.Fprintf(b, "  %6d  %s\n", counts[name], name)
	}
}

// told is the notice for programs.
type told struct {
	Incident    string         `json:"incident_id"`
	Tenant      string         `json:"tenant"`
	Policy      string         `json:"escalation_policy"`
	Step        int            `json:"step"`
	Count       int            `json:"count"`
	Reminder    bool           `json:"reminder"`
	Reasons     map[string]int `json:"reasons"`
	Endpoints   map[string]int `json:"endpoints"`
	DeadLetters []Problem      `json:"dead_letters"` // the first few
	AckedBy     string         `json:"acknowledged_by,omitempty"`
}

func (n Notice) data() told {
	d := told{Incident: n.Incident.ID, Tenant: n.Incident.Tenant, Policy: n.Incident.Policy.Name, Step: n.Step,
		Count: len(n.Members), Reminder: n.Again,
		Reasons: map[string]int{}, Endpoints: map[string]int{}, DeadLetters: n.Members[:min(listed, len(n.Members))]}
	for _, t := range n.Members {
		count(d.Reasons, t.Reason)
		if t.EndpointID != "" {
			count(d.Endpoints, t.EndpointID)
		}
	}
	return d
}

// Taken says in one line what whoever acknowledges the incident takes.
func (i *Incident) Taken() string {
	what := "dead letters"
	if i.First.Kind == record.OperatorAction {
		return fmt.Sprintf("%d alarms", i.Count)
	}
	if i.First.Kind == record.EventRejected {
		what = "rejected events"
	}
	text := fmt.Sprintf("%d %s of tenant %s", i.Count, what, i.Tenant)
	switch len(i.Endpoints) {
	case 0:
		return text
	case 1:
		return text + " to " + ranked(i.Endpoints)[0]
	}
	return fmt.Sprintf("%s to %d endpoints, most to %s", text, len(i.Endpoints), ranked(i.Endpoints)[0])
}

// Resolution says that a named person has taken the incident.
func Resolution(i *Incident, source, link string, now time.Time) channel.Message {
	title := fmt.Sprintf("%s has taken %s (%s)", i.AckedBy, i.ID, i.Taken())
	text := "Nobody else is told about it any more.\n"
	if i.AckNote != "" {
		text = i.AckNote + "\n" + text
	}
	data := told{Incident: i.ID, Tenant: i.Tenant, Policy: i.Policy.Name, Count: i.Count, Reasons: maps.Clone(i.Reasons),
		Endpoints:   maps.Clone(i.Endpoints),
		DeadLetters: []Problem{i.First}, AckedBy: i.AckedBy}
	return channel.Message{ID: i.ID + "-ack", Key: i.ID, Action: channel.Resolve, Title: title, Text: text, Source: source,
		Link: link, At: now.UTC(), Data: data}
}
