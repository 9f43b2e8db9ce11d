package sink

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// sayEvery is how fresh what others know of the sink's position is.
	sayEvery = time.Second
	// sayBound keeps a server that does not answer from holding up inserts.
	sayBound = 2 * time.Second
)

// positionReporter tells others how far ClickHouse has come: whoever watches the sink
// needs no ClickHouse for it. What it says is never relied on to write.
type positionReporter struct {
	sink *Sink
	kv   jetstream.KeyValue // nil until it is found
	said ledger.Position
}

// say stores the position unless it is stored. It fails silently but for the
// log: the next turn says it again.
func (p *positionReporter) say(ctx context.Context, at ledger.Position) {
	if at == p.said || at.Next == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sayBound)
	defer cancel()
	b, err := json.Marshal(streams.SinkStatus{StreamSeq: at.StreamSeq, StreamEpoch: at.StreamEpoch})
	if err == nil && p.kv == nil {
		p.kv, err = streams.Bucket(ctx, p.sink.js, streams.StatusBucket)
	}
	if err == nil {
		_, err = p.kv.Put(ctx, streams.StatusSink, b)
	}
	if err != nil {
		p.sink.o.Log.Debug().Err(err).Msg(logevent.LedgerSinkPositionNotSaid)
		return
	}
	p.said = at
}
