package escalation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func problem(n int, at time.Time, within time.Duration) escalation.Problem {
	t := escalation.Problem{ID: fmt.Sprintf("delivery.dead_lettered/evt-%d/ep_%d", n, n%3),
		Kind: record.DeliveryDeadLetter, Tenant: "acme",
		EventID: fmt.Sprintf("evt-%d", n), EndpointID: fmt.Sprintf("ep_%d", n%3), EventType: "lab.critical",
		Reason: "attempts_exhausted", Attempts: 8, At: at}
	if within != 0 {
		t.DeliverBy = at.Add(within)
	}
	return t
}

// begun is an incident with two steps of a and b, whose first was begun and told.
func begun(alter func(*escalation.Incident)) *escalation.Incident {
	p := escalation.Policy{Name: "p", Window: 30 * time.Second, Repeat: 10 * time.Minute, MaxDuration: time.Hour,
		Steps: []escalation.Step{{Channels: []string{"a"}}, {After: 2 * time.Minute, Channels: []string{"b"}}}}
	i := escalation.Begin(problem(1, noon, 0), p, 10, noon)
	i.Steps, i.Messages = 1, 1
	i.Reach["a"] = &escalation.Reach{Step: 1, Message: 1, To: 10, Told: 10, StartedAt: noon, ToldAt: noon}
	if alter != nil {
		alter(i)
	}
	return i
}

func TestWhatAnIncidentNeedsNow(t *testing.T) {
	p := func(last uint64, tellBy time.Duration) escalation.Pending {
		return escalation.Pending{Last: last, TellBy: noon.Add(tellBy)}
	}
	untold := func(i *escalation.Incident) {
		*i.Reach["a"] = escalation.Reach{Step: 1, Active: true, Message: 1, To: 10, StartedAt: noon}
	}
	for _, c := range []struct {
		name    string
		alter   func(*escalation.Incident)
		pending escalation.Pending
		now     time.Duration
		want    string // starts; alert; expire
		at      time.Duration
	}{
		{"a new one is told at once", func(i *escalation.Incident) { i.Steps, i.Reach = 0, map[string]*escalation.Reach{} },
			p(10, 5*time.Minute), 0, "a1", 2 * time.Minute},
		{"told, it waits for its second step", nil, p(10, 0), time.Minute, "", 2 * time.Minute},
		{"the second step is due", nil, p(10, 0), 2 * time.Minute, "b2", 10 * time.Minute},
		{"acknowledged, nothing is due", func(i *escalation.Incident) { i.State = escalation.Acknowledged }, p(99, 0),
			2 * time.Minute, "", -1},
		{"the steps begin anew", func(i *escalation.Incident) { i.Steps = 2 }, p(10, 0), 10 * time.Minute, "a1",
			12 * time.Minute},
		{"without a repeat they do not", func(i *escalation.Incident) { i.Steps, i.Policy.Repeat = 2, 0 }, p(10, 0),
			10 * time.Minute, "", time.Hour},
		{"after a long stop, what was missed is told once", nil, p(10, 0), 25 * time.Minute, "b2 a1", 30 * time.Minute},
		{"its longest time is over", nil, p(10, 0), time.Hour, "expire", -1},
		{"more came: it waits for the window", nil, p(12, 5*time.Minute), 10 * time.Second, "", 30 * time.Second},
		{"more came: the window is over", nil, p(12, 5*time.Minute), 30 * time.Second, "a1", 2 * time.Minute},
		{"more came, and a deadline is near", nil, p(12, 25*time.Second), 15 * time.Second, "a1", 25 * time.Second},
		{"more came, all with near deadlines: a burst is not a burst of messages", nil, p(12, 8*time.Second), time.Second, "",
			3 * time.Second},
		{"untold, while a try is under way", untold, p(10, 5*time.Minute), time.Minute, "", 2 * time.Minute},
		{"untold, and every channel of the step failed: the next one at once",
			func(i *escalation.Incident) { untold(i); i.Reach["a"].Failures = 1 }, p(10, 5*time.Minute), time.Second, "b2",
			5 * time.Minute},
		{"untold when it must have been: say so", untold, p(10, 30*time.Second), 30 * time.Second, "alert", 2 * time.Minute},
		{"which is said once", func(i *escalation.Incident) { untold(i); i.Alerted = 10 }, p(10, 30*time.Second),
			40 * time.Second, "", 2 * time.Minute},
		{"a channel that failed gets what came since with its next message", func(i *escalation.Incident) { untold(i); i.Reach["a"].Failures, i.Steps = 3, 2 }, p(12, 5*time.Minute), 30 * time.Second, "a1", 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := escalation.Next(begun(c.alter), c.pending, noon.Add(c.now))
			var got []string
			for _, s := range plan.Starts {
				got = append(got, fmt.Sprint(s.Channel, s.Step))
			}
			if plan.Alert {
				got = append(got, "alert")
			}
			if plan.Expire {
				got = append(got, "expire")
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
			want := time.Time{}
			if c.at >= 0 {
				want = noon.Add(c.at)
			}
			if !plan.At.Equal(want) {
				t.Errorf("looks again at %s, want %s", plan.At, want)
			}
		})
	}
}

func TestNextNeverAsksToLookAgainInThePast(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		now := noon.Add(time.Duration(random.Int64N(int64(2 * time.Hour))))
		i := begun(func(i *escalation.Incident) {
			i.Steps = random.IntN(9)
			r := i.Reach["a"]
			r.Active, r.Failures, r.StartedAt = random.IntN(2) == 0, random.IntN(3),
				noon.Add(time.Duration(random.Int64N(int64(time.Hour))))
			if random.IntN(2) == 0 {
				r.Told = 0
			}
		})
		plan := escalation.Next(i, escalation.Pending{Last: uint64(10 + random.IntN(3)),
			TellBy: noon.Add(time.Duration(random.Int64N(int64(time.Hour))))}, now)
		if !plan.At.IsZero() && !plan.At.After(now) {
			t.Fatalf("at %s it asks to look again at %s: %+v", now, plan.At, plan)
		}
		if plan.Steps < i.Steps {
			t.Fatalf("steps went back from %d to %d", i.Steps, plan.Steps)
		}
	}
}

func TestATryIsRepeatedSoonEnoughForTheDeadline(t *testing.T) {
	for _, c := range []struct {
		failures int
		left     time.Duration
		wish     time.Duration
		rnd      float64
		want     time.Duration
	}{
		{1, time.Hour, 0, 1, time.Second}, {2, time.Hour, 0, 1, 2 * time.Second}, {4, time.Hour, 0, 0.5, 4 * time.Second},
		{50, 10 * time.Hour, 0, 1, time.Minute}, {50, 8 * time.Second, 0, 1, 2 * time.Second},
		{3, -time.Hour, 0, 1, 4 * time.Second},
		{1, time.Hour, 20 * time.Second, 0, 20 * time.Second}, {1, 20 * time.Second, 20 * time.Second, 0, 5 * time.Second},
		{1, time.Hour, 0, 0, 100 * time.Millisecond}, {9, 10 * time.Millisecond, 0, 1, 50 * time.Millisecond},
	} {
		if got := escalation.RetryIn(c.failures, noon.Add(c.left), noon, c.wish, c.rnd); got != c.want {
			t.Errorf("%d failures, %s left, wish %s, random %g: %s, want %s", c.failures, c.left, c.wish, c.rnd, got, c.want)
		}
	}
}

func TestTheDeadlineOfTellingIsTheDeliverysOrFiveMinutes(t *testing.T) {
	for _, c := range []struct{ within, want time.Duration }{{0, 5 * time.Minute}, {time.Minute, time.Minute},
		{48 * time.Hour, 5 * time.Minute}, {-time.Minute, -time.Minute}} {
		if got := problem(1, noon, c.within).TellBy(); !got.Equal(noon.Add(c.want)) {
			t.Errorf("deadline after %s: tell by %s", c.within, got)
		}
	}
}

func TestThePolicyThatMatchesFirstCounts(t *testing.T) {
	policies := []escalation.Policy{
		{Name: "labs", Priority: 10, Types: []string{"lab.>"}}, {Name: "acme", Priority: 10, Tenants: []string{"acme"}},
		{Name: "all", Priority: 100}, {Name: "gone", Priority: 5, Reasons: []string{"endpoint_gone"}},
	}
	for _, c := range []struct {
		alter func(*escalation.Problem)
		want  string
	}{
		{func(*escalation.Problem) {}, "acme"}, {func(t *escalation.Problem) { t.Tenant = "other" }, "labs"},
		{func(t *escalation.Problem) { t.Tenant, t.EventType = "other", "order.paid" }, "all"},
		{func(t *escalation.Problem) { t.Reason = "endpoint_gone" }, "gone"},
		{func(t *escalation.Problem) { t.Tenant, t.EventType = "other", "" }, "all"},
	} {
		tr := problem(1, noon, 0)
		c.alter(&tr)
		if got := escalation.Choose(policies, tr).Name; got != c.want {
			t.Errorf("%+v: %s, want %s", tr, got, c.want)
		}
	}
	if p := escalation.Choose(nil, problem(1, noon, 0)); p.Steps[0].Channels[0] != escalation.Nobody {
		t.Errorf("without a policy: %+v", p)
	}
}

func TestAPolicyThatCannotWorkIsRefusedWithTheSettingToCorrect(t *testing.T) {
	step := func(after time.Duration, names ...string) escalation.Step {
		return escalation.Step{After: after, Channels: names}
	}
	for _, c := range []struct {
		want  string
		alter func(*escalation.Policy)
	}{
		{"", func(*escalation.Policy) {}},
		{"", func(p *escalation.Policy) { p.Repeat = -1 }},
		{"name:", func(p *escalation.Policy) { p.Name = "a b" }},
		{"priority:", func(p *escalation.Policy) { p.Priority = -1 }},
		{"tenants:", func(p *escalation.Policy) { p.Tenants = []string{"a.b"} }},
		{"types:", func(p *escalation.Policy) { p.Types = []string{"a..b"} }},
		{"reasons:", func(p *escalation.Policy) { p.Reasons = []string{""} }},
		{"steps:", func(p *escalation.Policy) { p.Steps = nil }},
		{"steps:", func(p *escalation.Policy) { p.Steps = []escalation.Step{step(time.Second, "a")} }},
		{"steps:", func(p *escalation.Policy) { p.Steps = []escalation.Step{step(0)} }},
		{"steps:", func(p *escalation.Policy) { p.Steps = []escalation.Step{step(0, "a", "a")} }},
		{"steps:", func(p *escalation.Policy) {
			p.Steps = []escalation.Step{step(0, "a"), step(time.Minute, "b"), step(time.Minute, "c")}
		}},
		{"steps:", func(p *escalation.Policy) { p.Steps = []escalation.Step{step(0, "a"), step(25*time.Hour, "b")} }},
		{"steps:", func(p *escalation.Policy) { p.Steps = []escalation.Step{step(0, escalation.Nobody)} }},
		{"repeat:", func(p *escalation.Policy) { p.Repeat = time.Second }},
		{"repeat:", func(p *escalation.Policy) {
			p.Steps, p.Repeat = append(p.Steps, step(20*time.Minute, "b")), 15*time.Minute
		}},
		{"max_duration:", func(p *escalation.Policy) { p.MaxDuration = 100 * time.Hour }},
		{"window:", func(p *escalation.Policy) { p.Window = time.Hour }},
	} {
		p := escalation.Policy{Name: "p", Steps: []escalation.Step{step(0, "a")}}
		c.alter(&p)
		err := p.WithDefaults().Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", p, err, c.want)
		}
	}
}

func TestAGroupSaysOfRejectedEventsThatNobodyGetsThem(t *testing.T) {
	rejected := escalation.Problem{ID: "event/7-1", Kind: record.EventRejected, Tenant: "acme", EventID: "bad-1",
		EventType: "lab.critical", Reason: "invalid_event", At: noon}
	gone := problem(1, noon, 0)
	gone.Reason, gone.EventType = "endpoint_gone", "order.paid"
	for _, c := range []struct {
		members []escalation.Problem
		title   string
		want    []string
		never   string
	}{
		{[]escalation.Problem{rejected, rejected}, "2 rejected events of tenant acme: lab.critical",
			[]string{"2 events of tenant acme were rejected. Nobody gets them.", "waybill event show bad-1",
				"  bad-1, lab.critical: invalid_event\n"}, "waybill replay"},
		{[]escalation.Problem{rejected, gone, rejected}, "3 dead letters of tenant acme: lab.critical and another type",
			[]string{"2 of them were rejected", "waybill event show bad-1",
				"waybill endpoint enable ep_1\n  waybill replay event evt-1 --endpoint ep_1"}, "deadletter list"},
		{[]escalation.Problem{gone}, "order.paid was not delivered to ep_1",
			[]string{"waybill endpoint enable ep_1\n  waybill replay event evt-1"}, "event show"},
		{[]escalation.Problem{rejected}, "event bad-1 of tenant acme was rejected",
			[]string{"Its producer has to publish it again", "waybill event show bad-1"}, "waybill replay"},
	} {
		m := escalation.Notice{Incident: begun(nil), Members: c.members, Step: 1, Number: 1, Now: noon}.Message()
		if m.Title != c.title || strings.Contains(m.Text, c.never) {
			t.Errorf("%s, want %s, and not %q:\n%s", m.Title, c.title, c.never, m.Text)
		}
		for _, want := range c.want {
			if !strings.Contains(m.Text, want) {
				t.Errorf("missing %q in:\n%s", want, m.Text)
			}
		}
	}
}

func TestAMessageSaysWhatWasOwedToWhomAndWhatToDo(t *testing.T) {
	i := begun(nil)
	one := escalation.Notice{Incident: i, Members: []escalation.Problem{problem(1, noon, time.Minute)}, Step: 1, Number: 7,
		Now: noon}.Message()
	if one.ID != i.ID+"-7" || one.Key != i.ID {
		t.Errorf("ids %s, %s", one.ID, one.Key)
	}
	for _, want := range []string{"evt-1", "lab.critical", "acme", "ep_1", "no attempt is on record as accepted",
		"after 8 attempts", "Promised by: 2026-11-02 12:01:00 UTC",
		"waybill escalation ack " + i.ID, "waybill delivery show evt-1 --endpoint ep_1", "waybill replay event evt-1"} {
		if !strings.Contains(one.Text, want) {
			t.Errorf("missing %q in:\n%s", want, one.Text)
		}
	}
	var many []escalation.Problem
	for n := range 40 {
		many = append(many, problem(n, noon, 0))
	}
	i.Scope = escalation.ManyEndpoints
	group := escalation.Notice{Incident: i, Members: many, Again: true, Step: 1, Number: 8, Now: noon}.Message()
	if group.Title != "Not acknowledged yet: 40 dead letters of tenant acme to 3 endpoints: lab.critical" ||
		!strings.Contains(group.Text, "14  ep_0") || strings.Count(group.Text, "lab.critical") != 5 {
		t.Errorf("%s\n%s", group.Title, group.Text)
	}
	for _, want := range []string{"40  attempts_exhausted: the endpoint answered, and no attempt is on record as " +
		"accepted\n", "waybill deadletter list --tenant acme --resolution open --since 2026-11-02T12:00:00Z"} {
		if !strings.Contains(group.Text, want) {
			t.Errorf("missing %q in:\n%s", want, group.Text)
		}
	}
	if lines := strings.Count(group.Text, "\n"); lines > 30 {
		t.Errorf("%d lines for people at night", lines)
	}
	odd := problem(1, noon, 0)
	odd.EventID = `x'; rm -rf ~ #`
	text := escalation.Notice{Incident: i, Members: []escalation.Problem{odd}, Number: 1, Now: noon}.Message().Text
	if !strings.Contains(text, `waybill delivery show 'x'\''; rm -rf ~ #' --endpoint`) {
		t.Errorf("a command that cannot be pasted safely:\n%s", text)
	}
}

func TestAnIncidentCountsEachTroubleOnceAndNamesNotTooMany(t *testing.T) {
	i := begun(nil)
	for n := range 200 {
		tr := problem(n, noon, time.Duration(n+1)*time.Minute)
		tr.EndpointID = fmt.Sprint("ep_", n)
		i.Add(tr, uint64(210-n)) // in any order of revisions
	}
	if i.Seen != 210 {
		t.Errorf("seen up to %d", i.Seen)
	}
	if i.Count != 201 || len(i.Endpoints) > 51 || i.Endpoints["(others)"] != 150 ||
		!i.DeliverBy.Equal(noon.Add(time.Minute)) {
		t.Errorf("count %d, %d endpoints, %d others, first deadline %s", i.Count, len(i.Endpoints), i.Endpoints["(others)"],
			i.DeliverBy)
	}
	b, err := i.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := escalation.DecodeIncident(b)
	if err != nil || back.Count != i.Count || back.Seen != i.Seen ||
		!slices.Equal(back.Policy.ChannelNames(), []string{"a", "b"}) {
		t.Errorf("%v: %+v", err, back)
	}
}

func FuzzDecode(f *testing.F) {
	m, err := problem(1, noon, time.Minute).Message()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m.Data)
	f.Add([]byte(`{"id":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := escalation.Decode(b)
		if err != nil {
			return
		}
		again, err := tr.Message()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := escalation.Decode(again.Data); err != nil || back.ID != tr.ID {
			t.Errorf("%v: %+v", err, back)
		}
	})
}
