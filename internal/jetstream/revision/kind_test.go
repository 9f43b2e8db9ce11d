package revision_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
)

func TestSetStoresTheWholeWhateverItWasBefore(t *testing.T) {
	b := newBench(t)
	set := func(v thing, number uint64, change string) thing {
		t.Helper()
		v.Meta = revision.Meta{Revision: 77, UpdatedBy: "mallory"}
		v, err := b.store.Set(t.Context(), "a", v, "ann", "why")
		must(t, err)
		if v.Revision != number || v.Change != change || v.UpdatedBy != "ann" || v.Reason != "why" || v.Deleted {
			t.Errorf("%+v, want revision %d, %s", v, number, change)
		}
		if stored, err := b.store.Get(t.Context(), "a"); err != nil || stored != v {
			t.Errorf("stored: %+v (%v), returned: %+v", stored, err, v)
		}
		return v
	}
	first := set(thing{Name: "a", Value: 1}, 1, "created")
	second := set(thing{Value: 2, Deleted: true}, 2, "updated")
	if second.Name != "" || !second.CreatedAt.Equal(first.CreatedAt) {
		t.Errorf("%+v", second)
	}
	_, err := b.store.Delete(t.Context(), "a", "bob", "")
	must(t, err)
	if again := set(thing{Value: 3}, 4, "created"); !again.CreatedAt.Equal(again.UpdatedAt) {
		t.Errorf("%+v", again)
	}
}

func TestAKindSaysWhatIsOneAndWhatToDoWhereNoneIs(t *testing.T) {
	b := newBench(t)
	wrong := errors.New("value: it is negative")
	kind := things
	kind.Key = func(v *thing) string { return v.Name }
	kind.Check = func(v thing) error {
		if v.Value < 0 {
			return wrong
		}
		return nil
	}
	kind.Title = func(key string) string { return "the thing called " + key }
	kind.See = "things list"
	store, err := revision.Open(t.Context(), b.js, kind)
	must(t, err)
	_, err = store.Create(t.Context(), "a", thing{Name: "a", Value: -1}, by("ann", "created"))
	_, none := store.Get(t.Context(), "a")
	if !errors.Is(err, wrong) || !errors.Is(none, revision.ErrNotFound) ||
		!strings.HasPrefix(none.Error(), "the thing called a: ") || !strings.HasSuffix(none.Error(), "; see: things list") {
		t.Errorf("%v; %v", err, none)
	}
	b.create("a", 1)
	entry, err := b.kv.Get(t.Context(), "a")
	must(t, err)
	_, err = b.kv.Put(t.Context(), "b", entry.Value())
	must(t, err)
	if _, err := store.Get(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "another one") {
		t.Errorf("what is stored under another key: %v", err)
	}
	if bad, err := store.Unreadable(t.Context()); err != nil || fmt.Sprint(bad) != "[things/b]" {
		t.Errorf("%v, %v", bad, err)
	}
	if _, err := kind.Decode([]byte(`{"revision":1}`)); err == nil {
		t.Error("a thing without a name is one")
	}
}
