package eventids_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/events/eventids"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// patience bounds every wait; none lasts so long unless something is wrong.
const patience = 2 * time.Minute

type fixture struct {
	*testing.T
	server *testkit.Server
	nc     *nats.Conn
	js     jetstream.JetStream
}

// newFixture has a stream EVENTS that takes messages as they come.
func newFixture(t *testing.T) *fixture {
	f := &fixture{T: t, server: testkit.BareNATS(t)}
	f.nc = f.server.Connect()
	js, err := jetstream.New(f.nc, jetstream.WithPublishAsyncMaxPending(2000))
	f.must(err)
	f.js = js
	f.createEvents()
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: streams.EventIDs, Subjects: []string{"event_ids.>"},
		MaxMsgsPerSubject: 1, AllowDirect: true})
	f.must(err)
	return f
}

func (f *fixture) createEvents() {
	f.Helper()
	_, err := f.js.CreateStream(f.Context(), jetstream.StreamConfig{Name: streams.Events, Subjects: []string{"events.>"},
		AllowDirect: true, Duplicates: time.Second})
	f.must(err)
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// publish stores an event whose id the header names, if it is to.
func (f *fixture) publish(id string, header bool) (seq uint64) {
	f.Helper()
	m := nats.NewMsg("events.default.a")
	m.Data = fmt.Appendf(nil, `{"id":%q,"type":"a","timestamp":"2026-08-19T15:10:00Z","data":1}`, id)
	if header {
		m.Header.Set(nats.MsgIdHdr, "default/"+id)
	}
	ack, err := f.js.PublishMsg(f.Context(), m)
	f.must(err)
	return ack.Sequence
}

// many stores events order-<from> to order-<to - 1>.
func (f *fixture) many(from, to int) {
	f.Helper()
	for i := from; i < to; i++ {
		m := nats.NewMsg("events.default.a")
		m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("default/order-%d", i))
		_, err := f.js.PublishMsgAsync(m)
		f.must(err)
	}
	select {
	case <-f.js.PublishAsyncComplete():
	case <-time.After(patience):
		f.Fatal("the events are not stored")
	}
}

// index starts one that ends with the test, or with stop, and waits until it is ready.
func (f *fixture) index() (x *eventids.Index, stop func()) {
	f.Helper()
	x, err := eventids.New(f.nc, zerolog.New(zerolog.NewTestWriter(f.T)).Level(zerolog.WarnLevel))
	f.must(err)
	running := testkit.Start(f.T, x.Run)
	select {
	case <-x.Ready():
	case <-time.After(patience):
		f.Fatal("the index is not ready")
	}
	return x, func() { running.Stop(f.T) }
}

// reach waits until an index has come to what EVENTS holds at seq.
func (f *fixture) reach(x *eventids.Index, seq uint64) {
	f.Helper()
	s, err := f.js.Stream(f.Context(), streams.Events)
	f.must(err)
	m, err := s.GetMsg(f.Context(), seq)
	f.must(err)
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	for {
		err := x.Reach(ctx, seq, m.Time)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			f.Fatal(err)
		}
	}
}

func (f *fixture) has(x *eventids.Index, id string, want ...uint64) {
	f.Helper()
	if got := x.Before("default", id, 1<<40); !slices.Equal(got, want) {
		f.Errorf("%s is at %v, want %v", id, got, want)
	}
}

func TestAnIndexFollowsEVENTS(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.publish("x", true)
	x, _ := f.index()
	f.has(x, "x", first)
	second := f.publish("x", false)
	tenant := f.publish("default/x", true)
	other := f.publish("y", false)
	f.reach(x, other)
	f.has(x, "x", first, second)
	f.has(x, "y", other)
	f.has(x, "z")
	if got := x.Before("default", "default/x", 1<<40); !slices.Contains(got, tenant) {
		t.Errorf("an id that begins as its tenant is at %v, want %d among them", got, tenant)
	}
	if got := x.Before("default", "x", second); !slices.Equal(got, []uint64{first}) {
		t.Errorf("below the second one x is at %v", got)
	}
	if got := x.Before("other", "x", 1<<40); got != nil {
		t.Errorf("another tenant's x is at %v", got)
	}
	// It holds also for an index that begins now, and reads all of it again.
	again, _ := f.index()
	f.has(again, "x", first, second)
	f.has(again, "y", other)
}

func TestAnIndexWaitsForAnEventThatItHasNotCome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	x, _ := f.index()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := x.Reach(ctx, 1, time.Now()); !errors.Is(err, enough) {
		t.Errorf("it has come to an event that is not stored: %v", err)
	}
}

// kept waits until a segment is kept, and returns it.
func (f *fixture) kept(number uint64, after uint64) *jetstream.RawStreamMsg {
	f.Helper()
	events, err := f.js.Stream(f.Context(), streams.Events)
	f.must(err)
	s, err := f.js.Stream(f.Context(), streams.EventIDs)
	f.must(err)
	for deadline := time.Now().Add(patience); ; {
		m, err := s.GetLastMsgForSubject(f.Context(), streams.SegmentSubject(events.CachedInfo().Created.UnixNano(), number))
		if err == nil && m.Sequence > after {
			return m
		}
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) || time.Now().After(deadline) {
			f.Fatalf("segment %d is not kept: %v", number, err)
		}
	}
}

// replace writes a segment as somebody might have: with the id "mark" at sequence 7.
func (f *fixture) replace(m *jetstream.RawStreamMsg, lastAt string) uint64 {
	f.Helper()
	altered, err := eventids.Altered(m.Data, 7, "default", "mark")
	f.must(err)
	out := nats.NewMsg(m.Subject)
	out.Data = altered
	out.Header.Set(streams.HeaderLastSeq, m.Header.Get(streams.HeaderLastSeq))
	out.Header.Set(streams.HeaderLastAt, lastAt)
	ack, err := f.js.PublishMsg(f.Context(), out)
	f.must(err)
	return ack.Sequence
}

func TestAStartReadsSegmentsThatHoldAndMendsThoseThatDoNot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(1, eventids.SegmentEvents+10) // order-n at n: the sequences begin with 1
	x, stop := f.index()
	f.has(x, "order-7", 7)
	stop()
	m := f.kept(0, 0)

	// What the segment says is taken for what the stream holds: it was not read.
	f.replace(m, m.Header.Get(streams.HeaderLastAt))
	x, stop = f.index()
	f.has(x, "mark", 7)
	f.has(x, "order-7")
	f.has(x, "order-65535", 65535)
	f.has(x, "order-65540", 65540)
	last := f.publish("x", true)
	f.reach(x, last)
	f.has(x, "x", last)
	stop()

	// It speaks of an event that was stored at another time: of a tail that is lost.
	wrong := f.replace(m, "2020-01-01T00:00:00Z")
	x, stop = f.index()
	f.has(x, "mark")
	f.has(x, "order-7", 7)
	f.has(x, "x", last)
	stop()
	if again := f.kept(0, wrong); !slices.Equal(again.Data, m.Data) ||
		again.Header.Get(streams.HeaderLastAt) != m.Header.Get(streams.HeaderLastAt) {
		t.Error("it was not made again")
	}
}

func TestAnIndexBeginsAgainWithAStreamMadeAnew(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.publish("x", true)
	x, _ := f.index()
	f.has(x, "x", 1)
	f.must(f.js.DeleteStream(t.Context(), streams.Events))
	f.createEvents()
	f.publish("y", true)
	f.reach(x, 1)
	f.has(x, "x")
	f.has(x, "y", 1)
}

func TestAnIndexNoticesThatTheStreamLostItsTail(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.publish("a", true)
	f.server.Stop()
	saved := t.TempDir()
	f.must(os.CopyFS(saved, os.DirFS(f.server.Dir)))
	f.server.Restart()
	f.publish("b", true)
	f.publish("c", true)
	x, _ := f.index()
	f.has(x, "c", 3)
	f.server.Stop()
	f.must(os.RemoveAll(f.server.Dir))
	f.must(os.CopyFS(f.server.Dir, os.DirFS(saved)))
	f.server.Restart()
	f.publish("d", true)
	f.publish("e", true)
	f.publish("b", true)
	f.reach(x, 4)
	f.has(x, "a", 1)
	f.has(x, "b", 4)
	f.has(x, "c")
	f.has(x, "d", 2)
}
