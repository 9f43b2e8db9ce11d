package outside

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// compareBatch is how many messages of LEDGER are compared at once.
	compareBatch = 10_000
	// nextMessage is what the server gets to send one that it has.
	nextMessage = 10 * time.Second
)

// Stored is what is asked of the ledger about messages of LEDGER.
type Stored interface {
	// AuditStored returns the records of a range of LEDGER's messages.
	AuditStored(ctx context.Context, epoch int64, from, to uint64) ([]audit.Stored, error)
	// AuditHolds says which of some ids are on record.
	AuditHolds(ctx context.Context, ids []string) (map[string]string, error)
}

// CompareLedger compares every record that LEDGER still holds with ClickHouse.
func CompareLedger(ctx context.Context, js jetstream.JetStream, db Stored,
	settled audit.Settled) (found []audit.Mismatch, sum audit.Compared, err error) {
	stream, err := js.Stream(ctx, streams.Ledger)
	if err != nil {
		return nil, sum, fmt.Errorf("stream %s: %w; make it with: waybill streams apply", streams.Ledger, err)
	}
	info := stream.CachedInfo()
	epoch := info.Created.UnixNano()
	// Up to the settled position: what lies behind it may be on its way.
	sum.FirstSeq, sum.LastSeq, sum.Waiting = info.State.FirstSeq, min(info.State.LastSeq, settled.Seq), settled.Lacking
	if info.State.Msgs == 0 || sum.LastSeq < sum.FirstSeq {
		return nil, sum, nil
	}
	c, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, sum, fmt.Errorf("reading %s: %w", streams.Ledger, err)
	}
	it, err := c.Messages()
	if err != nil {
		return nil, sum, fmt.Errorf("reading %s: %w", streams.Ledger, err)
	}
	defer it.Stop()
	for from := sum.FirstSeq; from <= sum.LastSeq; {
		batch, err := readStated(ctx, it, streams.ReadFrom(js, streams.Ledger), sum.LastSeq)
		if err != nil {
			return nil, sum, fmt.Errorf("reading %s: %w", streams.Ledger, err)
		}
		to := sum.LastSeq
		if n := len(batch); n > 0 {
			to = min(batch[n-1].Seq, to)
		}
		// What the sink removed since was not read, and is not missing.
		now, err := stream.Info(ctx)
		if err != nil {
			return nil, sum, fmt.Errorf("stream %s: %w", streams.Ledger, err)
		}
		from = max(from, min(now.State.FirstSeq, to+1))
		batch = slices.DeleteFunc(batch, func(m audit.Stated) bool { return m.Seq < from })
		wrong, err := compareBatchWith(ctx, db, batch, epoch, from, to, &sum)
		if err != nil {
			return nil, sum, err
		}
		found, from = append(found, wrong...), to+1
	}
	return found, sum, nil
}

func compareBatchWith(ctx context.Context, db Stored, batch []audit.Stated, epoch int64, from, to uint64,
	sum *audit.Compared) ([]audit.Mismatch, error) {
	rows, err := db.AuditStored(ctx, epoch, from, to)
	if err != nil {
		return nil, err
	}
	same, absent, found := audit.CompareChunk(batch, rows)
	sum.Records += same
	ids := make([]string, len(absent))
	for i, m := range absent {
		ids[i] = m.ID
	}
	held, err := db.AuditHolds(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, m := range absent {
		if _, ok := held[m.ID]; ok {
			sum.Restated++
			continue
		}
		found = append(found, audit.Mismatch{Tenant: m.Tenant, EventID: m.EventID, EndpointID: m.EndpointID,
			What:   audit.NotInClickHouse,
			Detail: fmt.Sprintf("message %d of LEDGER, %s %q", m.Seq, m.Kind, m.ID)})
	}
	return found, nil
}

// readStated reads on until a batch is full or last was read.
func readStated(ctx context.Context, it jetstream.MessagesContext, leader streams.Reader, last uint64) ([]audit.Stated,
	error) {
	var out []audit.Stated
	for len(out) < compareBatch {
		once, cancel := context.WithTimeout(ctx, nextMessage)
		m, err := it.Next(jetstream.NextContext(once))
		cancel()
		if err != nil {
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("the server sent nothing for %s", nextMessage)
			}
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		if meta.Sequence.Stream <= last {
			out = append(out, stated(meta.Sequence.Stream, m.Headers().Get(nats.MsgIdHdr), m.Data()))
		}
		if meta.Sequence.Stream >= last {
			return out, nil
		}
		if meta.NumPending > 0 {
			continue
		}
		// A replica that is behind has nothing more; only the leader knows the end.
		left, err := leader.Next(ctx, streams.LedgerSubjects, meta.Sequence.Stream+1)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && left.Sequence > last {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func stated(seq uint64, id string, body []byte) audit.Stated {
	m := audit.Stated{Seq: seq, ID: id, Digest: envelope.DigestHex(body), Kind: "what is no record"}
	if r, err := record.Decode(body); err == nil { // the sink keeps what it cannot read
		m.Tenant, m.EventID, m.EndpointID, m.Kind, m.ID = r.Tenant, r.EventID, r.EndpointID, string(r.Kind), r.ID
	}
	return m
}
