package torture_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/test/testkit/invariants"
)

// cast is every receiver of a run.
type cast struct {
	log            *requestLog
	all            []*receiver
	certain        map[*receiver]bool // stays enabled throughout
	types          map[*receiver]string
	toggled, moved *receiver
	comesAndGoes   []*receiver
}

// quick is a schedule in milliseconds; seven attempts.
func quick() *retry.Policy {
	p := retry.Policy{Name: "quick", Stretch: 0.2}
	for _, ms := range []int{20, 50, 100, 250, 500, 1000} {
		p.Delays = append(p.Delays, time.Duration(ms)*time.Millisecond)
	}
	return &p
}

// summon creates an endpoint for each kind of receiver.
func summon(s *system) *cast {
	c := &cast{log: newRequestLog(), certain: map[*receiver]bool{}, types: map[*receiver]string{}}
	add := func(name, types string, certain bool, inFlight int, b behaviour) *receiver {
		r := newReceiver(s.t, c.log, name, b)
		s.endpoint(r, control.EndpointSpec{Types: []string{types}, MaxInFlight: inFlight,
			Timeout: control.Duration(600 * time.Millisecond), Policy: quick()})
		c.all = append(c.all, r)
		c.certain[r], c.types[r] = certain, types
		return r
	}
	add("good", "pay.>", true, 32, good)
	add("fails twice", "pay.>", true, 32, until(3, answer("503 Service Unavailable")))
	add("fails at times", "pay.captured", true, 32, sometimes(30, answer("500 Internal Server Error")))
	add("slow, few at once", "order.>", true, 2, slow)
	add("rejects", "order.placed", true, 32, answer("422 Unprocessable Content"))
	add("knows us not", "order.placed", true, 32, sometimes(50, answer("401 Unauthorized")))
	add("redirects", "order.placed", true, 32, answer("302 Found", "Location: http://127.0.0.1/"))
	add("hangs once", "order.shipped", true, 4, until(2, hang))
	add("limits", "order.shipped", true, 32, until(2, answer("429 Too Many Requests", "Retry-After: 1")))
	add("is strange", "order.>", true, 8, oneOf(drip, reset, hangUp, endless, cutBody, hugeHeaders, interim, interimFirst,
		garbage, goodbye, good))
	add("goes for good at times", "pay.refunded", false, 32, sometimes(2, answer("410 Gone")))
	c.toggled = add("is disabled at times", "pay.>", false, 32, good)
	c.moved = add("moves", "pay.refunded", true, 32, good)
	// Ten of its twelve seconds are kept for telling somebody. A replay has no
	// deadline, so the number of attempts is bounded too.
	hurried := newReceiver(s.t, c.log, "is in a hurry", sometimes(70, answer("503 Service Unavailable")))
	s.endpoint(hurried, control.EndpointSpec{Types: []string{"order.placed"}, Timeout: control.Duration(time.Second),
		DeliverWithin: control.Duration(12 * time.Second),
		Policy:        &retry.Policy{Name: "hurried", MaxAttempts: 10, Base: 100 * time.Millisecond, Cap: time.Second}})
	c.all, c.certain[hurried], c.types[hurried] = append(c.all, hurried), true, "order.placed"
	c.comesAndGoes = append(c.comesAndGoes, add("comes and goes", "pay.captured", true, 32, goodbye))
	return c
}

// endpoint creates the endpoint of a receiver.
func (s *system) endpoint(r *receiver, spec control.EndpointSpec) {
	s.t.Helper()
	spec.URL, spec.Secret = r.url(), r.secret
	made, err := s.control.CreateEndpoint(s.t.Context(), spec, "torture")
	must(s.t, err)
	r.is(made.Endpoint.ID)
}

func (c *cast) owed(eventType string) (out []string) {
	for _, r := range c.all {
		types := c.types[r]
		prefix, wild := strings.CutSuffix(types, ">")
		if c.certain[r] && (types == eventType || wild && strings.HasPrefix(eventType, prefix)) {
			out = append(out, r.endpoint)
		}
	}
	return out
}

func (c *cast) hurts() (out []hurt) {
	for _, r := range c.comesAndGoes {
		out = append(out, receiverHurt(r))
	}
	return out
}

func TestTortureOfAllInOneProcess(t *testing.T) {
	t.Parallel()
	sync := []string{"always", "1s"}[*options.seed%2]
	torture(t, allInOne(t, sync))
}

func TestTortureOfSeparateProcesses(t *testing.T) {
	t.Parallel()
	torture(t, separate(t))
}

func torture(t *testing.T, s *system) {
	c := summon(s)
	l := newLoad(s, c.owed)
	chaos := newChaos(t, *options.seed, append(s.hurts, c.hurts()...))
	t.Logf("repeat with: -seed %d -duration %s", *options.seed, *options.duration)

	ctx, cancel := context.WithTimeout(t.Context(), *options.duration)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { l.produceNATS(ctx, t, "nats-a", 80*time.Millisecond, *options.seed) })
	work.Go(func() { l.produceNATS(ctx, t, "nats-b", 80*time.Millisecond, *options.seed+1) })
	work.Go(func() { l.produceHTTP(ctx, t, "http", 100*time.Millisecond, *options.seed) })
	work.Go(func() { l.contend(ctx, t, time.Second) })
	work.Go(func() { l.operate(ctx, *options.seed, c.toggled, c.moved) })
	work.Go(func() { chaos.run(ctx) })
	work.Wait()
	s.rest()
	verdict(t, s, c.log, l, chaos)
}

// verdict checks the invariants, and says what happened.
func verdict(t *testing.T, s *system, log *requestLog, l *load, chaos *chaos) {
	t.Helper()
	h := s.history(log, l)
	found := invariants.Check(h)
	if len(found) > 0 {
		t.Errorf("%s\nchaos:\n%s", invariants.Report(h, found, 20), chaos)
	}
	crashes, exits := s.faults()
	if len(crashes) > 0 {
		t.Errorf("programs crashed:\n%s", strings.Join(crashes, "\n"))
	}
	s.checkView(t, h)
	s.checkAudit(t, h)
	s.checkProofs(t, h)
	s.checkForgeries(t, h)
	kinds, outcomes := map[record.Kind]int{}, map[string]int{}
	for _, row := range h.Ledger {
		kinds[row.Record.Kind]++
		if row.Record.Kind == record.Attempt {
			outcomes[row.Record.Outcome]++
		}
	}
	if len(h.Published) == 0 || kinds[record.Attempt] == 0 {
		t.Error("nothing happened")
	}
	slices.Sort(exits)
	t.Logf("%d events acknowledged after %d tries, %d replays, %d requests received, %d records (%d stated "+
		"again)\nrecords: %v\noutcomes: %v\nchaos: %v\noperators were refused: %v\nended unasked: %q",
		len(h.Published), l.tries, len(h.Replayed), len(h.Requests), len(h.Ledger), h.Restated(), kinds, outcomes,
		chaos.counts, l.refusals, slices.Compact(exits))
}
