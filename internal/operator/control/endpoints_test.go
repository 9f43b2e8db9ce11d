package control_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

func ptr[T any](v T) *T { return &v }

type given = control.EndpointSpec

func patchOf(s given, names ...string) control.EndpointPatch { return control.Patch(s, names...) }

func TestAChangeAltersWhatItNamesAndNothingElse(t *testing.T) {
	s := start(t, nil)
	urgent := retry.Urgent()
	made := s.endpoint(func(e *control.EndpointSpec) { e.Description, e.Policy = "the first", &urgent }).Endpoint
	slower := patchOf(given{Timeout: control.Duration(3 * time.Second)}, "timeout", "policy")
	got, err := s.UpdateEndpoint(s.ctx, made.ID, slower, "bob", "slower")
	if err != nil {
		t.Fatal(err)
	}
	want := made
	want.Timeout, want.Policy, want.Revision, want.Change, want.Reason, want.UpdatedBy, want.UpdatedAt =
		control.Duration(3*time.Second), nil, 2, "updated", "slower", "bob", got.UpdatedAt
	if a, b := encode(t, got), encode(t, want); a != b {
		t.Errorf("got  %s\nwant %s", a, b)
	}
	shown, err := s.Endpoint(s.ctx, made.ID)
	if err != nil || encode(t, shown) != encode(t, got) {
		t.Errorf("shown %s (%v)", encode(t, shown), err)
	}
}

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestARefusedChangeLeavesTheEndpointAsItWas(t *testing.T) {
	s := start(t, nil)
	made := s.endpoint(nil).Endpoint
	for name, c := range map[string]struct {
		field string
		patch control.EndpointPatch
	}{
		"nothing":                  {"", control.EndpointPatch{}},
		"a blocked address":        {"url", patchOf(given{URL: "http://10.0.0.1/"}, "url")},
		"no types":                 {"types", patchOf(given{Types: []string{}}, "types")},
		"keys of another kind":     {"scheme", patchOf(given{Scheme: made.Scheme[:1] + "1a"}, "scheme")},
		"one right and one wrong":  {"max_in_flight", patchOf(given{Description: "x"}, "description", "max_in_flight")},
		"a header without purpose": {"signature_header", patchOf(given{SignatureHeader: "X-Sig"}, "signature_header")},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.UpdateEndpoint(s.ctx, made.ID, c.patch, actor, "")
			failed(t, err, control.CodeInvalid, c.field)
		})
	}
	if e, err := s.Endpoint(s.ctx, made.ID); err != nil || encode(t, e) != encode(t, made) {
		t.Errorf("now %s (%v)", encode(t, e), err)
	}
}

// Whoever is told that a change was made finds it made: no change overwrites
// one that it has not seen.
func TestConcurrentChangesAllHappenOrAreConflicts(t *testing.T) {
	s := start(t, nil)
	id := s.endpoint(nil).Endpoint.ID
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = s.UpdateEndpoint(s.ctx, id, patchOf(given{MaxInFlight: i + 1}, "max_in_flight"), actor, "")
		})
	}
	wg.Wait()
	made := uint64(0)
	for _, err := range errs {
		if err == nil {
			made++
			continue
		}
		failed(t, err, control.CodeConflict, "")
	}
	if e, err := s.Endpoint(s.ctx, id); err != nil || made == 0 || e.Revision != 1+made {
		t.Errorf("%d changes made revision %d (%v)", made, e.Revision, err)
	}
}

func TestStatesChangeWithAReasonAndADeletedEndpointStaysReadable(t *testing.T) {
	s := start(t, nil)
	id := s.endpoint(nil).Endpoint.ID
	_, err := s.DisableEndpoint(s.ctx, id, control.Stop{Reason: "", EndPending: true}, actor)
	failed(t, err, control.CodeInvalid, "reason")
	e, err := s.DisableEndpoint(s.ctx, id, control.Stop{Reason: "receiver is down", EndPending: true}, actor)
	if err != nil || e.State != registry.Disabled || e.StateReason != "receiver is down" {
		t.Fatalf("%+v (%v)", e, err)
	}
	_, err = s.TestEndpoint(s.ctx, id, actor)
	failed(t, err, control.CodeEndpointDisabled, "")
	if e, err = s.EnableEndpoint(s.ctx, id, actor, ""); err != nil || e.State != registry.Enabled || e.StateReason != "" {
		t.Fatalf("%+v (%v)", e, err)
	}
	if e, err = s.DeleteEndpoint(s.ctx, id, control.Stop{Reason: "moved", EndPending: true}, actor); err != nil ||
		e.State != registry.Deleted {
		t.Fatalf("%+v (%v)", e, err)
	}
	_, err = s.EnableEndpoint(s.ctx, id, actor, "")
	failed(t, err, control.CodeNotFound, "")
	_, err = s.TestEndpoint(s.ctx, id, actor)
	failed(t, err, control.CodeEndpointDeleted, "")
	if e, err = s.Endpoint(s.ctx, id); err != nil || e.State != registry.Deleted {
		t.Errorf("%+v (%v)", e, err)
	}
	if list, err := s.Endpoints(s.ctx, control.EndpointFilter{}); err != nil || len(list) != 0 {
		t.Errorf("listed %d (%v)", len(list), err)
	}
	for _, unknown := range []string{ids.New(ids.Endpoint, s.now), "ep_1", "", "../x", "*", ">"} {
		_, err := s.Endpoint(s.ctx, unknown)
		failed(t, err, control.CodeNotFound, "")
		_, err = s.DeleteEndpoint(s.ctx, unknown, control.Stop{Reason: "", EndPending: true}, actor)
		failed(t, err, control.CodeNotFound, "")
	}
}

// A second rotation must not end the first secret before the time that its
// owner was told.
func TestKeysThatAreEndingKeepTheirOwnEnds(t *testing.T) {
	s := start(t, nil)
	first := s.endpoint(nil)
	id, began := first.Endpoint.ID, s.now
	second, err := s.RotateSecret(s.ctx, id, control.Rotation{}, actor)
	if err != nil {
		t.Fatal(err)
	}
	s.now = began.Add(time.Hour)
	third, err := s.RotateSecret(s.ctx, id, control.Rotation{Overlap: ptr(control.Duration(time.Minute))}, actor)
	if err != nil {
		t.Fatal(err)
	}
	want := []control.Key{{ID: third.KeyID}, {ID: second.KeyID, ExpiresAt: began.Add(time.Hour + time.Minute)},
		{ID: first.KeyID, ExpiresAt: began.Add(24 * time.Hour)}}
	if got := third.Endpoint.Keys; encode(t, got) != encode(t, want) {
		t.Errorf("keys %s\nwant %s", encode(t, got), encode(t, want))
	}
	s.now = began.Add(2 * time.Hour)
	if e, err := s.Endpoint(s.ctx, id); err != nil || len(e.Keys) != 2 || e.Keys[1].ID != first.KeyID {
		t.Errorf("keys %s (%v)", encode(t, e.Keys), err)
	}
}

func TestARotationCanEndTheOldSecretAtOnceAndTakesNoSecretTwice(t *testing.T) {
	s := start(t, nil)
	first := s.endpoint(nil)
	id := first.Endpoint.ID
	_, err := s.RotateSecret(s.ctx, id, control.Rotation{Secret: first.Secret}, actor)
	failed(t, err, control.CodeInvalid, "secret")
	_, err = s.RotateSecret(s.ctx, id, control.Rotation{Overlap: ptr(control.Duration(-1))}, actor)
	failed(t, err, control.CodeInvalid, "overlap")
	made, err := s.RotateSecret(s.ctx, id, control.Rotation{Overlap: ptr(control.Duration(0))}, actor)
	if err != nil || len(made.Endpoint.Keys) != 1 || made.Endpoint.Keys[0].ID != made.KeyID ||
		made.Secret == first.Secret {
		t.Fatalf("%+v (%v)", made.Endpoint, err)
	}
	for range 7 {
		if _, err := s.RotateSecret(s.ctx, id, control.Rotation{}, actor); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.RotateSecret(s.ctx, id, control.Rotation{}, actor)
	if e := failed(t, err, control.CodeInvalid, "overlap"); !strings.Contains(e.Error(), "2026-08-20T14:00:00Z") {
		t.Errorf("the error does not say when: %v", e)
	}
}

func TestNoAnswerButTheOneThatMadeItHoldsASecret(t *testing.T) {
	s := start(t, nil)
	made := s.endpoint(nil)
	list, err := s.Endpoints(s.ctx, control.EndpointFilter{})
	if err != nil {
		t.Fatal(err)
	}
	updated, err := s.UpdateEndpoint(s.ctx, made.Endpoint.ID, patchOf(given{Description: "x"}, "description"), actor, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{made.Endpoint, list, updated} {
		if strings.Contains(encode(t, v), strings.TrimPrefix(made.Secret, "whsec_")) {
			t.Errorf("%s holds the secret", encode(t, v))
		}
	}
}

func TestATestEventIsForItsEndpointAlone(t *testing.T) {
	s := start(t, nil)
	made := s.endpoint(func(e *control.EndpointSpec) { e.Tenant = "acme" }).Endpoint
	ack, err := s.TestEndpoint(s.ctx, made.ID, actor)
	if err != nil || !ids.Valid(ids.Event, ack.ID) || ack.Tenant != "acme" || ack.Type != "waybill.test" {
		t.Fatalf("%+v (%v)", ack, err)
	}
	stream, err := s.nats.JetStream().Stream(s.ctx, streams.Events)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetMsg(s.ctx, ack.Seq)
	if err != nil || m.Subject != "events.acme.waybill.test" || m.Header.Get(streams.HeaderOnlyEndpoint) != made.ID ||
		m.Header.Get("Nats-Msg-Id") != "acme/"+ack.ID {
		t.Fatalf("stored %+v (%v)", m, err)
	}
}

func TestAnEventForOneEndpointNeedsThatEndpoint(t *testing.T) {
	s := start(t, nil)
	made := s.endpoint(func(e *control.EndpointSpec) { e.Tenant = "acme" }).Endpoint
	event := []byte(`{"id":"x","type":"a","data":1}`)
	_, err := s.PublishEvent(s.ctx, "globex", event, made.ID)
	failed(t, err, control.CodeInvalid, "endpoint_id")
	if _, err := s.PublishEvent(s.ctx, "acme", event, made.ID); err != nil {
		t.Fatal(err)
	}
	// The same event for everybody is another one: it would be lost if it passed for a duplicate.
	_, err = s.PublishEvent(s.ctx, "acme", event, "")
	failed(t, err, control.CodeIDInUse, "id")
	ack, err := s.PublishEvent(s.ctx, "acme", event, made.ID)
	if err != nil || !ack.Duplicate {
		t.Errorf("%+v (%v)", ack, err)
	}
	_, err = s.PublishEvent(s.ctx, "", []byte(`{"type":"a"}`), "")
	failed(t, err, control.CodeInvalid, "data")
}
