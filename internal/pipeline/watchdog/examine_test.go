package watchdog

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/health"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// named are the checks of a name, by state.
func named(checks []health.Check, name string, state health.State) (out []health.Check) {
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
	examine := func() []health.Check {
		t.Helper()
		checks := Examine(t.Context(), ExamineOptions{JS: b.js, Partitions: 1, Sync: "always"})
		for _, c := range checks {
			if c.Detail == "" || (c.State == health.OK) != (c.Next == "") {
				t.Errorf("%+v: what is well needs nothing to be done, what is not does", c)
			}
		}
		return checks
	}
	idle := examine()
	for _, name := range []string{"answers", "replicas", "streams", "registry", "consumers", "ledger-sink", "completeness",
		"deliveries", "dead letters", "clock", "sync"} {
		if len(named(idle, name, health.OK)) != 1 {
			t.Errorf("%s is not well where nothing has happened: %+v", name, idle)
		}
	}
	for _, name := range []string{"people", "escalator", "watchdog", "stages"} {
		if len(named(idle, name, health.Wrong)) != 1 {
			t.Errorf("%s is well though nobody is there: %+v", name, idle)
		}
	}
	b.escalator()
	b.tellable(newReceiver(t))
	d := b.watchdog("first", func(o *Options) { o.Every = time.Hour; o.LookEvery = time.Hour })
	b.eventually("the watchdog leads", d.Leading)
	old := time.Now().UTC().Add(-time.Hour)
	b.publish(owed(1, old, 0), owed(2, old, time.Minute), deadLetter(owed(3, old, 0), old),
		record.Record{ID: "x", Kind: record.ConformanceChecked, At: old, Tenant: "t"})
	b.alter(streams.Retry, func(c *jetstream.StreamConfig) { c.MaxMsgs = 7 })
	must(t, b.js.DeleteConsumer(t.Context(), streams.Events, streams.FanoutConsumer))
	var sick []health.Check
	b.eventually("the escalator is there", func() bool {
		sick = examine()
		return len(named(sick, "escalator", health.OK)) == 1
	})
	for code, name := range map[Code]string{DeliveryOverdue: "deliveries", PastDeadline: "deliveries",
		NotEscalated:   "dead letters",
		StreamsDrifted: "streams", ConsumerMissing: "consumers"} {
		found := false
		for _, c := range named(sick, name, health.Wrong) {
			found = found || c.Code == string(code)
		}
		if !found {
			t.Errorf("%s was not seen: %+v", code, sick)
		}
	}
	for _, name := range []string{"people", "escalator", "watchdog"} {
		if len(named(sick, name, health.OK)) != 1 {
			t.Errorf("%s: %+v", name, sick)
		}
	}
	for sync, want := range map[string]health.State{"always": health.OK, "1s": health.Warned, "": health.Warned} {
		if got := syncCheck(sync); got.State != want {
			t.Errorf("sync %q: %+v", sync, got)
		}
	}
}

func TestEveryCodeIsExplained(t *testing.T) {
	doc, err := os.ReadFile(testkit.Path(t, "docs/watchdog.md"))
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

// onAsked is a JetStream on which, before it answers where a stream ends,
// the watchdog has seen the stream's end go on.
type onAsked struct {
	jetstream.JetStream
	stream func(name string)
}

func (s *onAsked) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	found, err := s.JetStream.Stream(ctx, name)
	s.stream(name) // after the answer: it is of before
	return found, err
}

func TestWhatIsStoredWhileTheDoctorLooksIsNoLoss(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	kv, err := b.js.KeyValue(t.Context(), streams.StatusBucket)
	must(t, err)
	var one sync.Mutex // many are asked at once
	n, published := 0, 0
	// As a watchdog does that looks at any moment: the marks are of what LEDGER holds by then.
	see := func(name string) {
		one.Lock()
		defer one.Unlock()
		n++
		if name != streams.Ledger || published > 20 {
			return
		}
		for range 3 {
			published++
			b.publish(owed(published, time.Now().UTC(), time.Hour))
		}
		s, err := b.js.Stream(t.Context(), streams.Ledger)
		must(t, err)
		i := s.CachedInfo()
		marks, err := json.Marshal(map[string]history{streams.Ledger: {Created: i.Created, Last: i.State.LastSeq}})
		must(t, err)
		_, err = kv.Put(t.Context(), streams.StatusMarks, marks)
		must(t, err)
	}
	see(streams.Ledger)
	checks := Examine(t.Context(), ExamineOptions{JS: &onAsked{b.js, see}, Partitions: 1, Sync: "always"})
	if n < 3 || published < 6 {
		t.Fatalf("nothing came meanwhile: %d, %d", n, published)
	}
	if wrong := named(checks, "completeness", health.Wrong); len(wrong) > 0 {
		t.Errorf("what came meanwhile is taken for a loss: %+v", wrong)
	}
}
