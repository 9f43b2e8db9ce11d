package endpointhealth_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/internal/registry/endpointhealth"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

const patience = 2 * time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clock is a time that all trackers of a test share.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type system struct {
	t      *testing.T
	server *testkit.Server
	js     jetstream.JetStream
	store  *registry.Store
	kv     jetstream.KeyValue
	clock  *clock
}

func start(t *testing.T) *system {
	t.Helper()
	server := testkit.NATS(t)
	// after what the test creates
	s := &system{t: t, server: server, js: server.JetStream(), clock: &clock{now: time.Now().Add(time.Minute)}}
	var err error
	s.store, err = registry.OpenStore(t.Context(), s.js)
	must(t, err)
	s.kv, err = s.js.KeyValue(t.Context(), streams.EndpointHealthBucket)
	must(t, err)
	return s
}

// tracker is one dispatcher's. stop ends it as a process ends.
func (s *system) tracker() (*endpointhealth.Tracker, func()) {
	s.t.Helper()
	js, err := jetstream.New(s.server.Connect())
	must(s.t, err)
	store, err := registry.OpenStore(s.t.Context(), js)
	must(s.t, err)
	tr, err := endpointhealth.New(s.t.Context(), endpointhealth.Options{JS: js, Store: store, Log: zerolog.Nop(),
		Every: 100 * time.Millisecond, Now: s.clock.Now})
	must(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = tr.Run(ctx) }()
	stop := func() { cancel(); <-done }
	s.t.Cleanup(stop)
	return tr, stop
}

func (s *system) endpoint(disableAfter time.Duration) *registry.Endpoint {
	s.t.Helper()
	k, err := envelope.GenerateHMAC(rand.Reader)
	must(s.t, err)
	e := registry.Endpoint{ID: ids.New(ids.Endpoint, time.Now()), Tenant: "default", URL: "https://example.com/",
		Types: []string{">"}, State: registry.Enabled,
		Scheme: envelope.SchemeHMAC, Timeout: time.Second, MaxInFlight: 1, DisableAfter: disableAfter}
	e.Secrets = []registry.Secret{e.SealSecret(testkit.Keys(s.t), k)}
	e, err = s.store.Create(s.t.Context(), e, "test")
	must(s.t, err)
	return &e
}

// eventually waits for what a tracker does on its own time.
func (s *system) eventually(what string, cond func() bool) {
	s.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatal("it did not happen: " + what)
		}
	}
}

func (s *system) failing(id string) bool {
	_, err := s.kv.Get(s.t.Context(), id)
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		s.t.Fatal(err)
	}
	return err == nil
}

func (s *system) revision(id string) uint64 {
	v, err := s.kv.Get(s.t.Context(), id)
	must(s.t, err)
	return v.Revision()
}

func (s *system) state(id string) registry.Endpoint {
	e, err := s.store.Get(s.t.Context(), id)
	must(s.t, err)
	return e
}

func TestAnEndpointWithoutSuccessForItsTimeIsDisabledAlsoAcrossRestarts(t *testing.T) {
	s := start(t)
	e := s.endpoint(24 * time.Hour)
	first, stop := s.tracker()
	for range 4 {
		first.Observe(e, false)
	}
	s.eventually("the failure is stored", func() bool { return s.failing(e.ID) })
	stored := s.revision(e.ID)
	// A moment at each look: minutes would soon be the hours that are meant.
	s.eventually("the count is stored", func() bool {
		s.clock.pass(100 * time.Millisecond)
		first.Observe(e, false)
		return s.revision(e.ID) > stored
	})
	stop()
	s.clock.pass(22 * time.Hour)
	second, _ := s.tracker()
	was := s.revision(e.ID)
	s.eventually("the second one knows and counts on", func() bool {
		s.clock.pass(100 * time.Millisecond)
		second.Observe(e, false)
		return s.revision(e.ID) > was
	})
	if now := s.state(e.ID); now.State != registry.Enabled {
		t.Fatalf("disabled an hour early: %+v", now)
	}
	s.clock.pass(2 * time.Hour)
	// More than once: what is observed while a write is under way is only counted.
	s.eventually("it is disabled", func() bool {
		second.Observe(e,
			false)
		return s.state(e.ID).State == registry.Disabled
	})
	now := s.state(e.ID)
	if now.UpdatedBy != registry.ActorWaybill || now.Change != "disabled" ||
		now.Reason != string(outcome.ReasonSustainedFailure) || now.Revision != 2 || now.StateReason == "" {
		t.Errorf("%+v", now)
	}
	s.eventually("its failures are forgotten", func() bool { return !s.failing(e.ID) })
}

func TestASuccessAnywhereStartsTheTimeAnew(t *testing.T) {
	s := start(t)
	e := s.endpoint(time.Hour)
	one, _ := s.tracker()
	other, _ := s.tracker()
	for range 6 {
		one.Observe(e, false)
	}
	s.eventually("the failure is stored", func() bool { return s.failing(e.ID) })
	s.clock.pass(30 * time.Minute)
	s.eventually("the success of the other one clears it", func() bool { other.Observe(e, true); return !s.failing(e.ID) })
	s.clock.pass(45 * time.Minute)
	// The one hears of it; then its failures count from now on.
	s.eventually("the failure is stored again", func() bool { one.Observe(e, false); return s.failing(e.ID) })
	for range 10 {
		one.Observe(e, false)
	}
	s.clock.pass(30 * time.Minute)
	for range 10 {
		one.Observe(e, false)
		other.Observe(e, false)
	}
	if now := s.state(e.ID); now.State != registry.Enabled {
		t.Errorf("disabled %s after a success: %s", 75*time.Minute, now.StateReason)
	}
}

func TestFailuresFromBeforeItWasEnabledDoNotCount(t *testing.T) {
	s := start(t)
	e := s.endpoint(time.Hour)
	tr, _ := s.tracker()
	for range 6 {
		tr.Observe(e, false)
	}
	s.eventually("the failure is stored", func() bool { return s.failing(e.ID) })
	s.clock.pass(2 * time.Hour)
	again, err := s.store.Update(t.Context(), e.ID, "ann", "enabled", "",
		func(e *registry.Endpoint) error { e.EnabledAt = s.clock.Now(); return nil })
	must(t, err)
	for range 10 {
		tr.Observe(&again, false)
		s.clock.pass(time.Minute)
	}
	s.clock.pass(40 * time.Minute)
	tr.Observe(&again, false)
	if now := s.state(e.ID); now.State != registry.Enabled {
		t.Fatalf("disabled: %s", now.StateReason)
	}
	// Its first failures may have come before the tracker knew that it was enabled again: its hour
	// began with one of the later ones.
	s.eventually("its own hour is over", func() bool {
		s.clock.pass(time.Minute)
		tr.Observe(&again, false)
		return s.state(e.ID).State == registry.Disabled
	})
}

func TestAnEndpointIsNotDisabled(t *testing.T) {
	s := start(t)
	tr, _ := s.tracker()
	for name, tt := range map[string]struct {
		after    time.Duration
		failures int
		change   bool
	}{
		"that is never to be":                          {0, 20, false},
		"for a few attempts, however far apart":        {time.Hour, 3, false},
		"by a dispatcher that knows an older revision": {time.Hour, 20, true},
	} {
		e := s.endpoint(tt.after)
		for i := range tt.failures {
			tr.Observe(e, false)
			if i == 0 {
				s.eventually("the failure is stored", func() bool { return s.failing(e.ID) })
				s.clock.pass(2 * time.Hour)
			}
			if i == 0 && tt.change {
				_, err := s.store.Update(t.Context(), e.ID, "ann", "updated", "", func(*registry.Endpoint) error { return nil })
				must(t, err)
			}
			s.clock.pass(2 * time.Minute)
		}
		if now := s.state(e.ID); now.State != registry.Enabled {
			t.Errorf("%s: %s", name, now.StateReason)
		}
	}
}

// A hundred thousand attempts in a second cost an endpoint that fails one
// write, and one that does not none.
func TestItCostsNothingUnderLoad(t *testing.T) {
	s := start(t)
	tr, stop := s.tracker()
	bad, good := s.endpoint(time.Hour), s.endpoint(time.Hour)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5000 {
				tr.Observe(bad, false)
				tr.Observe(good, true)
			}
		})
	}
	wg.Wait()
	stop()
	stream, err := s.js.Stream(t.Context(), "KV_"+streams.EndpointHealthBucket)
	must(t, err)
	if n := stream.CachedInfo().State.LastSeq; n > 2 || s.failing(good.ID) || !s.failing(bad.ID) {
		t.Errorf("%d writes", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	server := testkit.NATS(b)
	store, err := registry.OpenStore(b.Context(), server.JetStream())
	must(b, err)
	tr, err := endpointhealth.New(b.Context(),
		endpointhealth.Options{JS: server.JetStream(), Store: store, Log: zerolog.Nop()})
	must(b, err)
	e := &registry.Endpoint{ID: "ep_1", DisableAfter: time.Hour}
	for _, success := range []bool{true, false} {
		b.Run(fmt.Sprintf("success=%t", success), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					tr.Observe(e, success)
				}
			})
		})
	}
}
