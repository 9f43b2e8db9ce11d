package auditor

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/internal/ledger/audit/outside"
)

// Streams are what NATS knows beside ClickHouse.
type Streams struct {
	NC *nats.Conn
	JS jetstream.JetStream
	// Patience is how long the sink gets to write what LEDGER holds.
	Patience time.Duration
}

// Completeness asks everything at one settled position: the streams first, which
// say what ClickHouse must have by now, then ClickHouse, then, about what that had,
// the streams again. Without streams, nil, it asks ClickHouse alone.
func (a Auditor) Completeness(ctx context.Context, f audit.Filter, limit int, s *Streams) (none audit.Completeness,
	err error) {
	settled, err := a.settle(ctx, s)
	if err != nil {
		return none, err
	}
	f.Settled = settled.Until
	at, err := a.db.Last(ctx)
	if err != nil {
		return none, err
	}
	events, err := a.db.AuditEvents(ctx, f)
	if err != nil {
		return none, err
	}
	rows, mismatches, more, err := a.db.AuditBalances(ctx, f, limit)
	if err != nil {
		return none, err
	}
	contents, rest, err := a.db.AuditContents(ctx, f, limit)
	if err != nil {
		return none, err
	}
	mismatches, more = append(mismatches, contents...), more+rest
	if f.Tenant == "" && f.EndpointID == "" { // what belongs to no tenant
		gaps, err := a.db.AuditGaps(ctx, f)
		if err != nil {
			return none, err
		}
		indices, err := a.db.AuditIndices(ctx)
		if err != nil {
			return none, err
		}
		mismatches = append(append(mismatches, gaps...), indices...)
	}
	if s == nil {
		answer := audit.NewCompleteness(f, events, rows, mismatches, more, nil)
		answer.Notes = append(answer.Notes,
			"Not compared with LEDGER, EVENTS and CLAIMS: where NATS is was not said (--nats-url).")
		return answer, a.noteRetired(ctx, &answer)
	}
	found, compared, err := outside.CompareLedger(ctx, s.JS, a.db, settled)
	if err != nil {
		return none, err
	}
	vouched, err := outside.Vouch(ctx, s.NC, s.JS, a.db, f, at.Next)
	if err != nil {
		return none, err
	}
	mismatches = append(append(mismatches, found...), vouched.Mismatches...)
	answer := audit.NewCompleteness(f, events, rows, mismatches, more+vouched.More, &compared)
	answer.Vouch(vouched.Vouched)
	return answer, a.noteRetired(ctx, &answer)
}

// settle finds the position that everything is asked at.
func (a Auditor) settle(ctx context.Context, s *Streams) (settled audit.Settled, err error) {
	if s == nil {
		settled.Until, err = a.db.AuditSettled(ctx)
		return settled, err
	}
	return outside.Settle(ctx, s.JS, s.Patience, func(ctx context.Context) (outside.Position, error) {
		p, err := a.db.Last(ctx)
		return outside.Position{Epoch: p.StreamEpoch, Seq: p.StreamSeq}, err
	})
}

// noteRetired says what the answer cannot be about.
func (a Auditor) noteRetired(ctx context.Context, c *audit.Completeness) error {
	retired, err := a.db.RetiredText(ctx)
	if retired != "" {
		c.Notes = append(c.Notes, "Not counted: "+retired+".")
	}
	return err
}
