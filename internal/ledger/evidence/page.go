package evidence

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/platform/paper"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

//go:embed page.html
var pageText string

// page is what the template shows: texts alone, which it escapes, and numbers.
type page struct {
	Event, Type, Tenant, Endpoint string
	Verdict                       verdict
	Problems, Contradictions      []string
	Findings                      []string
	Facts                         []item
	Deliveries                    []deliveryView
	Lists                         []list
	Proven, NotProven             []string
	Digest                        string
	Checkpoint                    []item
	Records                       []recordView
	Exported                      string
	AxisY, TickY                  int
	Print                         template.CSS
}

type verdict struct{ Class, Title, Text string }

type item struct {
	Name, Value string
	Mono        bool
}

type list struct {
	Title string
	Rows  []listRow
}

type listRow struct {
	Time, What string
	More       []string
	Idx        uint64
}

type deliveryView struct {
	Anchor, Endpoint, State, Class, Reason, DeliverBy, URL, Owed, Ended string
	Made                                                                int
	Chart                                                               *chart
	Attempts                                                            []attemptView
	Lists                                                               []list
}

type attemptView struct {
	Number                                         int
	Started, Took, Status, Outcome, Decision, Next string
	Class                                          string
	Idx                                            uint64
	More                                           []item
}

type recordView struct {
	Idx          uint64
	Kind, Digest string
}

// Page writes a report as one HTML page that needs nothing besides: no script,
// no other file. What records say is hostile: the template escapes all of it.
func Page(w io.Writer, r *Report) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	safe := text.NewWriter(w) // what a record holds may also steer what is read, in whatever field it is
	return errors.Join(t.Execute(safe, pageOf(r)), safe.Close())
}

func pageOf(r *Report) *page {
	p := &page{Event: r.Subject.EventID, Tenant: r.Subject.Tenant, Endpoint: r.Subject.EndpointID, Verdict: verdictOf(r),
		Problems: r.Problems, Contradictions: r.Contradictions, Findings: r.Findings,
		NotProven: r.NotProven, Digest: r.Digest, AxisY: axisY, TickY: axisY + 15}
	for i := range r.Story.Event {
		e := &r.Story.Event[i]
		p.Type = or(p.Type, e.EventType)
		p.Facts = append(p.Facts, eventItems(e)...)
	}
	for i := range r.Story.Deliveries {
		v := deliveryOf(&r.Story.Deliveries[i], i)
		if v.Chart != nil && i > 0 {
			v.Chart.Caption = "" // it stands under the first
		}
		p.Deliveries = append(p.Deliveries, v)
	}
	p.Lists = lists(
		list{"Set for event types, when this was delivered", rows(slices.Clone(r.Story.Rules), nil)},
		list{"Who is told, and how: policies and channels", rows(slices.Clone(r.Story.Policies), detailed)},
		list{"What else is on record of the event", rows(slices.Clone(r.Story.Other), detailed)})
	for _, c := range r.Claims {
		if c.About == aboutLedger || c.About == aboutPayload {
			p.Proven = append(p.Proven, c.Text)
		}
	}
	if !r.Proven {
		p.NotProven = append(slices.Clone(r.NotProven), r.Story.Gaps()...)
	}
	p.Checkpoint = checkpointItems(r)
	for _, f := range r.Facts {
		p.Records = append(p.Records, recordView{f.Idx, string(f.Kind), f.Digest})
	}
	s := r.Statement
	p.Exported = fmt.Sprintf("Exported by %s with %s on %s.", or(s.ExportedBy, "somebody"),
		or(s.Software, "some software"), or(stamp(s.ExportedAt), "a day that it does not say"))
	p.Print = paper.Style(paper.Margins{Title: "Evidence of delivery", Made: prefixed("exported ", stampUTC(s.ExportedAt)),
		Of: "file SHA-256 " + r.Digest + ", event " + p.Event})
	return p
}

func verdictOf(r *Report) verdict {
	switch {
	case r.Proven && len(r.Contradictions) > 0:
		return verdict{"bad", "Verified, and it contradicts itself",
			"The records on this page are as they were signed. They show different events under one id: see below."}
	case r.Proven && len(r.Findings) > 0:
		return verdict{"bad", "Verified, and EVENTS does not vouch for it",
			"The records on this page are as they were signed. The stream that takes events in did not hold the event " +
				"as they say: see below."}
	case r.Proven:
		return verdict{"good", "Verified", fmt.Sprintf("Every record on this page was in the ledger %s when its "+
			"checkpoint over %s was signed by the key %s, and none was changed since.", r.Origin,
			text.Count(int(r.Size), "record", "records"), r.SignedBy)}
	case len(r.Problems) > 0:
		return verdict{"bad", "Rejected", "The file that this page was made from was changed or is not what it says. " +
			"Nothing on this page may be relied on."}
	}
	return verdict{"warn", "Not verified", "This page was made without the ledger's key. It shows what the file says; " +
		"whether the ledger signed for it was not checked."}
}

func eventItems(e *Fact) []item {
	items := []item{{Name: "Came in", Value: stamp(e.At) + " UTC: " + e.Title()}}
	add := func(name, value string, mono bool) {
		if value != "" {
			items = append(items, item{name, value, mono})
		}
	}
	add("Due by", stampUTC(e.DeliverBy), false)
	add("About", strings.TrimSpace(e.SubjectType+" "+e.SubjectID), false)
	if e.DataDigest != "" {
		add("Data", fmt.Sprintf("%s, SHA-256 %s", text.Count(e.DataBytes, "byte", "bytes"), e.DataDigest), true)
	}
	return items
}

func checkpointItems(r *Report) []item {
	items := []item{{Name: "Ledger", Value: r.Origin}, {Name: "Checkpoint",
		Value: "over " + text.Count(int(r.Size), "record", "records")}, {Name: "Root", Value: r.Root, Mono: true}}
	if r.SignedBy != "" {
		items = append(items, item{"Signed by", r.SignedBy, true})
	}
	for _, w := range r.Witnessed {
		switch {
		case w.Verified:
			items = append(items, item{"Witness", w.Key + prefixed(", ", stampUTC(w.At)), true})
		case !w.Ledgers:
			items = append(items, item{"Witness, not checked", w.Key, true})
		}
	}
	for _, t := range r.Stamps {
		what := "Time stamp, authority not checked"
		if t.Verified {
			what = "Time stamp"
		}
		items = append(items, item{what, stampUTC(t.At) + ", " + t.Authority, false})
	}
	return items
}

func deliveryOf(d *Delivery, n int) deliveryView {
	v := deliveryView{Anchor: "d" + strconv.Itoa(n+1), Endpoint: d.EndpointID,
		State: strings.ReplaceAll(d.State, "_", " "), Class: stateClass(d.State),
		Reason: d.Reason, DeliverBy: stampUTC(d.DeliverBy), URL: d.URL, Made: len(d.Attempts),
		Chart: chartOf(d, "c"+strconv.Itoa(n+1))}
	if len(d.Owed) > 0 {
		v.Owed = stamp(d.Owed[0].At)
	}
	for _, a := range d.Attempts {
		v.Attempts = append(v.Attempts, attemptOf(&a))
		if a.Class == string(outcome.ClassDelivered) {
			v.Ended = stamp(a.At)
		}
	}
	if n := len(d.Ends); n > 0 && d.State != outcome.StateDelivered && d.State != outcome.StatePending {
		v.Ended = stamp(d.Ends[n-1].At)
	}
	v.Lists = lists(
		list{"Owed, and by whom it was asked for again", rows(slices.Concat(d.Owed, d.Replays), detailed)},
		list{"Ended without success", rows(slices.Clone(d.Ends), nil)},
		list{"Who was told, and who took it on", rows(slices.Concat(d.Escalations, d.Acks), detailed)},
		list{"The endpoint's settings, at the revisions that were used", rows(slices.Clone(d.Revisions), settings)})
	return v
}

func stateClass(state string) string {
	switch state {
	case outcome.StateDelivered:
		return "good"
	case outcome.StateDeadLettered:
		return "bad"
	}
	return "warn"
}

func attemptOf(a *Fact) attemptView {
	v := attemptView{Number: a.Attempt, Started: stamp(a.When()), Took: took(a.DurationUS), Outcome: a.Outcome,
		Class: attemptClass(a), Decision: a.Decision,
		Next: stamp(a.NextAttemptAt), Idx: a.Idx, Status: "none"}
	if a.Status > 0 {
		v.Status = strconv.Itoa(a.Status)
	}
	more := func(name, value string, mono bool) {
		if value != "" {
			v.More = append(v.More, item{name, value, mono})
		}
	}
	if a.PayloadDigest != "" {
		more("Body "+signedAndSent(a)+":", fmt.Sprintf("%s, SHA-256 %s", text.Count(a.PayloadBytes, "byte", "bytes"),
			a.PayloadDigest), true)
		more("Signed:", strings.Trim(fmt.Sprintf("%s with %s", or(a.SignatureScheme, "no scheme on record"),
			or(strings.Join(a.KeyIDs, ", "), "no key on record")), " "), false)
	}
	to := []string{}
	for _, s := range []string{a.URL, prefixed("at ", a.RemoteAddr), prefixed("HTTP/",
		strings.TrimPrefix(a.HTTPVersion, "HTTP/")), a.TLSVersion, prefixed("revision ", number(a.EndpointRevision)),
		prefixed("replay ", a.ReplayID)} {
		if s != "" {
			to = append(to, s)
		}
	}
	more("To:", strings.Join(to, ", "), false)
	more("Why:", reasoned(a.Reason, a.Detail), false)
	more("Error:", a.Error, false)
	more("Answer:", a.ResponseExcerpt, true)
	return v
}

func attemptClass(a *Fact) string {
	switch {
	case a.Class == string(outcome.ClassDelivered):
		return "good"
	case a.Outcome == string(outcome.Unknown) || a.Outcome == "":
		return "warn"
	}
	return "bad"
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// lists leaves out those that are empty.
func lists(all ...list) []list {
	return slices.DeleteFunc(all, func(l list) bool { return len(l.Rows) == 0 })
}

func rows(facts []Fact, more func(*Fact) []string) []listRow {
	var out []listRow
	slices.SortStableFunc(facts, func(a, b Fact) int { return cmp.Compare(a.Idx, b.Idx) })
	for i := range facts {
		f := &facts[i]
		r := listRow{Time: stamp(f.When()), What: f.Title(), Idx: f.Idx}
		if more != nil {
			r.More = more(f)
		}
		out = append(out, r)
	}
	return out
}

func detailed(f *Fact) []string {
	var out []string
	title := f.Title()
	for _, x := range [][2]string{{"", f.Detail}, {"", f.Error}, {"reason: ", f.Reason}, {"incident ", f.IncidentID}} {
		if x[1] != "" && !strings.Contains(title, x[1]) {
			out = append(out, x[0]+x[1])
		}
	}
	return out
}

func settings(f *Fact) []string {
	out := []string{f.URL, prefixed("types: ", strings.Join(f.EventTypes, ", ")),
		prefixed("signed by "+f.SignatureScheme+" with keys: ", strings.Join(f.KeyIDs, ", "))}
	for _, k := range slices.Sorted(maps.Keys(f.Settings)) {
		out = append(out, k+": "+f.Settings[k])
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

func stampUTC(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return stamp(t) + " UTC"
}
