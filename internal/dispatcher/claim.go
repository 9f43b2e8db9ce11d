package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/record"
	"github.com/waybill-dev/waybill/internal/stage"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// leaseGrace is added to an attempt's timeout: until then, whoever finds
	// its claim takes it for still running. It covers the hand-off after it.
	leaseGrace = 5 * time.Second
	// dedupeMargin keeps us clear of the edge of a stream's dedupe window.
	dedupeMargin = 15 * time.Second
	// findBound keeps a search in a stream from holding a message for ever.
	findBound = 30 * time.Second
)

// claim says that an attempt is about to start. It is stored before the
// request, under <event>/<endpoint>/<number> as its message id, so that of two
// dispatchers, or of a dispatcher and its successor after a crash, exactly one
// makes attempt number n: the other one's claim is answered as a duplicate.
type claim struct {
	AttemptID  string    `json:"attempt_id"`
	Dispatcher string    `json:"dispatcher"`
	Boot       string    `json:"boot"` // one run of one dispatcher process
	StartedAt  time.Time `json:"started_at"`
	LeaseUntil time.Time `json:"lease_until"`
	Replay     string    `json:"replay,omitempty"`
	Revision   uint64    `json:"endpoint_revision"`
	URL        string    `json:"url"`
}

// claims is the journal of attempts that were started.
type claims struct {
	js     jetstream.JetStream
	pub    *stage.Publisher
	window time.Duration // dedupe window of CLAIMS and LEDGER, the shorter one
}

func openClaims(ctx context.Context, js jetstream.JetStream, pub *stage.Publisher) (*claims, error) {
	c := &claims{js: js, pub: pub}
	for _, name := range []string{streams.Claims, streams.Ledger} {
		s, err := js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w; mend it with: waybill streams apply", name, err)
		}
		if w := s.CachedInfo().Config.Duplicates; c.window == 0 || w < c.window {
			c.window = w
		}
	}
	return c, nil
}

// take claims attempt number n. It returns the claim that was there before, if
// there was one; nil means that the attempt is ours to make. earliest is when
// attempt n can first have been claimed; suspect says that somebody may have.
func (c *claims) take(ctx context.Context, event, endpoint string, n int, mine claim, suspect bool, earliest time.Time) (*claim, error) {
	id := streams.AttemptID(event, endpoint, n)
	subject := streams.ClaimSubject(endpoint)
	if suspect && time.Since(earliest) > c.window-dedupeMargin {
		// The stream may have forgotten the id: look for the claim itself.
		data, err := c.find(ctx, streams.Claims, subject, id, earliest)
		if err != nil || data != nil {
			return decodeClaim(data, err)
		}
	}
	data, err := json.Marshal(mine)
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", id, err)
	}
	ack, err := c.pub.Publish(ctx, &nats.Msg{Subject: subject, Header: nats.Header{nats.MsgIdHdr: {id}}, Data: data})
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", id, err)
	}
	if !ack.Duplicate {
		return nil, nil
	}
	prior, err := decodeClaim(c.get(ctx, streams.Claims, ack.Sequence))
	if err == nil && prior.AttemptID == mine.AttemptID {
		return nil, nil // an earlier try of this very publish had been stored
	}
	return prior, err
}

func decodeClaim(data []byte, err error) (*claim, error) {
	if err != nil {
		return nil, err
	}
	var found claim
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return &found, nil
}

// settleUnknown makes sure that the attempt of a claim whose process is gone is
// on record, and returns its record: the one that the process left, or a new
// one with the outcome unknown.
func (c *claims) settleUnknown(ctx context.Context, unknown record.Record, startedAt time.Time) (record.Record, error) {
	subject := streams.LedgerSubject(string(record.Attempt), unknown.Tenant)
	if time.Since(startedAt) > c.window-dedupeMargin {
		data, err := c.find(ctx, streams.Ledger, subject, unknown.ID, startedAt)
		if err != nil {
			return record.Record{}, err
		}
		if data != nil {
			return record.Decode(data)
		}
	}
	m, err := unknown.Message()
	if err != nil {
		return record.Record{}, err
	}
	ack, err := c.pub.Publish(ctx, m)
	if err != nil {
		return record.Record{}, err
	}
	if !ack.Duplicate {
		return unknown, nil
	}
	data, err := c.get(ctx, streams.Ledger, ack.Sequence)
	if err != nil {
		return record.Record{}, err
	}
	return record.Decode(data)
}

// get reads one stored message.
func (c *claims) get(ctx context.Context, stream string, seq uint64) ([]byte, error) {
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", stream, err)
	}
	m, err := s.GetMsg(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("stream %s, message %d: %w", stream, seq, err)
	}
	return m.Data, nil
}

// find searches a subject for a message id from a time on; nil means that it is
// not there. It is for the rare message that was in somebody's hand longer ago
// than the stream remembers ids.
func (c *claims) find(ctx context.Context, stream, subject, id string, from time.Time) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, findBound)
	defer cancel()
	consumer, err := c.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		FilterSubject: subject, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &from,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: findBound,
	})
	if err != nil {
		return nil, fmt.Errorf("searching %s for %s: %w", stream, id, err)
	}
	defer func() { _ = c.js.DeleteConsumer(context.WithoutCancel(ctx), stream, consumer.CachedInfo().Name) }()
	for left := consumer.CachedInfo().NumPending; left > 0; {
		batch, err := consumer.FetchNoWait(1000)
		if err != nil {
			return nil, fmt.Errorf("searching %s for %s: %w", stream, id, err)
		}
		got := uint64(0)
		for m := range batch.Messages() {
			got++
			if m.Headers().Get(nats.MsgIdHdr) == id {
				return m.Data(), nil
			}
		}
		if err := errors.Join(batch.Error(), ctx.Err()); err != nil {
			return nil, fmt.Errorf("searching %s for %s: %w", stream, id, err)
		}
		if got == 0 {
			return nil, nil // what was pending has been trimmed
		}
		left -= min(left, got)
	}
	return nil, nil
}
