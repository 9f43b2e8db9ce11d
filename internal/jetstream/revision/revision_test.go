package revision_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/test/testkit"
)

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

// thing is what the tests keep.
type thing struct {
	Name  string `json:"name"`
	Value int    `json:"value"`

	revision.Meta
	Deleted bool `json:"deleted,omitempty"`
}

var things = revision.Kind[thing]{Bucket: "things", Name: "thing",
	Meta:       func(t *thing) *revision.Meta { return &t.Meta },
	Deleted:    func(t *thing) bool { return t.Deleted },
	SetDeleted: func(t *thing, is bool) { t.Deleted = is }}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type bench struct {
	t      *testing.T
	server *testkit.Server
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	store  *revision.Store[thing]
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, server: testkit.BareNATS(t)}
	b.js = b.server.JetStream()
	var err error
	b.kv, err = b.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: things.Bucket, History: 1,
		Storage: jetstream.FileStorage})
	must(t, err)
	b.store, err = revision.Open(t.Context(), b.js, things)
	must(t, err)
	return b
}

func by(actor, action string) revision.Change {
	return revision.Change{Actor: actor, Action: action, Reason: "why " + action}
}

func (b *bench) create(name string, value int) thing {
	b.t.Helper()
	v, err := b.store.Create(b.t.Context(), name, thing{Name: name, Value: value}, by("ann", "created"))
	must(b.t, err)
	return v
}

func (b *bench) set(name string, value int) (thing, error) {
	return b.store.Update(b.t.Context(), name, by("bob", "updated"), func(v *thing) error { v.Value = value; return nil })
}

func TestEachChangeIsOneNumberedRevisionWithItsActor(t *testing.T) {
	b := newBench(t)
	before := time.Now().Add(-time.Second)
	// What the caller says of the revision itself counts for nothing.
	said := thing{Name: "a", Value: 1, Deleted: true, Meta: revision.Meta{Revision: 77, UpdatedBy: "mallory"}}
	made, err := b.store.Create(t.Context(), "a", said, by("ann", "created"))
	must(t, err)
	check := func(v thing, number uint64, value int, change, actor string) {
		t.Helper()
		if v.Revision != number || v.Value != value || v.Change != change || v.UpdatedBy != actor ||
			v.Reason != "why "+change ||
			v.UpdatedAt.Before(before) || v.UpdatedAt.Location() != time.UTC || !v.CreatedAt.Equal(made.CreatedAt) || v.Deleted {
			t.Errorf("%+v, want revision %d, %d, %s by %s", v, number, value, change, actor)
		}
		stored, err := b.store.Get(t.Context(), "a")
		if err != nil || stored != v {
			t.Errorf("stored: %+v (%v), returned: %+v", stored, err, v)
		}
	}
	check(made, 1, 1, "created", "ann")
	changed, err := b.set("a", 2)
	must(t, err)
	check(changed, 2, 2, "updated", "bob")
}

func TestANameIsTakenOnceAndItsNumbersGoOnOverADeletion(t *testing.T) {
	b := newBench(t)
	b.create("a", 1)
	if _, err := b.store.Create(t.Context(), "a", thing{}, by("bob", "created")); !errors.Is(err, revision.ErrExists) ||
		!strings.Contains(err.Error(), `thing "a"`) {
		t.Errorf("a second one: %v", err)
	}
	gone, err := b.store.Delete(t.Context(), "a", "bob", "no longer used")
	if err != nil || !gone.Deleted || gone.Revision != 2 || gone.Change != "deleted" || gone.UpdatedBy != "bob" ||
		gone.Reason != "no longer used" || gone.Value != 1 {
		t.Errorf("%+v, %v", gone, err)
	}
	_, get := b.store.Get(t.Context(), "a")
	_, update := b.set("a", 3)
	_, again := b.store.Delete(t.Context(), "a", "bob", "")
	for what, err := range map[string]error{"get": get, "update": update, "delete": again} {
		if !errors.Is(err, revision.ErrNotFound) {
			t.Errorf("%s of a deleted one: %v", what, err)
		}
	}
	if !strings.Contains(update.Error(), "by bob") {
		t.Errorf("it does not say who deleted it: %v", update)
	}
	back := b.create("a", 9)
	if back.Revision != 3 || back.Deleted || back.Value != 9 || back.Change != "created" {
		t.Errorf("made anew: %+v", back)
	}
}

func TestWhatIsNotThereOrCannotBeAKeyIsNotFound(t *testing.T) {
	b := newBench(t)
	for _, key := range []string{"none", "", "a b", "a..b", "*", ">"} {
		if _, err := b.store.Get(t.Context(), key); !errors.Is(err, revision.ErrNotFound) {
			t.Errorf("get %q: %v", key, err)
		}
		if _, err := b.set(key, 1); !errors.Is(err, revision.ErrNotFound) {
			t.Errorf("update %q: %v", key, err)
		}
	}
	if list, err := b.store.List(t.Context()); err != nil || list == nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestAChangeThatIsRefusedStoresNothing(t *testing.T) {
	b := newBench(t)
	made := b.create("a", 1)
	refused := errors.New("refused")
	_, err := b.store.Update(t.Context(), "a", by("bob", "updated"), func(v *thing) error { v.Value = 2; return refused })
	if !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	if v, err := b.store.Get(t.Context(), "a"); err != nil || v != made {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestARevisionThatSomebodyElseStoredMeanwhileIsNotOverwritten(t *testing.T) {
	b := newBench(t)
	b.create("a", 1)
	_, err := b.store.Update(t.Context(), "a", by("ann", "updated"), func(v *thing) error {
		if _, err := b.set("a", 5); err != nil { // bob is faster
			return err
		}
		v.Value = 2
		return nil
	})
	if !errors.Is(err, revision.ErrConflict) {
		t.Errorf("%v", err)
	}
	if v, err := b.store.Get(t.Context(), "a"); err != nil || v.Value != 5 || v.Revision != 2 || v.UpdatedBy != "bob" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestOfManyWhoChangeItAtOnceNoneIsLost(t *testing.T) {
	b := newBench(t)
	b.create("a", 0)
	const people, each = 8, 10
	var work sync.WaitGroup
	for range people {
		work.Go(func() {
			for n := 0; n < each; {
				_, err := b.store.Update(t.Context(), "a", by("ann", "updated"), func(v *thing) error { v.Value++; return nil })
				switch {
				case err == nil:
					n++
				case !errors.Is(err, revision.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	if v, err := b.store.Get(t.Context(), "a"); err != nil || v.Value != people*each || v.Revision != people*each+1 {
		t.Errorf("%+v, %v", v, err)
	}
	var made sync.Map
	for i := range people {
		work.Go(func() {
			_, err := b.store.Create(t.Context(), "new", thing{Value: i}, by("ann", "created"))
			if err == nil {
				made.Store(i, true)
			} else if !errors.Is(err, revision.ErrConflict) && !errors.Is(err, revision.ErrExists) {
				t.Error(err)
			}
		})
	}
	work.Wait()
	winners := 0
	made.Range(func(any, any) bool { winners++; return true })
	if winners != 1 {
		t.Errorf("%d made the same one", winners)
	}
}

func TestTheListIsInOrderAndHasWhatIsNotDeleted(t *testing.T) {
	b := newBench(t)
	for i, name := range []string{"c", "a", "b"} {
		b.create(name, i)
	}
	_, err := b.store.Delete(t.Context(), "b", "ann", "")
	must(t, err)
	list, err := b.store.List(t.Context())
	if err != nil || names(list) != "[a c]" {
		t.Errorf("%v, %v", names(list), err)
	}
	// One that cannot be read must not be missing in silence.
	_, err = b.kv.Put(t.Context(), "d", []byte("{"))
	must(t, err)
	if list, err := b.store.List(t.Context()); err == nil || !strings.Contains(err.Error(), "thing") {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := b.store.Get(t.Context(), "d"); err == nil || errors.Is(err, revision.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := b.store.Create(t.Context(), "d", thing{}, by("ann", "created")); err == nil {
		t.Error("what cannot be read was overwritten")
	}
}

func TestABucketThatIsNotThereIsSaidToBeMade(t *testing.T) {
	if _, err := revision.Open(t.Context(), testkit.BareNATS(t).JetStream(), things); err == nil ||
		!strings.Contains(err.Error(), "waybill streams apply") {
		t.Errorf("%v", err)
	}
}

func names(list []thing) string {
	var out []string
	for _, v := range list {
		out = append(out, v.Name)
	}
	return fmt.Sprint(out)
}

// view runs one, which ends with the test.
func (b *bench) view() *revision.View[thing] {
	b.t.Helper()
	v := revision.NewView(b.server.JetStream(), things, zerolog.Nop())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := v.Run(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	b.t.Cleanup(func() { cancel(); <-ended })
	return v
}

func (b *bench) ready(v *revision.View[thing]) {
	b.t.Helper()
	select {
	case <-v.Ready():
	case <-time.After(patience):
		b.t.Fatal("the view is not ready")
	}
}

func (b *bench) eventually(what string, cond func() bool) {
	b.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !cond(); {
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatalf("waited for: %s", what)
		}
	}
}

func value(v *revision.View[thing], key string) int {
	t, ok := v.Get(key)
	if !ok {
		return -1
	}
	return t.Value
}

func TestAViewIsWholeOnceItIsReadyAndFollows(t *testing.T) {
	b := newBench(t)
	const many = 300
	for i := range many {
		b.create(fmt.Sprintf("t%03d", i), i)
	}
	_, err := b.store.Delete(t.Context(), "t007", "ann", "")
	must(t, err)
	v := b.view()
	if len(v.All()) != 0 && len(v.All()) != many-1 {
		t.Errorf("a part of it is shown: %d", len(v.All()))
	}
	b.ready(v)
	all := v.All()
	if len(all) != many-1 || !slices.IsSortedFunc(all, func(x, y thing) int { return strings.Compare(x.Name, y.Name) }) ||
		value(v, "t007") != -1 || value(v, "t008") != 8 {
		t.Errorf("%d are seen; t007: %d, t008: %d", len(all), value(v, "t007"), value(v, "t008"))
	}
	b.create("new", 1)
	b.eventually("what is new is seen", func() bool { return value(v, "new") == 1 })
	_, err = b.set("new", 2)
	must(t, err)
	b.eventually("a change is seen", func() bool { return value(v, "new") == 2 })
	_, err = b.store.Delete(t.Context(), "new", "ann", "")
	must(t, err)
	b.eventually("a deletion is seen", func() bool { return value(v, "new") == -1 && len(v.All()) == many-1 })
	if value(v, "none") != -1 {
		t.Error("there is what never was")
	}
}

func TestAViewOfNothingIsReadyToo(t *testing.T) {
	b := newBench(t)
	v := b.view()
	b.ready(v)
	if len(v.All()) != 0 {
		t.Errorf("%v", v.All())
	}
}

func TestAViewKeepsWhatItSawWhereTheNextRevisionCannotBeRead(t *testing.T) {
	b := newBench(t)
	b.create("a", 1)
	v := b.view()
	b.ready(v)
	_, err := b.kv.Put(t.Context(), "a", []byte("{"))
	must(t, err)
	b.create("after", 1)
	b.eventually("what came after it is seen", func() bool { return value(v, "after") == 1 })
	if value(v, "a") != 1 {
		t.Errorf("it is %d", value(v, "a"))
	}
	must(t, b.kv.Purge(t.Context(), "a"))
	b.eventually("its key's removal is seen", func() bool { return value(v, "a") == -1 })
}

func TestAViewShowsWhatItSawWhileTheServerIsAwayAndFollowsAgainAfterwards(t *testing.T) {
	b := newBench(t)
	b.create("a", 1)
	b.create("gone", 1)
	v := b.view()
	b.ready(v)
	b.server.Kill()
	if value(v, "a") != 1 {
		t.Errorf("while the server is away it is %d", value(v, "a"))
	}
	b.server.Restart()
	b.eventually("the server takes changes", func() bool { _, err := b.set("a", 2); return err == nil })
	must(t, b.kv.Purge(t.Context(), "gone"))
	b.eventually("what changed is seen", func() bool { return value(v, "a") == 2 && value(v, "gone") == -1 })
}

func TestAViewWaitsForABucketThatIsMadeLater(t *testing.T) {
	b := newBench(t)
	must(t, b.js.DeleteKeyValue(t.Context(), things.Bucket))
	v := b.view()
	_, err := b.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: things.Bucket})
	must(t, err)
	b.ready(v)
	b.create("a", 4)
	b.eventually("it follows", func() bool { return value(v, "a") == 4 })
}
