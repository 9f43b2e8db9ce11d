package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// leaseGrace is added to an attempt's timeout: until then, whoever finds its
	// claim takes it for still running. It covers the claim itself and the
	// hand-off after the request.
	leaseGrace = 5 * time.Second
	// claimBound is how long a claim may take to be stored. A request that
	// started later could outlast its lease, or its deadline.
	claimBound = leaseGrace / 2
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
	Void outcome.Reason `json:"void,omitempty"`
	Why  string         `json:"why,omitempty"`

	began time.Time // on the clock that only runs, of whoever makes the claim
}

func (c claim) ended() Decision { return deadLetter(c.Void, c.Why) }

// claims are the attempts that were started, and what came of them.
type claims struct {
	started *stage.Journal // CLAIMS
	ledger  *stage.Journal // LEDGER
}

func openClaims(ctx context.Context, js jetstream.JetStream, pub *stage.Publisher, clock *stage.Clock) (*claims,
	error) {
	started, err := stage.OpenJournal(ctx, js, pub, streams.Claims)
	if err != nil {
		return nil, err
	}
	ledger, err := stage.OpenJournal(ctx, js, pub, streams.Ledger)
	if err != nil {
		return nil, err
	}
	return &claims{started: started.WithClock(clock), ledger: ledger.WithClock(clock)}, nil
}

// take claims attempt number n. It returns the claim that was there before, if
// there was one; nil means that the attempt is ours to make. heldSince is when
// somebody else can first have claimed it; zero: nobody can have.
//
// Where another chain ended with a void claim, no request has the number: it
// is claimed once more, under an id that all who come after that chain agree on.
func (c *claims) take(ctx context.Context, event, endpoint string, n int, mine claim, heldSince time.Time) (*claim,
	error) {
	data, err := json.Marshal(mine)
	if err != nil {
		return nil, fmt.Errorf("claim of attempt %d: %w", n, err)
	}
	for round := 0; ; round++ {
		id := streams.AttemptID(event, endpoint, n)
		if round > 0 {
			id = fmt.Sprintf("%s/v%d", id, round)
		}
		m := &nats.Msg{Subject: streams.ClaimSubject(endpoint), Header: nats.Header{nats.MsgIdHdr: {id}}, Data: data}
		stands, taken, err := c.started.PutFirst(ctx, m, heldSince)
		if err != nil || taken {
			return nil, err
		}
		prior := &claim{}
		if err := json.Unmarshal(stands, prior); err != nil {
			return nil, fmt.Errorf("claim %s: %w", id, err)
		}
		if prior.Void == "" || prior.Replay == mine.Replay {
			return prior, nil
		}
	}
}

// settle puts an attempt on record, unless it is already, and returns the record
// that stands. Two processes may state one attempt: the one that made it, and
// one that took it for dead. The first record stands, and its decision alone is
// carried out; mine says whether it is r.
func (c *claims) settle(ctx context.Context, r record.Record, startedAt time.Time) (stands record.Record, mine bool,
	err error) {
	m, err := r.Message()
	if err != nil {
		return r, false, err
	}
	data, mine, err := c.ledger.PutFirst(ctx, m, startedAt)
	if err != nil || mine {
		return r, mine, err
	}
	stands, err = record.Decode(data)
	return stands, false, err
}
