package registry_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// Whoever may publish anything can have JetStream write its acknowledgement
// over an endpoint. What the endpoint was before stands, after a restart too.
func TestWhatIsWrittenOverAnEndpointDoesNotTakeItAway(t *testing.T) {
	for name, junk := range map[string]string{"no JSON": "{", "an acknowledgement": `{"stream":"EVENTS","seq":7}`,
		"another endpoint": ""} {
		t.Run(name, func(t *testing.T) {
			server := testkit.NATS(t)
			store := open(t, server)
			e, err := store.Create(t.Context(), valid(t), "ann")
			must(t, err)
			other, err := store.Create(t.Context(), valid(t), "ann")
			must(t, err)
			before := watch(t, server)
			must(t, before.Fresh(t.Context()))
			kv, err := server.JetStream().KeyValue(t.Context(), streams.EndpointsBucket)
			must(t, err)
			value := []byte(junk)
			if junk == "" {
				entry, err := kv.Get(t.Context(), other.ID)
				must(t, err)
				value = entry.Value()
			}
			_, err = kv.Put(t.Context(), e.ID, value)
			must(t, err)
			for what, view := range map[string]*registry.View{"a view that had it": before,
				"one that starts afterwards": watch(t, server)} {
				must(t, view.Fresh(t.Context()))
				if m := view.Match("default", "a.b"); len(m) != 2 {
					t.Errorf("%s: %d match", what, len(m))
				}
				if got, ok := view.Get(e.ID); !ok || got.ID != e.ID || got.Revision != 1 {
					t.Errorf("%s: %+v", what, got)
				}
				if note := view.Note(); !strings.Contains(note, e.ID) || !strings.Contains(note, "1 entry") {
					t.Errorf("%s says: %q", what, note)
				}
			}
			if got, err := store.Get(t.Context(), e.ID); err != nil || got.Revision != 1 {
				t.Errorf("%+v, %v", got, err)
			}
			if list, err := store.List(t.Context(), "", false); err != nil || len(list) != 2 {
				t.Errorf("%d are listed, %v", len(list), err)
			}
			// The next revision heals it.
			changed, err := store.Update(t.Context(), e.ID, "bob", "updated", "",
				func(e *registry.Endpoint) error { e.Description = "mended"; return nil })
			if err != nil || changed.Revision != 2 {
				t.Fatalf("%+v, %v", changed, err)
			}
			must(t, before.Fresh(t.Context()))
			if got, _ := before.Get(e.ID); got.Revision != 2 || before.Note() != "" {
				t.Errorf("%+v; it says %q", got, before.Note())
			}
		})
	}
}

func TestWhatIsWrittenOverAnEventTypeDoesNotTakeItAway(t *testing.T) {
	server := testkit.NATS(t)
	store := open(t, server)
	_, err := store.SetEventType(t.Context(), registry.EventType{Tenant: "default", Pattern: "a.*", DeliverWithin: 1e9},
		"ann", "")
	must(t, err)
	kv, err := server.JetStream().KeyValue(t.Context(), streams.EventTypesBucket)
	must(t, err)
	keys, err := kv.Keys(t.Context())
	must(t, err)
	_, err = kv.Put(t.Context(), keys[0], []byte(`{"stream":"EVENTS","seq":7}`))
	must(t, err)
	view := watch(t, server)
	if m := view.EventTypes("default", "a.b"); len(m) != 1 || m[0].Revision != 1 ||
		!strings.Contains(view.Note(), keys[0]) {
		t.Errorf("%v; it says %q", m, view.Note())
	}
	if got, err := store.EventType(t.Context(), "default", "a.*"); err != nil || got.Revision != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := store.EventTypes(t.Context(), ""); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if got, err := store.SetEventType(t.Context(), registry.EventType{Tenant: "default", Pattern: "a.*",
		DeliverWithin: 2e9}, "bob", ""); err != nil || got.Revision != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
