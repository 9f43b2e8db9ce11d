package process

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/streams"
)

const (
	// lookBound keeps a scrape from hanging on a server that does not answer.
	lookBound = 3 * time.Second
	// looksAtOnce bounds what one scrape asks of the server at a time.
	looksAtOnce = 8
)

// queues looks at the streams and their consumers when it is scraped. Every
// process does, so that whichever lives tells; what it shows is the server's and
// the same from each.
type queues struct {
	js      jetstream.JetStream
	defined []streams.Definition

	up, led, gone, messages, bytes, limit, deleted, pending, taken, pulls, oldest *prometheus.Desc
}

// QueueMetrics makes the size of the streams known and what waits in their consumers.
func QueueMetrics(r prometheus.Registerer, js jetstream.JetStream, partitions int) error {
	defined, err := streams.Definitions(streams.Options{Partitions: partitions})
	if err != nil {
		return err
	}
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return r.Register(&queues{js: js, defined: defined,
		up: of("waybill_jetstream_up", "1 when JetStream answered for every stream and consumer at this scrape."),
		led: of("waybill_streams_without_leader", "Streams that nobody leads: nothing is stored in them or taken "+
			"from them. waybill doctor names them."),
		gone: of("waybill_stream_replicas_gone", "The most replicas of a stream that are offline or were not heard of "+
			"for 15 s: they could not take over."),
		messages: of("waybill_stream_messages", "Messages in a stream.", "stream"),
		bytes:    of("waybill_stream_size_bytes", "Size of a stream.", "stream"),
		limit: of("waybill_stream_limit_bytes", "Size at which a stream is full; absent where only the disk sets one.",
			"stream"),
		deleted: of("waybill_stream_deleted_messages",
			"Messages missing within a stream. On EVENTS and LEDGER more than 0 means damage.", "stream"),
		pending: of("waybill_queue_pending_messages", "Messages that nobody has taken yet.", "stream", "consumer"),
		taken: of("waybill_queue_taken_messages", "Messages that are being handled, or wait for the time they are due.",
			"stream", "consumer"),
		pulls: of("waybill_queue_pulls", "Requests for more messages that wait at the server; 0 for long means that "+
			"nobody works on them.", "stream", "consumer"),
		oldest: of("waybill_queue_oldest_seconds", "Age of the oldest message that is not settled; 0 when none is.",
			"stream", "consumer"),
	})
}

// Describe implements prometheus.Collector.
func (q *queues) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{q.up, q.led, q.gone, q.messages, q.bytes, q.limit, q.deleted, q.pending, q.taken,
		q.pulls, q.oldest} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (q *queues) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), lookBound)
	defer cancel()
	g := new(errgroup.Group) // what does not answer takes nothing from the others
	g.SetLimit(looksAtOnce)
	var h health
	for _, d := range q.defined {
		g.Go(func() error {
			if d.Consumer == "" {
				return q.stream(ctx, d.Stream, &h, out)
			}
			return q.consumer(ctx, d.Stream, d.Consumer, out)
		})
	}
	out <- prometheus.MustNewConstMetric(q.up, prometheus.GaugeValue, number(g.Wait() == nil))
	out <- gauge(q.led, float64(h.unled))
	out <- gauge(q.gone, float64(h.gone))
}

// health of all streams together: one line for each of them would be many.
type health struct {
	mu          sync.Mutex // guards what follows
	unled, gone int
}

func (h *health) see(err error, c *jetstream.ClusterInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.unled++
	}
	h.gone = max(h.gone, gone(c))
}

func (q *queues) stream(ctx context.Context, name string, h *health, out chan<- prometheus.Metric) error {
	s, err := q.js.Stream(ctx, name)
	if err != nil {
		if electing(err) {
			h.see(err, nil)
		}
		return err
	}
	info := s.CachedInfo()
	h.see(streams.Quorum(info.Cluster), info.Cluster)
	out <- gauge(q.messages, float64(info.State.Msgs), name)
	out <- gauge(q.bytes, float64(info.State.Bytes), name)
	out <- gauge(q.deleted, float64(info.State.NumDeleted), name)
	if info.Config.MaxBytes > 0 {
		out <- gauge(q.limit, float64(info.Config.MaxBytes), name)
	}
	return nil
}

func (q *queues) consumer(ctx context.Context, stream, name string, out chan<- prometheus.Metric) error {
	c, err := q.js.Consumer(ctx, stream, name)
	if err != nil {
		return err
	}
	info := c.CachedInfo()
	out <- gauge(q.pending, float64(info.NumPending), stream, name)
	out <- gauge(q.taken, float64(info.NumAckPending), stream, name)
	out <- gauge(q.pulls, float64(info.NumWaiting), stream, name)
	// In RETRY messages wait because they are not due: their age says nothing.
	// A bucket's consumer has no filter, and its stream no queue.
	if filter := info.Config.FilterSubject; stream != streams.Retry && filter != "" {
		age, err := q.age(ctx, info, stream, filter)
		if err != nil {
			return err
		}
		out <- gauge(q.oldest, age.Seconds(), stream, name)
	}
	return nil
}

// gone counts the replicas that could not take over.
func gone(c *jetstream.ClusterInfo) (n int) {
	if c == nil {
		return 0
	}
	for _, r := range c.Replicas {
		if streams.Gone(r) {
			n++
		}
	}
	return n
}

// age of the first message behind what is settled without a gap.
func (q *queues) age(ctx context.Context, info *jetstream.ConsumerInfo, stream, filter string) (time.Duration, error) {
	if info.NumPending == 0 && info.NumAckPending == 0 {
		return 0, nil
	}
	m, err := streams.ReadFrom(q.js, stream).Next(ctx, filter, info.AckFloor.Stream+1)
	if errors.Is(err, jetstream.ErrMsgNotFound) { // settled meanwhile
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return max(0, info.TimeStamp.Sub(m.Time)), nil
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
