package dispatcher

import (
	"bytes"
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
	// Void, if set, says that no request is made under this claim: the chain of
	// attempts ends here, for this reason.
	Void ReasonCode `json:"void,omitempty"`
	Why  string     `json:"why,omitempty"`
}

func (c claim) ended() Decision { return deadLetter(c.Void, c.Why) }

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
//
// Where another chain ended with a void claim, no request has the number: it
// is claimed once more, under an id that all who come after that chain agree on.
func (c *claims) take(ctx context.Context, event, endpoint string, n int, mine claim, suspect bool, earliest time.Time) (*claim, error) {
	for round := 0; ; round++ {
		id := streams.AttemptID(event, endpoint, n)
		if round > 0 {
			id = fmt.Sprintf("%s/v%d", id, round)
		}
		prior, err := c.takeID(ctx, id, endpoint, mine, suspect, earliest)
		if err != nil || prior == nil || prior.Void == "" || prior.Replay == mine.Replay {
			return prior, err
		}
	}
}

func (c *claims) takeID(ctx context.Context, id, endpoint string, mine claim, suspect bool, earliest time.Time) (*claim, error) {
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

// settle puts an attempt on record, unless it is already, and returns the record
// that stands. Two processes may state one attempt: the one that made it, and
// one that took it for dead. The first record stands, and its decision alone is
// carried out; mine says whether it is r.
func (c *claims) settle(ctx context.Context, r record.Record, startedAt time.Time) (stands record.Record, mine bool, err error) {
	m, err := r.Message()
	if err != nil {
		return r, false, err
	}
	var data []byte
	if time.Since(startedAt) > c.window-dedupeMargin {
		data, err = c.find(ctx, streams.Ledger, m.Subject, r.ID, startedAt)
	}
	if err == nil && data == nil {
		var ack *jetstream.PubAck
		if ack, err = c.pub.Publish(ctx, m); err == nil {
			if !ack.Duplicate {
				return r, true, nil
			}
			data, err = c.get(ctx, streams.Ledger, ack.Sequence)
		}
	}
	if err != nil {
		return record.Record{}, false, err
	}
	if bytes.Equal(data, m.Data) {
		return r, true, nil // an earlier try of this very publish had been stored
	}
	stands, err = record.Decode(data)
	return stands, false, err
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
