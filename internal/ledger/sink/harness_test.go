package sink_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// patience bounds every wait: a test that needs it has failed.
const patience = 90 * time.Second

// harness is a LEDGER, a ClickHouse database and what was published so far.
type harness struct {
	t    testing.TB
	nats *testkit.Server
	js   jetstream.JetStream
	dsn  string
	conn driver.Conn
	log  *syncBuffer
	// sent are the facts in the order in which LEDGER took them.
	sent []fact
	rnd  *rand.Rand
	key  string // see keyFile
}

type fact struct {
	id   string
	body string
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	return newHarnessOn(t, testkit.ClickHouse(t).DSN)
}

func newHarnessOn(t testing.TB, dsn string) *harness {
	t.Helper()
	n := testkit.NATS(t)
	o, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := clickhouse.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	h := &harness{t: t, nats: n, js: n.JetStream(), dsn: dsn, conn: conn, log: &syncBuffer{},
		rnd: rand.New(rand.NewPCG(1, 2))}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", h.log)
		}
	})
	return h
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// attempt is a record like the many that a ledger holds.
func (h *harness) attempt(at time.Time) record.Record {
	return record.Record{
		ID: ids.New(ids.Attempt, at), Kind: record.Attempt, At: at, Tenant: "default",
		EventID: ids.New(ids.Event, at), EndpointID: fmt.Sprintf("ep_%026d", h.rnd.IntN(100)), EventType: "order.paid",
		Attempt:   1,
		StartedAt: at.Add(-90 * time.Millisecond), DurationUS: int64(h.rnd.IntN(90_000)), ConnectUS: 812, FirstByteUS: 71_000,
		Status: 200, Outcome: "delivered", Class: "delivered", Decision: "delivered", URL: "https://hooks.example.com/in",
		RemoteAddr: "203.0.113.7:443", HTTPVersion: "HTTP/2.0", TLSVersion: "1.3",
		PayloadDigest:   fmt.Sprintf("%016x%016x%016x%016x", h.rnd.Uint64(), h.rnd.Uint64(), h.rnd.Uint64(), h.rnd.Uint64()),
		PeerFingerprint: strings.Repeat("4f", 32), PayloadBytes: 1024, SignatureScheme: "v1", KeyIDs: []string{"key_1"},
		SignedAt: at.Truncate(time.Second), ResponseHeaders: map[string]string{"content-type": "application/json"},
		ResponseExcerpt: `{"ok":true}`, ResponseBytes: 11, Dispatcher: "host-1/4711", Software: "0.1.0",
	}
}

// publish sends n attempts to LEDGER and keeps them.
func (h *harness) publish(n int) {
	h.t.Helper()
	var records []record.Record
	for range n {
		records = append(records, h.attempt(time.Now().UTC()))
	}
	h.publishRecords(records...)
}

func (h *harness) publishRecords(records ...record.Record) {
	h.t.Helper()
	var msgs []*nats.Msg
	for _, r := range records {
		body, err := r.Encode()
		if err != nil {
			h.t.Fatal(err)
		}
		m := nats.NewMsg(streams.LedgerSubject(string(r.Kind), r.Tenant))
		m.Header.Set(nats.MsgIdHdr, r.ID)
		m.Data = body
		msgs = append(msgs, m)
		h.sent = append(h.sent, fact{r.ID, string(body)})
	}
	h.send(msgs...)
}

func (h *harness) send(msgs ...*nats.Msg) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var futures []jetstream.PubAckFuture
	for _, m := range msgs {
		f, err := h.js.PublishMsgAsync(m, jetstream.WithStallWait(patience))
		if err != nil {
			h.t.Fatal(err)
		}
		futures = append(futures, f)
	}
	for _, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			h.t.Fatal(err)
		case <-ctx.Done():
			h.t.Fatal(ctx.Err())
		}
	}
}

func (h *harness) db() *ledger.DB {
	h.t.Helper()
	db, err := ledger.New(h.dsn)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = db.Close() })
	return db
}

// running is a sink in this process.
type running struct {
	h      *harness
	sink   *sink.Sink
	ledger *faulty
	stop   context.CancelFunc
	done   chan error
}

// start runs a sink over a ledger that faults are put into.
func (h *harness) start(f *faulty, change func(*sink.Options)) *running {
	h.t.Helper()
	o := sink.Options{NATS: h.nats.Connect(), Ledger: f, BatchAge: 20 * time.Millisecond,
		Log: zerolog.New(h.log).Level(zerolog.InfoLevel)}
	if change != nil {
		change(&o)
	}
	s, err := sink.New(o)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{h: h, sink: s, ledger: f, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- s.Run(ctx) }()
	h.t.Cleanup(r.end)
	return r
}

// end stops the sink and waits for it.
func (r *running) end() {
	r.stop()
	if err, ok := <-r.done; ok {
		close(r.done)
		if err != nil {
			r.h.t.Errorf("the sink ended: %v", err)
		}
	}
}

// waitStored waits until the sink has seen n records in ClickHouse.
func (r *running) waitStored(n int) {
	r.h.t.Helper()
	select {
	case <-r.ledger.reached(uint64(n)):
	case err := <-r.done:
		r.h.t.Fatalf("the sink ended early: %v", err)
	case <-time.After(patience):
		r.h.t.Fatalf("%d records are not stored; %+v", n, r.sink.Status())
	}
}

// check compares ClickHouse with want, record for record, in order.
func (h *harness) check(want []fact) {
	h.t.Helper()
	rows, err := h.conn.Query(context.Background(), "SELECT idx, id, body FROM records ORDER BY idx, id")
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	i, seen := 0, map[string]uint64{}
	for ; rows.Next(); i++ {
		var idx uint64
		var id, body string
		if err := rows.Scan(&idx, &id, &body); err != nil {
			h.t.Fatal(err)
		}
		if idx != uint64(i) {
			h.t.Fatalf("row %d has index %d", i, idx)
		}
		if before, ok := seen[id]; ok {
			h.t.Fatalf("id %s is at %d and at %d", id, before, i)
		}
		seen[id] = idx
		if i < len(want) && (id != want[i].id || body != want[i].body) {
			h.t.Fatalf("row %d is %s, want %s", i, id, want[i].id)
		}
	}
	if err := rows.Err(); err != nil {
		h.t.Fatal(err)
	}
	if i != len(want) {
		h.t.Fatalf("ClickHouse has %d records, want %d", i, len(want))
	}
}
