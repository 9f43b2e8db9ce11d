package watchdog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/channel"
	"github.com/waybill-dev/waybill/internal/escalation"
	"github.com/waybill-dev/waybill/internal/stage"
	"github.com/waybill-dev/waybill/streams"
)

// Sight is what was seen of a deployment at one moment.
type Sight struct {
	At          time.Time
	Host        string // whose clock At is
	Streams     []Stream
	Claims      Stream
	Consumers   []Consumer
	Sink        Sink
	Drift       []string // one line for each definition that differs
	Policies    int      // escalation policies that can reach a person
	NoEscalator bool
	Endpoints   int           // of the registry
	Offset      time.Duration // our clock less the server's
	Jump        time.Duration // of our clock, since the last look
	Debts       Debts
	Behind      time.Duration // how far the reader of LEDGER is behind
}

// Stream as it was seen.
type Stream struct {
	Name                  string
	Missing               bool
	Messages, First, Last uint64
	FirstAt, LastAt       time.Time
	Deleted               int
	Bytes                 uint64
	MaxBytes              int64
	MaxAge                time.Duration
	Created               time.Time
	Removed               uint64 // messages before their time, see Marks
	Rewound               bool
}

// Consumer as it was seen.
type Consumer struct {
	Stream, Consumer string
	Missing          bool
	Pending          uint64
	Asking           int // requests for work that wait
	Redelivered      int
	Unsettled        int
	OldestPending    time.Time // when the next message to be taken was stored; zero: none
	OldestUnsettled  time.Time
	LastTaken        time.Time
	LastSettled      time.Time
}

// Name of the consumer, with its stream.
func (c Consumer) Name() string { return c.Stream + "/" + c.Consumer }

// idle says that nobody asks for work, and nobody has any in hand.
func (c Consumer) idle() bool { return !c.Missing && c.Asking == 0 && c.Unsettled == 0 }

// Sink is how far ClickHouse has come.
type Sink struct {
	Known   bool // the sink has said so
	Stored  uint64
	Lacking uint64
	Oldest  time.Time // of the records that it lacks; zero: none
}

// watched are the streams whose messages must not vanish.
func watched() []string { return []string{streams.Events, streams.Ledger} }

// Look asks the server. partitions are those of DELIVERIES.
func Look(ctx context.Context, js jetstream.JetStream, partitions int) (Sight, error) {
	s := Sight{}
	asked := time.Now()
	info, err := js.Stream(ctx, streams.Ledger)
	if err != nil {
		return s, fmt.Errorf("stream %s: %w", streams.Ledger, err)
	}
	answered := time.Now()
	s.At = answered.UTC()
	s.Offset = offset(asked, answered, info.CachedInfo().TimeStamp)
	for _, name := range watched() {
		st, err := lookStream(ctx, js, name)
		if err != nil {
			return s, err
		}
		s.Streams = append(s.Streams, st)
	}
	if s.Claims, err = lookClaims(ctx, js); err != nil {
		return s, err
	}
	changes, err := streams.Drift(ctx, js, streams.Options{Partitions: partitions})
	if err != nil {
		return s, err
	}
	for _, c := range changes {
		if c.Action != "unchanged" {
			s.Drift = append(s.Drift, c.Name)
		}
	}
	if s.Consumers, err = lookConsumers(ctx, js, partitions); err != nil {
		return s, err
	}
	if s.Sink, err = lookSink(ctx, js, info); err != nil {
		return s, err
	}
	s.NoEscalator, err = absent(ctx, js, streams.EscalatorLease)
	return s, err
}

// offset of our clock: the server read its own at some moment between asked and
// answered, so what lies in between counts as none.
func offset(asked, answered, server time.Time) time.Duration {
	if server.IsZero() {
		return 0
	}
	// Without the monotonic clock: differences of wall clocks are the point.
	asked, answered = asked.Round(0), answered.Round(0)
	switch {
	case server.Before(asked):
		return asked.Sub(server)
	case server.After(answered):
		return answered.Sub(server)
	}
	return 0
}

func lookStream(ctx context.Context, js jetstream.JetStream, name string) (Stream, error) {
	s, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return Stream{Name: name, Missing: true}, nil
	}
	if err != nil {
		return Stream{}, fmt.Errorf("stream %s: %w", name, err)
	}
	i := s.CachedInfo()
	return Stream{Name: name, Messages: i.State.Msgs, First: i.State.FirstSeq, Last: i.State.LastSeq, FirstAt: i.State.FirstTime, LastAt: i.State.LastTime,
		Deleted: i.State.NumDeleted, Bytes: i.State.Bytes, MaxBytes: i.Config.MaxBytes, MaxAge: i.Config.MaxAge, Created: i.Created}, nil
}

// lookConsumers looks at every consumer that somebody of ours has to serve.
func lookConsumers(ctx context.Context, js jetstream.JetStream, partitions int) ([]Consumer, error) {
	defs, err := streams.Definitions(streams.Options{Partitions: partitions})
	if err != nil {
		return nil, err
	}
	var out []Consumer
	for _, d := range defs {
		if d.Consumer == "" {
			continue
		}
		c, err := lookConsumer(ctx, js, d.Stream, d.Consumer)
		if err != nil {
			return nil, fmt.Errorf("consumer %s/%s: %w", d.Stream, d.Consumer, err)
		}
		out = append(out, c)
	}
	return out, nil
}

const (
	// idleLooks are made at a consumer before it counts as one that nobody serves:
	// between two requests for work, whoever serves it asks for none.
	idleLooks = 10
	idlePause = 200 * time.Millisecond
)

// lookAgain looks once more at the consumers that nobody seemed to serve.
func lookAgain(ctx context.Context, js jetstream.JetStream, seen []Consumer) error {
	for range idleLooks {
		if !slices.ContainsFunc(seen, Consumer.idle) {
			return nil
		}
		stage.Pause(ctx, idlePause)
		for i, c := range seen {
			if !c.idle() {
				continue
			}
			again, err := lookConsumer(ctx, js, c.Stream, c.Consumer)
			if err != nil {
				return fmt.Errorf("consumer %s: %w", c.Name(), err)
			}
			seen[i] = again
		}
	}
	return nil
}

func lookConsumer(ctx context.Context, js jetstream.JetStream, stream, name string) (Consumer, error) {
	out := Consumer{Stream: stream, Consumer: name}
	c, err := js.Consumer(ctx, stream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		out.Missing = true
		return out, nil
	}
	if err != nil {
		return out, err
	}
	i := c.CachedInfo()
	out.Pending, out.Asking, out.Redelivered, out.Unsettled = i.NumPending, i.NumWaiting, i.NumRedelivered, i.NumAckPending
	out.LastTaken, out.LastSettled = last(i.Delivered), last(i.AckFloor)
	if i.NumPending > 0 {
		if out.OldestPending, err = storedAt(ctx, js, stream, i.Delivered.Stream+1, i.Config.FilterSubject); err != nil {
			return out, err
		}
	}
	if i.NumRedelivered > 0 {
		out.OldestUnsettled, err = storedAt(ctx, js, stream, i.AckFloor.Stream+1, i.Config.FilterSubject)
	}
	return out, err
}

func last(s jetstream.SequenceInfo) time.Time {
	if s.Last == nil {
		return time.Time{}
	}
	return *s.Last
}

// storedAt is when the first message from a sequence on was stored; zero when
// there is none.
func storedAt(ctx context.Context, js jetstream.JetStream, stream string, seq uint64, filter string) (time.Time, error) {
	if filter == "" {
		filter = ">"
	}
	m, err := streams.ReadFrom(js, stream).Next(ctx, filter, seq) // or the next there is
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return m.Time, nil
}

// lookSink compares what the sink has said with what LEDGER holds.
func lookSink(ctx context.Context, js jetstream.JetStream, ledger jetstream.Stream) (Sink, error) {
	var said streams.SinkStatus
	known, err := status(ctx, js, streams.StatusSink, &said)
	if err != nil {
		return Sink{}, err
	}
	info := ledger.CachedInfo()
	out := Sink{Known: known && said.StreamEpoch == info.Created.UnixNano()}
	if out.Known {
		out.Stored = min(said.StreamSeq, info.State.LastSeq)
	}
	next := max(out.Stored+1, info.State.FirstSeq)
	if info.State.Msgs == 0 || next > info.State.LastSeq {
		return out, nil
	}
	out.Lacking = info.State.LastSeq - next + 1
	out.Oldest, err = storedAt(ctx, js, streams.Ledger, next, streams.LedgerSubjects)
	return out, err
}

// status reads a key of the bucket of statuses, and says whether it is there.
func status(ctx context.Context, js jetstream.JetStream, name string, into any) (bool, error) {
	kv, err := js.KeyValue(ctx, streams.StatusBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return false, nil // the drift says so
	}
	if err != nil {
		return false, fmt.Errorf("bucket %s: %w", streams.StatusBucket, err)
	}
	e, err := kv.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("bucket %s, key %s: %w", streams.StatusBucket, name, err)
	}
	return json.Unmarshal(e.Value(), into) == nil, nil // what cannot be read is said anew
}

// absent says that nobody holds a lease.
func absent(ctx context.Context, js jetstream.JetStream, lease string) (bool, error) {
	kv, err := js.KeyValue(ctx, streams.LeasesBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("bucket %s: %w", streams.LeasesBucket, err)
	}
	_, err = kv.Get(ctx, lease)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return true, nil
	}
	return false, err
}

// reachable counts the policies that name a channel which exists.
func reachable(policies []escalation.Policy, has func(string) bool) int {
	n := 0
	for _, p := range policies {
		for _, c := range p.ChannelNames() {
			if has(c) {
				n++
				break
			}
		}
	}
	return n
}

func channelExists(all []channel.Channel) func(string) bool {
	names := map[string]bool{}
	for _, c := range all {
		names[c.Name] = true
	}
	return func(name string) bool { return names[name] }
}
