package watchdog

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/streams"
)

// disturbance is something that a watchdog must see.
type disturbance struct {
	name    string
	code    Code
	subject string
	disturb func(b *bench)
	mend    func(b *bench) // nil: it is a finding for a while, because it happened
}

// Each disturbance is made on a real server, seen, said once, and over when mended.
func TestEachFindingIsRaisedAndCleared(t *testing.T) {
	t.Parallel()
	quick := func(o *Options) {
		o.Limits.Stalled, o.Limits.SinkLag, o.Limits.Overdue = 300*time.Millisecond, 300*time.Millisecond,
			300*time.Millisecond
		o.Limits.Clock, o.Limits.Unreachable, o.Limits.Behind = time.Hour, time.Second, time.Hour
	}
	old := time.Now().Add(-time.Hour).UTC()
	tests := []disturbance{
		{"a consumer with work and nobody who takes it", ConsumerStalled, "DELIVERIES/dispatch-0",
			func(b *bench) { b.message(streams.DeliverySubject(0, "ep_1")) },
			func(b *bench) { must(b.t, b.stream(streams.Deliveries).Purge(b.t.Context())) }},
		{"a consumer that is gone", ConsumerMissing, "REPLAYS/replay",
			func(b *bench) { must(b.t, b.js.DeleteConsumer(b.t.Context(), streams.Replays, streams.ReplayConsumer)) },
			func(b *bench) { b.apply() }},
		{"records that ClickHouse lacks", SinkBehind, "",
			func(b *bench) {
				b.publish(record.Record{ID: "x", Kind: record.ConformanceChecked, At: old, Tenant: "t"})
			},
			func(b *bench) { b.stored() }},
		{"a retry that never comes", DeliveryOverdue, "",
			func(b *bench) { b.publish(owed(1, old, 0)) },
			func(b *bench) {
				o := owed(1, old, 0)
				b.publish(record.Record{ID: "att_x", Kind: record.Attempt, At: old, Tenant: "t", EventID: o.EventID,
					EndpointID: o.EndpointID, Decision: "delivered"})
			}},
		{"a delivery past its deadline", PastDeadline, "",
			func(b *bench) { b.publish(owed(1, old, time.Minute)) },
			func(b *bench) { b.publish(deadLetter(owed(1, old, time.Minute), time.Now())) }},
		{"a setting that somebody changed", StreamsDrifted, "stream DELIVERIES",
			func(b *bench) { b.alter(streams.Deliveries, func(c *jetstream.StreamConfig) { c.MaxMsgs = 7 }) },
			func(b *bench) { b.apply() }},
		{"events that were removed", MessagesRemoved, streams.Events,
			func(b *bench) {
				b.message(streams.IngestSubject(streams.EventSubject("t", "a")))
				b.message(streams.IngestSubject(streams.EventSubject("t", "a")))
				b.eventually("both were seen", func() bool { return b.marked(streams.Events) == 2 })
				b.alter(streams.Events, func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 1, jetstream.DiscardOld })
			}, nil},
		{"events within the stream that are gone", MessagesMissing, streams.Events,
			func(b *bench) {
				b.remake(streams.Events, func(c *jetstream.StreamConfig) { c.DenyDelete = false })
				for range 3 {
					b.message(streams.IngestSubject(streams.EventSubject("t", "a")))
				}
				must(b.t, b.stream(streams.Events).DeleteMsg(b.t.Context(), 2))
			}, func(b *bench) { b.remake(streams.Events, func(*jetstream.StreamConfig) {}); b.apply() }},
		{"a stream that was made anew", StreamRewound, streams.Events,
			func(b *bench) {
				b.message(streams.IngestSubject(streams.EventSubject("t", "a")))
				b.eventually("it was seen", func() bool { return b.marked(streams.Events) == 1 })
				b.remake(streams.Events, func(*jetstream.StreamConfig) {})
			}, nil},
		{"no escalator", EscalatorAbsent, "", func(*bench) {}, func(b *bench) { b.escalator() }},
		{"nobody to tell", NobodyToTell, "", func(*bench) {}, func(b *bench) { b.tellable(newReceiver(b.t)) }},
		{"a server that does not answer", NATSUnreachable, "", func(b *bench) { b.server.Freeze() },
			func(b *bench) { b.server.Thaw() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.check(t, quick) })
	}
}

func (tt disturbance) check(t *testing.T, quick func(*Options)) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t)
	if tt.code != NobodyToTell {
		b.tellable(r)
	}
	d := b.watchdog("first", quick)
	b.eventually("the watchdog sees and leads", func() bool { return d.Leading() && d.Ready(t.Context()) == nil })
	tt.disturb(b)
	b.eventually("the metric", func() bool { return d.metric(t, "waybill_watchdog_alarms", string(tt.code)) > 0 })
	if tt.code == NATSUnreachable {
		r.WaitFor(t, 1)
	} else {
		said := b.ledger.WaitFor(t, 1, func(r record.Record) bool {
			return r.Action == actionRaised && r.Reason == string(tt.code) && strings.HasPrefix(r.Detail, tt.subject)
		})[0]
		if said.Actor != Actor || said.Tenant != Tenant && said.Tenant != defaultTenant {
			t.Errorf("%+v", said)
		}
		if tt.code == StreamsDrifted { // each alarm goes the same way
			r.waitAbout(t, said.ID)
		}
	}
	ended := func(r record.Record) bool {
		return r.Action == actionCleared && r.Reason == string(tt.code) && strings.HasPrefix(r.Detail, tt.subject)
	}
	if tt.mend == nil { // it is a finding for a while, because it happened
		return
	}
	tt.mend(b)
	b.ledger.WaitFor(t, 1, ended)
	if tt.code == ConsumerStalled { // others wait for the stages that this test does not have
		return
	}
	b.eventually("the metric is zero", func() bool { return d.metric(t, "waybill_watchdog_alarms", string(tt.code)) == 0 })
}

func (b *bench) message(subject string) {
	b.t.Helper()
	_, err := b.js.Publish(b.t.Context(), subject, []byte("{}"))
	must(b.t, err)
}

func (b *bench) stream(name string) jetstream.Stream {
	b.t.Helper()
	s, err := b.js.Stream(b.t.Context(), name)
	must(b.t, err)
	return s
}

func (b *bench) apply() {
	b.t.Helper()
	_, err := streams.Apply(b.t.Context(), b.js, streams.Options{Partitions: 1})
	must(b.t, err)
}

func (b *bench) alter(name string, f func(*jetstream.StreamConfig)) {
	b.t.Helper()
	c := b.stream(name).CachedInfo().Config
	f(&c)
	_, err := b.js.UpdateStream(b.t.Context(), c)
	must(b.t, err)
}

func (b *bench) remake(name string, f func(*jetstream.StreamConfig)) {
	b.t.Helper()
	c := b.stream(name).CachedInfo().Config
	f(&c)
	must(b.t, b.js.DeleteStream(b.t.Context(), name))
	_, err := b.js.CreateStream(b.t.Context(), c)
	must(b.t, err)
}

// stored says for the sink that ClickHouse has everything, whatever comes.
func (b *bench) stored() {
	b.t.Helper()
	kv, err := b.js.KeyValue(b.t.Context(), streams.StatusBucket)
	must(b.t, err)
	body, err := json.Marshal(streams.SinkStatus{StreamSeq: 1 << 40,
		StreamEpoch: b.stream(streams.Ledger).CachedInfo().Created.UnixNano()})
	must(b.t, err)
	_, err = kv.Put(b.t.Context(), streams.StatusSink, body)
	must(b.t, err)
}

// marked is where the watchdog saw a stream end.
func (b *bench) marked(name string) uint64 {
	marks := map[string]history{}
	_, err := status(b.t.Context(), b.js, streams.StatusMarks, &marks)
	must(b.t, err)
	return marks[name].Last
}

func TestAnAlarmIsFewWords(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	found := []Finding{{Code: SinkBehind, Severity: Wrong}}
	type moment struct {
		after time.Duration
		found []Finding
		want  string
	}
	tests := map[string][]moment{
		"it is raised once it has lasted": {{0, found, ""}, {5 * time.Second, found, ""},
			{10 * time.Second, found, actionRaised}, {15 * time.Second, found, ""}},
		"what comes and goes is no news": {{0, found, ""}, {5 * time.Second, nil, ""}, {10 * time.Second, found, ""},
			{15 * time.Second, found, ""}, {20 * time.Second, found, actionRaised}},
		"it is repeated after ten minutes, then less often": {{0, found, ""}, {10 * time.Second, found, actionRaised},
			{10 * time.Minute, found, ""},
			{10*time.Minute + 10*time.Second, found, actionRepeated}, {29 * time.Minute, found, ""},
			{31 * time.Minute, found, actionRepeated}},
		"it is over once it was gone for a while": {{0, found, ""}, {10 * time.Second, found, actionRaised},
			{20 * time.Second, nil, ""}, {40 * time.Second, found, ""},
			{50 * time.Second, nil, ""}, {79 * time.Second, nil, ""}, {80 * time.Second, nil, actionCleared},
			{90 * time.Second, nil, ""}},
	}
	for name, moments := range tests {
		t.Run(name, func(t *testing.T) {
			s := newAlarms(DefaultHold())
			for _, m := range moments {
				got := ""
				for _, c := range s.update(m.found, at.Add(m.after)) {
					got += c.Action
				}
				if got != m.want {
					t.Errorf("after %s: %q, want %q", m.after, got, m.want)
				}
				again := newAlarms(DefaultHold()) // another watchdog goes on from what is stored
				again.load(s.list())
				s = again
			}
		})
	}
}

func TestAClockThatJumpsIsSeen(t *testing.T) {
	a := readClock()
	b := clock{a.wall.Add(7 * time.Second), a.mono.Add(5 * time.Second)}
	if got := a.jumped(b); got != 2*time.Second {
		t.Errorf("jumped %s", got)
	}
	asked := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	answered := asked.Add(100 * time.Millisecond)
	for server, want := range map[time.Duration]time.Duration{50 * time.Millisecond: 0, -5 * time.Second: 5 * time.Second,
		5 * time.Second: 100*time.Millisecond - 5*time.Second} {
		if got := offset(asked, answered, asked.Add(server)); got != want {
			t.Errorf("server at %s: %s, want %s", server, got, want)
		}
	}
	found := Judge(Snapshot{At: asked, Policies: 1, Jump: -3 * time.Second, Offset: 3 * time.Second}, DefaultLimits())
	if len(found) != 2 || found[0].Code != ClockJumped || found[1].Code != ClockOffset {
		t.Errorf("%+v", found)
	}
}

func TestAServerThatRestartsIsReadOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := b.watchdog("first")
	b.publish(owed(1, time.Now().UTC(), 0))
	b.eventually("the first is known", func() bool { return d.outstanding.Load().Open == 1 })
	b.server.Kill()
	b.server.Restart()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o := owed(2, time.Now().UTC(), 0)
	m, err := o.Message()
	must(t, err)
	b.eventually("the server takes a record", func() bool {
		_, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		return err == nil
	})
	b.eventually("both are known", func() bool { return d.outstanding.Load().Open == 2 })
}
