package watchdog

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/health"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

func TestADoctorNamesTheServerThatIsGoneAndTheStreamsThatNobodyLeads(t *testing.T) {
	t.Parallel()
	c := testkit.NATSCluster(t)
	js := c.JetStream()
	examine := func() []health.Check {
		t.Helper()
		return Examine(t.Context(), ExamineOptions{JS: js, Partitions: 1, Sync: "always"})
	}
	b := &bench{t: t}
	leads := process.Led(js, streams.Events, streams.Ledger)
	b.eventually("all is level", func() bool { return len(named(examine(), "replicas", health.OK)) == 1 })
	if err := leads(t.Context()); err != nil {
		t.Errorf("all servers run: %v", err)
	}
	c.Servers[2].Kill()
	var found []health.Check
	b.eventually("the server that is gone is named", func() bool {
		found = named(examine(), "replicas", health.Wrong)
		return len(found) == 1 && found[0].Code == string(ReplicaGone) && strings.HasPrefix(found[0].Detail, "n3: ")
	})
	if err := leads(t.Context()); err != nil {
		t.Errorf("two of three servers run: %v", err)
	}
	c.Servers[1].Kill()
	b.eventually("what cannot work is said", func() bool { return leads(t.Context()) != nil })
	// A leader that is left goes on answering until it notices that it is alone.
	b.eventually("doctor says of nothing that it is well", func() bool {
		found = examine()
		for _, check := range found {
			if check.State == health.OK && check.Name != "sync" && check.Name != "answers" {
				return false
			}
		}
		return len(named(found, "replicas", health.Wrong))+len(named(found, "JetStream", health.Wrong)) > 0
	})
	c.Servers[1].Restart()
	c.Servers[2].Restart()
	b.eventually("all is level again", func() bool {
		return leads(t.Context()) == nil && len(named(examine(), "replicas", health.OK)) == 1
	})
}
