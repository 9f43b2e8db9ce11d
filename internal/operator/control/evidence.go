package control

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// MaxEvidenceWait bounds how long one waits for a checkpoint.
const MaxEvidenceWait = 5 * time.Minute

// evidenceTime is what gathering may take, besides the wait.
const evidenceTime = time.Minute

// EvidenceRequest asks for the evidence of one event.
type EvidenceRequest struct {
	EventID    string
	Tenant     string        // empty: that of the event
	EndpointID string        // empty: all
	Actor      string        // who exports it
	Wait       time.Duration // for a checkpoint over the newest records
}

// Check says what is wrong with the request.
func (q EvidenceRequest) Check() error {
	if err := envelope.ValidateID(q.EventID); err != nil {
		return rejected(err)
	}
	if q.Tenant != "" {
		if err := envelope.ValidateTenant(q.Tenant); err != nil {
			return rejected(err)
		}
	}
	if q.EndpointID != "" && !ids.Valid(ids.Endpoint, q.EndpointID) {
		return invalid("endpoint", "%.64q is no endpoint id; see: waybill endpoint list", q.EndpointID)
	}
	if q.Wait < 0 || q.Wait > MaxEvidenceWait {
		return invalid("wait", "%s is not from 0s to %s", q.Wait, MaxEvidenceWait)
	}
	return rejected(checkText("actor", "say who exports it", q.Actor, maxActor, true))
}

// Evidence gathers what is on record of an event into a file that is verified
// without this deployment.
func (c *Control) Evidence(ctx context.Context, q EvidenceRequest) ([]byte, error) {
	l, err := c.ledger(ctx)
	if err != nil {
		return nil, err
	}
	return GatherEvidence(ctx, l, q)
}

// EvidenceSource is the part of a Ledger that evidence needs.
type EvidenceSource interface {
	// Evidence returns what is on record of an event, with the proofs. What it
	// refuses is an *Error.
	Evidence(ctx context.Context, q EvidenceRequest) (*evidence.File, error)
}

// GatherEvidence is Evidence for who has nothing but a ledger.
func GatherEvidence(ctx context.Context, l EvidenceSource, q EvidenceRequest) ([]byte, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, q.Wait+evidenceTime)
	defer cancel()
	f, err := l.Evidence(ctx, q)
	var known *Error
	switch {
	case errors.As(err, &known):
		return nil, known
	case err != nil:
		return nil, ledgerFailed(err)
	}
	return f.Encode(), nil
}
