package registry_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/test/testkit"
)

const patience = 2 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func valid(t *testing.T) registry.Endpoint {
	t.Helper()
	return validFor(t, testkit.Keys(t))
}

func validFor(t *testing.T, ring *sealed.Keyring) registry.Endpoint {
	t.Helper()
	k, err := envelope.GenerateHMAC(rand.Reader)
	must(t, err)
	e := registry.Endpoint{ID: ids.New(ids.Endpoint, time.Now()), Tenant: "default", URL: "https://example.com/hooks", Types: []string{"a.*"},
		State: registry.Enabled, Scheme: envelope.SchemeHMAC,
		Timeout: registry.DefaultTimeout, MaxInFlight: registry.DefaultMaxInFlight}
	e.Secrets = []registry.Secret{e.SealSecret(ring, k)}
	return e
}

func open(t *testing.T, s *testkit.Server) *registry.Store {
	t.Helper()
	store, err := registry.OpenStore(t.Context(), s.JetStream())
	must(t, err)
	return store
}

func watch(t *testing.T, s *testkit.Server) *registry.View {
	t.Helper()
	v := registry.NewView(s.JetStream(), zerolog.Nop())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = v.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-v.Ready():
	case <-time.After(patience):
		t.Fatal("the view did not become ready")
	}
	return v
}

func TestValidateNamesTheFieldThatIsWrong(t *testing.T) {
	for field, breakIt := range map[string]func(*registry.Endpoint){
		"tenant":           func(e *registry.Endpoint) { e.Tenant = "a b" },
		"url":              func(e *registry.Endpoint) { e.URL = "" },
		"types: want":      func(e *registry.Endpoint) { e.Types = nil },
		"types:":           func(e *registry.Endpoint) { e.Types = []string{"a.>.b"} },
		"description":      func(e *registry.Endpoint) { e.Description = strings.Repeat("x", 501) },
		"scheme":           func(e *registry.Endpoint) { e.Scheme = "v9" },
		"signature_header": func(e *registry.Endpoint) { e.SignatureHeader = "X-Sig" },
		"secrets":          func(e *registry.Endpoint) { e.Secrets = nil },
		"secret:":          func(e *registry.Endpoint) { e.Secrets = []registry.Secret{{KeyID: "key_x", Sealed: "hunter2"}} },
		"timeout":          func(e *registry.Endpoint) { e.Timeout = 31 * time.Second },
		"max_in_flight":    func(e *registry.Endpoint) { e.MaxInFlight = 0 },
		"deliver_within":   func(e *registry.Endpoint) { e.DeliverWithin = -1 },
		"policy":           func(e *registry.Endpoint) { e.Policy = &retry.Policy{MaxAttempts: -1} },
		"ordering":         func(e *registry.Endpoint) { e.Ordering = "lifo" },
		"max_per_second":   func(e *registry.Endpoint) { e.MaxPerSecond = math.NaN() },
		"policies":         func(e *registry.Endpoint) { e.Policies = []registry.PolicyRule{{Policy: retry.Urgent()}} },
	} {
		e := valid(t)
		must(t, e.Validate())
		breakIt(&e)
		if err := e.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("a wrong %s gave %v", field, err)
		}
	}
}

func TestSecretsStayOutOfWhatIsPrinted(t *testing.T) {
	ring := testkit.Keys(t)
	e := validFor(t, ring)
	k, err := envelope.GenerateHMAC(rand.Reader)
	must(t, err)
	e.Secrets = append(e.Secrets, registry.Secret{KeyID: k.ID, Plain: k.Reveal()})
	must(t, e.SetHeaders(ring, map[string]string{"X-Api-Key": "s3cr3t-value"}))
	opened, err := (&registry.Endpoint{ID: e.ID, URL: e.URL, Scheme: e.Scheme, Headers: e.Headers}).Open(ring)
	must(t, err)
	for _, s := range []string{fmt.Sprintf("%v", e), fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e), fmt.Sprintf("%s", e.Secrets), fmt.Sprintf("%+v %#v", ring, ring)} {
		if strings.Contains(s, k.Reveal()) || strings.Contains(s, k.Reveal()[6:]) || strings.Contains(s, "s3cr3t") || strings.Contains(s, sealed.KeyPrefix) {
			t.Errorf("printed: %s", s)
		}
	}
	if got := opened.Header.Get("x-api-key"); got != "s3cr3t-value" {
		t.Errorf("opened %q", got)
	}
}

func TestKeysExpire(t *testing.T) {
	ring := testkit.Keys(t)
	e := validFor(t, ring)
	now := time.Now()
	k, err := envelope.GenerateHMAC(rand.Reader)
	must(t, err)
	ending := e.SealSecret(ring, k)
	ending.ExpiresAt = now.Add(time.Hour)
	e.Secrets = append(e.Secrets, ending)
	opened, err := e.Open(ring)
	must(t, err)
	for at, want := range map[time.Time]int{now: 2, now.Add(time.Hour - 1): 2, now.Add(time.Hour): 1} {
		keys, err := opened.Keys(at)
		if err != nil || len(keys) != want || len(e.KeyIDs(at)) != want {
			t.Errorf("at %s: %d keys, %v; want %d", at, len(keys), err, want)
		}
	}
	e.Secrets = e.Secrets[1:]
	opened, err = e.Open(ring)
	must(t, err)
	if _, err := opened.Keys(now.Add(2 * time.Hour)); err == nil || !strings.Contains(err.Error(), "rotate-secret") {
		t.Errorf("without an active key: %v", err)
	}
}

func TestOfTwoChangesAtOnceOneIsRefused(t *testing.T) {
	store := open(t, testkit.NATS(t))
	e, err := store.Create(t.Context(), valid(t), "ann")
	must(t, err)
	if _, err := store.Create(t.Context(), e, "bob"); !errors.Is(err, registry.ErrConflict) {
		t.Errorf("created twice: %v", err)
	}
	_, err = store.Update(t.Context(), e.ID, "ann", "updated", "", func(a *registry.Endpoint) error {
		_, err := store.Update(t.Context(), e.ID, "bob", "updated", "", func(b *registry.Endpoint) error { b.Description = "bob's"; return nil })
		must(t, err)
		a.Description = "ann's"
		return nil
	})
	if !errors.Is(err, registry.ErrConflict) {
		t.Errorf("the later one overwrote: %v", err)
	}
	got, err := store.Get(t.Context(), e.ID)
	if err != nil || got.Description != "bob's" || got.Revision != 2 || got.UpdatedBy != "bob" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatIsNotThereSaysSo(t *testing.T) {
	store := open(t, testkit.NATS(t))
	for _, id := range []string{"ep_nope", "", "a b", "*"} {
		if _, err := store.Get(t.Context(), id); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	e, err := store.Create(t.Context(), valid(t), "ann")
	must(t, err)
	_, err = store.Update(t.Context(), e.ID, "ann", "deleted", "", func(e *registry.Endpoint) error { e.State = registry.Deleted; return nil })
	must(t, err)
	if _, err := store.Update(t.Context(), e.ID, "bob", "updated", "", func(*registry.Endpoint) error { return nil }); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a deleted endpoint was changed: %v", err)
	}
	if all, err := store.List(t.Context(), "", false); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := store.List(t.Context(), "", true); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// Whoever was told that an endpoint exists, changed or is gone, sees it so
// after Fresh, on every view, every time.
func TestAFreshViewIncludesEveryChangeThatWasAnswered(t *testing.T) {
	server := testkit.NATS(t)
	store := open(t, server)
	views := []*registry.View{watch(t, server), watch(t, server)}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			tenant := fmt.Sprintf("t%d", i)
			for range 10 {
				e := valid(t)
				e.Tenant = tenant
				e, err := store.Create(t.Context(), e, "ann")
				must(t, err)
				for _, v := range views {
					must(t, v.Fresh(t.Context()))
					if m := v.Match(tenant, "a.b"); len(m) != 1 || m[0].ID != e.ID {
						t.Errorf("%s: matched %d endpoints after one was created", tenant, len(m))
					}
					if m := v.Match(tenant, "b.b"); len(m) != 0 {
						t.Errorf("%s: matched a type it does not subscribe to", tenant)
					}
				}
				_, err = store.Update(t.Context(), e.ID, "ann", "disabled", "", func(e *registry.Endpoint) error { e.State = registry.Disabled; return nil })
				must(t, err)
				for _, v := range views {
					must(t, v.Fresh(t.Context()))
					if m := v.Match(tenant, "a.b"); len(m) != 0 {
						t.Errorf("%s: matched %d endpoints after the only one was disabled", tenant, len(m))
					}
					if got, ok := v.Get(e.ID); !ok || got.Revision != 2 {
						t.Errorf("revision %+v", got)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestAViewOutlivesItsServer(t *testing.T) {
	server := testkit.NATS(t)
	store := open(t, server)
	v := watch(t, server)
	first, err := store.Create(t.Context(), valid(t), "ann")
	must(t, err)
	must(t, v.Fresh(t.Context()))
	server.Kill()
	if _, ok := v.Get(first.ID); !ok {
		t.Error("the view forgot while the server was away")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := v.Fresh(ctx); err == nil {
		t.Error("fresh although the server is away")
	}
	server.Restart()
	deadline := time.Now().Add(patience)
	for {
		second := valid(t)
		if _, err := store.Create(t.Context(), second, "ann"); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for {
		if err := v.Fresh(t.Context()); err == nil && len(v.Match("default", "a.b")) >= 2 {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("%v, %d endpoints", err, len(v.Match("default", "a.b")))
		}
	}
}
