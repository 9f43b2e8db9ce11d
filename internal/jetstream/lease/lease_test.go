package lease_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/jetstream/lease"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

const (
	// patience bounds every wait of these tests.
	patience = 2 * time.Minute
	// ttl is how long a lease lasts that nobody renews: much longer than a
	// request on a busy machine takes, and short enough to wait for.
	ttl = 4 * time.Second
	// long is for what must come before a lease ends by itself.
	long = 40 * time.Second
	key  = "who-works"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bench is a NATS server with the bucket of leases alone.
type bench struct {
	t      *testing.T
	server *testkit.Server
	kv     jetstream.KeyValue
}

func newBench(t *testing.T, lasts time.Duration) *bench {
	t.Helper()
	b := &bench{t: t, server: testkit.BareNATS(t)}
	var err error
	b.kv, err = b.server.JetStream().CreateKeyValue(t.Context(),
		jetstream.KeyValueConfig{Bucket: streams.LeasesBucket, TTL: lasts})
	must(t, err)
	return b
}

func (b *bench) options(name string) lease.Options {
	return lease.Options{JS: b.server.JetStream(), Key: key, Name: name, Log: zerolog.Nop()}
}

func (b *bench) acquire(name string) *lease.Lease {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	l, err := lease.Acquire(ctx, b.options(name))
	must(b.t, err)
	return l
}

// held is a lease that is being kept.
type held struct {
	*lease.Lease
	ctx  context.Context // ends when the lease is lost
	stop context.CancelFunc
}

func (b *bench) keep(name string) *held {
	b.t.Helper()
	h := &held{Lease: b.acquire(name)}
	ctx, lose := context.WithCancelCause(context.Background())
	h.ctx, h.stop = ctx, func() { lose(context.Canceled) }
	h.Keep(ctx, lose)
	b.t.Cleanup(func() { h.stop(); h.Release() })
	return h
}

func (h *held) waitLost(t *testing.T) error {
	t.Helper()
	select {
	case <-h.ctx.Done():
	case <-time.After(patience):
		t.Fatal("the lease was not lost")
	}
	return context.Cause(h.ctx)
}

func (b *bench) holder() string {
	b.t.Helper()
	e, err := b.kv.Get(b.t.Context(), key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return ""
	}
	must(b.t, err)
	return string(e.Value())
}

// attempt is somebody who waits for the lease.
type attempt struct {
	got     chan *lease.Lease
	waiting chan string // who has it, each time that was found
	cancel  context.CancelFunc
	err     chan error
}

func (b *bench) wait(name string) *attempt {
	ctx, cancel := context.WithCancel(context.Background())
	a := &attempt{got: make(chan *lease.Lease, 1), waiting: make(chan string, 1000), cancel: cancel,
		err: make(chan error, 1)}
	o := b.options(name)
	o.Waiting = func(holder string) {
		select {
		case a.waiting <- holder:
		default:
		}
	}
	var done sync.WaitGroup
	done.Go(func() {
		l, err := lease.Acquire(ctx, o)
		if err != nil {
			a.err <- err
			return
		}
		a.got <- l
	})
	b.t.Cleanup(func() { cancel(); done.Wait() })
	return a
}

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited for %s", what)
		panic("unreachable")
	}
}

func TestALeaseThatIsRenewedOutlivesItsTimeAndKeepsOthersOut(t *testing.T) {
	t.Parallel()
	b := newBench(t, ttl)
	first := b.keep("first")
	second := b.wait("second")
	for end := time.After(2 * ttl); ; {
		select {
		case holder := <-second.waiting:
			if holder != "first" || !first.Valid() {
				t.Fatalf("%q is said to have it; it is valid: %t", holder, first.Valid())
			}
			continue
		case <-second.got:
			t.Fatal("two have it")
		case <-end:
		}
		break
	}
	if b.holder() != "first" || first.ctx.Err() != nil {
		t.Errorf("%q has it; %v", b.holder(), context.Cause(first.ctx))
	}
}

func TestALeaseThatIsReleasedGoesToTheNextBeforeItEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, long)
	first := b.keep("first")
	second := b.wait("second")
	receive(t, "the second one to find it taken", second.waiting)
	first.stop()
	first.Release()
	released := time.Now()
	if first.Valid() {
		t.Error("it is valid after its release")
	}
	if l := receive(t, "the lease", second.got); !l.Valid() || b.holder() != "second" {
		t.Errorf("valid: %t; %q has it", l.Valid(), b.holder())
	}
	if took := time.Since(released); took > long*3/4 {
		t.Errorf("taken over after %s: one that nobody released lasts %s", took, long)
	}
	first.Release() // again: it takes nothing from the second one
	if b.holder() != "second" {
		t.Errorf("a second release took it from %q", "second")
	}
}

func TestALeaseWhoseHolderDiedEndsByItself(t *testing.T) {
	t.Parallel()
	b := newBench(t, ttl)
	taken := time.Now()
	dead := b.acquire("dead") // and never renewed
	l := receive(t, "the lease", b.wait("second").got)
	if dead.Valid() || !l.Valid() || b.holder() != "second" {
		t.Errorf("the dead one's is valid: %t, the second one's: %t; %q has it", dead.Valid(), l.Valid(), b.holder())
	}
	if took := time.Since(taken); took < ttl/2 {
		t.Errorf("taken after %s, though it lasts %s", took, ttl)
	}
}

func TestTwoNeverThinkThatTheyHaveIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, ttl)
	var waiting []*attempt
	for _, name := range []string{"a", "b", "c", "d"} {
		waiting = append(waiting, b.wait(name))
	}
	got := make(chan *lease.Lease)
	for _, a := range waiting {
		go func() {
			select {
			case l := <-a.got:
				got <- l
			case <-t.Context().Done():
			}
		}()
	}
	var before *lease.Lease
	for range waiting {
		l := receive(t, "a lease", got)
		// Its holder dies, so the next one comes when its time is over: never sooner.
		if before != nil && before.Valid() {
			t.Error("two leases are valid at once")
		}
		before = l
	}
}

func TestAnEarlierRunOfItsOwnIsTakenOverAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, ttl)
	old := b.keep("same")
	again := b.keep("same")
	if !again.Valid() || b.holder() != "same" {
		t.Errorf("valid: %t; %q has it", again.Valid(), b.holder())
	}
	old.stop()
	old.Release() // of a revision that is no longer there
	if b.holder() != "same" || !again.Valid() {
		t.Errorf("the old run took it away: %q has it", b.holder())
	}
}

func TestALeaseThatSomebodyElseTookIsLostAndSaysToWhom(t *testing.T) {
	t.Parallel()
	b := newBench(t, ttl)
	first := b.keep("first")
	if _, err := b.kv.Put(t.Context(), key, []byte("thief")); err != nil {
		t.Fatal(err)
	}
	err := first.waitLost(t)
	if !errors.Is(err, lease.ErrLost) || !strings.Contains(err.Error(), "thief") || first.Valid() {
		t.Errorf("%v; valid: %t", err, first.Valid())
	}
	first.Release()
	if b.holder() != "thief" {
		t.Errorf("the release took it from the thief: %q has it", b.holder())
	}
}

func TestALeaseThatWasDeletedIsTakenAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, ttl)
	first := b.keep("first")
	w, err := b.kv.Watch(t.Context(), key, jetstream.UpdatesOnly())
	must(t, err)
	defer w.Stop()
	must(t, b.kv.Delete(t.Context(), key))
	for {
		if e := receive(t, "it to be taken again", w.Updates()); e != nil && e.Operation() == jetstream.KeyValuePut &&
			string(e.Value()) == "first" {
			break
		}
	}
	if !first.Valid() || first.ctx.Err() != nil {
		t.Errorf("valid: %t; %v", first.Valid(), context.Cause(first.ctx))
	}
}

func TestALeaseIsLostOnceTheServerHasBeenAwayForItsTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, ttl)
	first := b.keep("first")
	b.server.Freeze()
	frozen := time.Now()
	err := first.waitLost(t)
	took := time.Since(frozen)
	b.server.Thaw()
	if !errors.Is(err, lease.ErrLost) || first.Valid() {
		t.Errorf("%v; valid: %t", err, first.Valid())
	}
	// It was renewed less than a fifth of its time before: most of it was left.
	if took < ttl/2 {
		t.Errorf("lost after %s, though it lasts %s", took, ttl)
	}
	t.Logf("lost after %s", took.Round(time.Millisecond))
}

func TestALeaseOutlivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, long)
	first := b.keep("first")
	before, err := b.kv.Get(t.Context(), key)
	must(t, err)
	b.server.Kill()
	b.server.Restart()
	w, err := b.kv.Watch(t.Context(), key)
	must(t, err)
	defer w.Stop()
	for {
		if e := receive(t, "a renewal", w.Updates()); e != nil && e.Revision() > before.Revision() {
			break
		}
	}
	if !first.Valid() || first.ctx.Err() != nil || b.holder() != "first" {
		t.Errorf("valid: %t; %v; %q has it", first.Valid(), context.Cause(first.ctx), b.holder())
	}
}

func TestWhoeverWaitsCanBeTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, ttl)
	b.keep("first")
	second := b.wait("second")
	receive(t, "the second one to find it taken", second.waiting)
	second.cancel()
	if err := receive(t, "an error", second.err); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestABucketThatCannotHoldLeasesIsRefused(t *testing.T) {
	t.Parallel()
	server := testkit.BareNATS(t)
	o := lease.Options{JS: server.JetStream(), Key: key, Name: "first", Log: zerolog.Nop()}
	if _, err := lease.Acquire(t.Context(), o); err == nil || !strings.Contains(err.Error(), "waybill streams apply") {
		t.Errorf("without a bucket: %v", err)
	}
	_, err := o.JS.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: streams.LeasesBucket})
	must(t, err)
	if _, err := lease.Acquire(t.Context(), o); err == nil || !strings.Contains(err.Error(), "keeps its keys for ever") {
		t.Errorf("a bucket without an end: %v", err)
	}
}

// The server ends a lease by the clock on the wall. If that is set back after
// the holder died, the lease stays; nobody renews it all the same.
func TestALeaseThatTheServerDoesNotEndIsTakenOnceNobodyRenewsIt(t *testing.T) {
	b := newBench(t, ttl)
	dead := b.acquire("dead") // and does not keep it
	next := b.wait("next")
	<-next.waiting
	s, err := b.server.JetStream().Stream(t.Context(), "KV_"+streams.LeasesBucket)
	must(t, err)
	config := s.CachedInfo().Config
	config.MaxAge = time.Hour // what setting the clock back comes to
	_, err = b.server.JetStream().UpdateStream(t.Context(), config)
	must(t, err)
	select {
	case l := <-next.got:
		if !l.Valid() || dead.Valid() {
			t.Errorf("the next one's is valid: %v; the dead one's: %v", l.Valid(), dead.Valid())
		}
	case err := <-next.err:
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatal("nobody got the lease")
	}
	if h := b.holder(); h != "next" {
		t.Errorf("%q has it", h)
	}
}
