package e2e

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var falseAlarms = flag.Duration("false-alarms", 0,
	"how long to ask while events come and waybill up is restarted; 0: for a few rounds")

// questionBound is what a question may take about the hundreds of thousands of
// records of a long run, on a machine that has other things to do.
const questionBound = 10 * time.Minute

// fewRounds has a stop and a kill in it.
const fewRounds = 3

// A deployment that is well is asked again and again, under load, and right after
// it was stopped or killed: nothing is called wrong.
func TestNothingIsCalledWrongThatIsNot(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	d := start(t, dir)
	var calls atomic.Int64
	receiving := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1)%5 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(receiving.Close)
	var e endpoint
	d.do("", &e, "endpoint", "create", "--tenant", "acme", "--url", receiving.URL, "--types", "order.*", "--policy",
		`{"delays":["10ms","1s","2s","4s","8s"]}`)
	var made any
	d.do("", &made, "channel", "create", "desk", "--kind", "webhook", "--url", receiving.URL)
	d.do("", &made, "escalation-policy", "create", "all", "--step", "0s:desk")

	every := 10 * time.Millisecond
	if *falseAlarms == 0 { // other tests run beside it
		every = 100 * time.Millisecond
	}
	var address atomic.Pointer[string]
	address.Store(&d.HTTP)
	stop, stopped := make(chan struct{}), make(chan struct{})
	var published atomic.Int64
	go func() {
		defer close(stopped)
		pace := time.NewTicker(every)
		defer pace.Stop()
		for {
			select {
			case <-stop:
				return
			case <-pace.C:
			}
			resp, err := http.Post("http://"+*address.Load()+"/v1/events?tenant=acme", "application/json",
				strings.NewReader(`{"type":"order.paid","data":{"n":1}}`))
			if err != nil {
				continue // it is being restarted
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusAccepted {
				published.Add(1)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	// A ledger without a checkpoint is not proven, and said to be.
	await(t, "a first checkpoint", func() bool { return d.query("SELECT count() > 0 FROM checkpoints") == "1" })
	rounds := 0
	for began := time.Now(); rounds < fewRounds || time.Since(began) < *falseAlarms; rounds++ {
		for _, args := range [][]string{{"doctor"}, {"ledger", "verify"}, {"audit", "completeness"},
			{"doctor", "-o", "json"}} {
			if code, out, errs := waybillWithin(t, questionBound, "", append(args, "--data", dir)...); code != 0 {
				t.Errorf("round %d, after %d events: %s: exit %d\n%s%s", rounds, published.Load(), strings.Join(args, " "), code,
					out, errs)
			}
		}
		if *falseAlarms == 0 || rounds%3 == 2 {
			d.end([]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[rounds%2])
			d = start(t, dir)
			address.Store(&d.HTTP)
		}
	}
	if published.Load() == 0 {
		t.Error("no event was published")
	}
	t.Logf("%d rounds, %d events, %d requests", rounds, published.Load(), calls.Load())
}
