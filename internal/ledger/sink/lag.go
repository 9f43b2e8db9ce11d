package sink

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/streams"
)

// lagBound keeps a scrape from hanging on a server that does not answer.
const lagBound = 2 * time.Second

// lag looks, when it is scraped, how far ClickHouse is behind LEDGER: also, and
// above all, while ClickHouse is away and this sink inserts nothing.
type lag struct {
	sink             *Sink
	records, seconds *prometheus.Desc
}

func newLag(s *Sink) *lag {
	return &lag{s,
		prometheus.NewDesc("waybill_ledger_sink_lag_records",
			"Records in LEDGER that are not in ClickHouse. Absent where this sink has never written.", nil, nil),
		prometheus.NewDesc("waybill_ledger_sink_lag_seconds", "Age of the oldest record in LEDGER that is not in "+
			"ClickHouse; 0 when all are. Absent where this sink has never written.", nil, nil)}
}

// Describe implements prometheus.Collector.
func (l *lag) Describe(out chan<- *prometheus.Desc) { out <- l.records; out <- l.seconds }

// Collect implements prometheus.Collector. One that stands by knows nothing of
// what the other has written, and says nothing.
func (l *lag) Collect(out chan<- prometheus.Metric) {
	st := l.sink.Status()
	if !st.Writing && (st.StreamSeq == 0 || st.Waiting == waitingForLease) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lagBound)
	defer cancel()
	records, age, err := l.behind(ctx, st.StreamSeq)
	if err != nil {
		return
	}
	out <- prometheus.MustNewConstMetric(l.records, prometheus.GaugeValue, float64(records))
	out <- prometheus.MustNewConstMetric(l.seconds, prometheus.GaugeValue, age.Seconds())
}

func (l *lag) behind(ctx context.Context, stored uint64) (uint64, time.Duration, error) {
	stream, err := l.sink.js.Stream(ctx, streams.Ledger)
	if err != nil {
		return 0, 0, err
	}
	info := stream.CachedInfo()
	if stored > info.State.LastSeq { // the stream was made anew
		stored = 0
	}
	next := max(stored+1, info.State.FirstSeq)
	if next > info.State.LastSeq {
		return 0, 0, nil
	}
	m, err := streams.ReadFrom(l.sink.js, streams.Ledger).Next(ctx, streams.LedgerSubjects, next) // or the next there is
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	return info.State.LastSeq - next + 1, max(0, info.TimeStamp.Sub(m.Time)), nil
}
