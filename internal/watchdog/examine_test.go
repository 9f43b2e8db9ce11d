package watchdog

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/record"
	"github.com/waybill-dev/waybill/streams"
)

// named are the checks of a name, by state.
func named(checks []Check, name string, state State) (out []Check) {
	for _, c := range checks {
		if c.Name == name && c.State == state {
			out = append(out, c)
		}
	}
	return out
}

func TestADoctorSeesWhatIsWrongAndWhatIsWell(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	examine := func() []Check {
		t.Helper()
		checks, err := Examine(t.Context(), ExamineOptions{JS: b.js, Partitions: 1, Sync: "always"})
		must(t, err)
		for _, c := range checks {
			if c.Detail == "" || (c.State == OK) != (c.Next == "") {
				t.Errorf("%+v: what is well needs nothing to be done, what is not does", c)
			}
		}
		return checks
	}
	idle := examine()
	for _, name := range []string{"streams", "registry", "consumers", "ledger-sink", "completeness", "deliveries", "dead letters", "clock", "sync"} {
		if len(named(idle, name, OK)) != 1 {
			t.Errorf("%s is not well where nothing has happened: %+v", name, idle)
		}
	}
	for _, name := range []string{"people", "escalator", "watchdog", "stages"} {
		if len(named(idle, name, IsWrong)) != 1 {
			t.Errorf("%s is well though nobody is there: %+v", name, idle)
		}
	}
	b.escalator()
	b.tellable(newReceiver(t))
	d := b.watchdog("first", func(o *Options) { o.Every = time.Hour; o.LookEvery = time.Hour })
	b.eventually("the watchdog leads", d.Leading)
	old := time.Now().UTC().Add(-time.Hour)
	b.publish(owed(1, old, 0), owed(2, old, time.Minute), deadLetter(owed(3, old, 0), old), record.Record{ID: "x", Kind: record.ConformanceChecked, At: old, Tenant: "t"})
	b.alter(streams.Retry, func(c *jetstream.StreamConfig) { c.MaxMsgs = 7 })
	must(t, b.js.DeleteConsumer(t.Context(), streams.Events, streams.FanoutConsumer))
	var sick []Check
	b.eventually("the escalator is there", func() bool { sick = examine(); return len(named(sick, "escalator", OK)) == 1 })
	for code, name := range map[Code]string{DeliveryOverdue: "deliveries", PastDeadline: "deliveries", NotEscalated: "dead letters", StreamsDrifted: "streams", ConsumerMissing: "consumers"} {
		found := false
		for _, c := range named(sick, name, IsWrong) {
			found = found || c.Code == code
		}
		if !found {
			t.Errorf("%s was not seen: %+v", code, sick)
		}
	}
	for _, name := range []string{"people", "escalator", "watchdog"} {
		if len(named(sick, name, OK)) != 1 {
			t.Errorf("%s: %+v", name, sick)
		}
	}
	for sync, want := range map[string]State{"always": OK, "1s": Warned, "": Warned} {
		if got := syncCheck(sync); got.State != want {
			t.Errorf("sync %q: %+v", sync, got)
		}
	}
}

func TestEveryCodeIsExplained(t *testing.T) {
	doc, err := os.ReadFile("../../docs/watchdog.md")
	must(t, err)
	for _, c := range Codes() {
		if !strings.Contains(string(doc), "| `"+string(c.Code)+"` |") || c.Means == "" {
			t.Errorf("docs/watchdog.md does not explain %s", c.Code)
		}
	}
	if n := strings.Count(string(doc), "\n| `"); n < len(Codes()) {
		t.Errorf("%d lines for %d codes", n, len(Codes()))
	}
}
