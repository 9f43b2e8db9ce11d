package watchdog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/streams"
)

// Sight is what was seen of a deployment at one moment.
type Snapshot struct {
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
	Debts       Outstanding
	Behind      time.Duration // how far the reader of LEDGER is behind
	Silent      []Silence     // what did not answer
	Unreadable  []string      // entries of the registry, as bucket/key
	Replicas    []Replica     // of everything, but for the leaders' own
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

// LookOptions say what to look at.
type LookOptions struct {
	Partitions int // of DELIVERIES and RETRY
	// Patience is for how long what nobody leads is asked again before it is said
	// to be silent. Optional: not at all, for whoever looks again soon.
	Patience time.Duration
}

// Look asks the server. What does not answer is part of what is seen; it fails
// when nothing answers.
func Look(ctx context.Context, js jetstream.JetStream, o LookOptions) (Snapshot, error) {
	s := Snapshot{At: time.Now().UTC()}
	defs, err := streams.Definitions(streams.Options{Partitions: o.Partitions})
	if err != nil {
		return s, err
	}
	all := lookDefinitions(ctx, js, o, defs, &s)
	// All are found before the first is asked about, which writes what it hears.
	infos := map[*Consumer]*jetstream.ConsumerInfo{}
	for i, d := range defs {
		if info := all.consumers[i]; info != nil {
			at := slices.IndexFunc(s.Consumers, func(c Consumer) bool {
				return c.Stream == d.Stream &&
					c.Consumer == d.Consumer
			})
			infos[&s.Consumers[at]] = info
		}
	}
	more := newAsker(askBound, o.Patience)
	for c, info := range infos {
		more.about(ctx, c.Name(), c.Stream, func(ctx context.Context) error { return c.look(ctx, js, info) })
	}
	if ledger := all.ledger; ledger != nil {
		more.about(ctx, sinkPosition, "", func(ctx context.Context) (err error) {
			s.Sink,
				err = lookSink(ctx, js, ledger)
			return err
		})
	}
	more.about(ctx, escalatorLease, "", func(ctx context.Context) (err error) {
		s.NoEscalator, err = absent(ctx, js, streams.EscalatorLease)
		return err
	})
	silent, err := more.wait()
	if err != nil && all.err != nil {
		return s, all.err
	}
	s.Silent = append(s.Silent, silent...)
	return s, nil
}

// What is asked for besides streams and consumers.
const (
	sinkPosition   = "the ledger-sink's position"
	escalatorLease = "the escalator's lease"
	watchdogLease  = "the watchdog's lease"
	watchdogMarks  = "the watchdog's marks"
	policiesRead   = "the channels and policies"
)

// infos are what the server said of each definition; nil: nothing.
type infos struct {
	consumers []*jetstream.ConsumerInfo // by the definition's index
	ledger    *jetstream.StreamInfo
	err       error // when nothing answered
}

// lookDefinitions asks for every stream and consumer that there must be, once
// for all that is read from the answer.
func lookDefinitions(ctx context.Context, js jetstream.JetStream, o LookOptions, defs []streams.Definition,
	s *Snapshot) infos {
	out := infos{consumers: make([]*jetstream.ConsumerInfo, len(defs))}
	held, drift, replicas := make([]*Stream, len(defs)), make([]bool, len(defs)), make([][]Replica, len(defs))
	ask := newAsker(askBound, o.Patience)
	for i, d := range defs {
		if d.Consumer != "" {
			ask.about(ctx, d.Stream+"/"+d.Consumer, d.Stream, func(ctx context.Context) error {
				c, err := js.Consumer(ctx, d.Stream, d.Consumer)
				if drift[i] = missing(err); drift[i] {
					return nil
				} else if err != nil {
					return err
				}
				info := c.CachedInfo()
				if err := streams.Quorum(info.Cluster); err != nil {
					return err
				}
				drift[i] = len(d.Differences(info.Config)) > 0
				out.consumers[i], replicas[i] = info, replicasOf(d.Stream+"/"+d.Consumer, info.Cluster)
				return nil
			})
			continue
		}
		ask.about(ctx, d.Stream, d.Stream, func(ctx context.Context) error {
			asked := time.Now()
			st, err := js.Stream(ctx, d.Stream)
			if drift[i] = missing(err); drift[i] {
				held[i] = &Stream{Name: d.Stream, Missing: true}
				return nil
			} else if err != nil {
				return err
			}
			info := st.CachedInfo()
			if err := streams.Quorum(info.Cluster); err != nil {
				return err
			}
			drift[i], replicas[i], held[i] = len(d.Differences(info.Config)) > 0, replicasOf(d.Stream, info.Cluster),
				streamOf(info)
			if d.Stream == streams.Ledger {
				answered := time.Now()
				out.ledger, s.At, s.Offset = info, answered.UTC(), offset(asked, answered, info.TimeStamp)
			}
			return nil
		})
	}
	s.Silent, out.err = ask.wait()
	for i, d := range defs {
		if drift[i] {
			s.Drift = append(s.Drift, d.Name())
		}
		s.Replicas = append(s.Replicas, replicas[i]...)
		switch {
		case d.Consumer != "" && (drift[i] || out.consumers[i] != nil):
			s.Consumers = append(s.Consumers, Consumer{Stream: d.Stream, Consumer: d.Consumer, Missing: out.consumers[i] == nil})
		case held[i] != nil && slices.Contains(watched(), d.Stream):
			s.Streams = append(s.Streams, *held[i])
		case held[i] != nil && d.Stream == streams.Claims:
			s.Claims = *held[i]
		}
	}
	return out
}

func missing(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound)
}

func replicasOf(what string, c *jetstream.ClusterInfo) (out []Replica) {
	if c == nil {
		return nil
	}
	for _, p := range c.Replicas {
		r := Replica{Of: what, Server: p.Name, Level: p.Current, Lag: p.Lag}
		switch {
		case p.Offline:
			r.Gone = "it is offline, or its JetStream is"
		case streams.Gone(p):
			r.Gone = fmt.Sprintf("nothing was heard of it for %s", p.Active.Round(time.Second))
		}
		out = append(out, r)
	}
	return out
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

func streamOf(i *jetstream.StreamInfo) *Stream {
	return &Stream{Name: i.Config.Name, Messages: i.State.Msgs, First: i.State.FirstSeq, Last: i.State.LastSeq,
		FirstAt: i.State.FirstTime, LastAt: i.State.LastTime,
		Deleted: i.State.NumDeleted, Bytes: i.State.Bytes, MaxBytes: i.Config.MaxBytes, MaxAge: i.Config.MaxAge,
		Created: i.Created}
}

const (
	// idleLooks are made at a consumer before it counts as one that nobody serves:
	// between two requests for work, whoever serves it asks for none.
	idleLooks = 10
	idlePause = 200 * time.Millisecond
)

// lookAgain looks once more at the consumers that nobody seemed to serve. One
// that does not answer now is left as it was seen.
func lookAgain(ctx context.Context, js jetstream.JetStream, seen []Consumer) {
	for range idleLooks {
		if !slices.ContainsFunc(seen, Consumer.idle) {
			return
		}
		stage.Pause(ctx, idlePause)
		ask := newAsker(askBound, 0)
		for i := range seen {
			c := &seen[i]
			if !c.idle() {
				continue
			}
			ask.about(ctx, c.Name(), c.Stream, func(ctx context.Context) error {
				again, err := js.Consumer(ctx, c.Stream, c.Consumer)
				if err != nil {
					return err
				}
				return c.look(ctx, js, again.CachedInfo())
			})
		}
		_, _ = ask.wait()
	}
}

// look completes what the server said of a consumer.
func (c *Consumer) look(ctx context.Context, js jetstream.JetStream, i *jetstream.ConsumerInfo) (err error) {
	c.Pending, c.Asking, c.Redelivered, c.Unsettled = i.NumPending, i.NumWaiting, i.NumRedelivered, i.NumAckPending
	c.LastTaken, c.LastSettled = last(i.Delivered), last(i.AckFloor)
	if i.NumPending > 0 {
		if c.OldestPending, err = storedAt(ctx, js, c.Stream, i.Delivered.Stream+1, i.Config.FilterSubject); err != nil {
			return err
		}
	}
	if i.NumRedelivered > 0 {
		c.OldestUnsettled, err = storedAt(ctx, js, c.Stream, i.AckFloor.Stream+1, i.Config.FilterSubject)
	}
	return err
}

func last(s jetstream.SequenceInfo) time.Time {
	if s.Last == nil {
		return time.Time{}
	}
	return *s.Last
}

// storedAt is when the first message from a sequence on was stored; zero when
// there is none.
func storedAt(ctx context.Context, js jetstream.JetStream, stream string, seq uint64, filter string) (time.Time,
	error) {
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
func lookSink(ctx context.Context, js jetstream.JetStream, info *jetstream.StreamInfo) (Sink, error) {
	var said streams.SinkStatus
	known, err := status(ctx, js, streams.StatusSink, &said)
	if err != nil {
		return Sink{}, err
	}
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
