// Package auditor answers an auditor from the ledger in ClickHouse and from what
// the streams still know: the five questions, completeness, the report of a period,
// whether the ledger is as it was signed, and its checkpoints.
package auditor

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

// Auditor asks one ledger. Whoever made the connection closes it.
type Auditor struct{ db *ledger.DB }

// New asks db.
func New(db *ledger.DB) Auditor { return Auditor{db} }

// Check makes sure that the ledger can answer, and knows what it is asked about.
func (a Auditor) Check(ctx context.Context, f audit.Filter) error {
	if err := a.db.CheckSchema(ctx); err != nil {
		return err
	}
	unknown, err := a.db.Known(ctx, f)
	if err != nil || unknown == "" {
		return err
	}
	retired, err := a.db.RetiredText(ctx)
	if err != nil {
		return err
	}
	if retired != "" {
		retired = "; or it is gone: " + retired
	}
	return fmt.Errorf("nothing is on record of %s; check the name, or ask without it%s", unknown, retired)
}

// Attempts answers the first question. At most limit rows are listed, here and
// below.
func (a Auditor) Attempts(ctx context.Context, f audit.Filter, limit int) (*audit.Answer[audit.Attempt], error) {
	rows, more, err := a.db.AuditAttempts(ctx, f, limit)
	if err != nil {
		return nil, err
	}
	return audit.OfAttempts(f, rows, more), nil
}

// Duplicates answers the second question. With all, deliveries with one request
// are listed too.
func (a Auditor) Duplicates(ctx context.Context, f audit.Filter, all bool, limit int) (none audit.Duplicates,
	err error) {
	rows, more, totals, err := a.db.AuditDuplicates(ctx, f, all, limit)
	if err != nil {
		return none, err
	}
	return audit.OfDuplicates(f, rows, more, totals), nil
}

// Failures answers the third question.
func (a Auditor) Failures(ctx context.Context, f audit.Filter, limit int) (none audit.Failures, err error) {
	rows, more, totals, err := a.db.AuditFailures(ctx, f, limit)
	if err != nil {
		return none, err
	}
	return audit.OfFailures(f, rows, more, totals), nil
}

// Integrity answers the fourth question.
func (a Auditor) Integrity(ctx context.Context, f audit.Filter, limit int) (none audit.Integrity, err error) {
	rows, more, totals, err := a.db.AuditIntegrity(ctx, f, limit)
	if err != nil {
		return none, err
	}
	return audit.OfIntegrity(f, rows, more, totals), nil
}

// Controls answers the fifth question.
func (a Auditor) Controls(ctx context.Context, f audit.Filter, limit int) (none audit.Controls, err error) {
	days, err := a.db.AuditDays(ctx, f)
	if err != nil {
		return none, err
	}
	changes, more, err := a.db.AuditChanges(ctx, f, limit)
	if err != nil {
		return none, err
	}
	return audit.OfControls(f, days, changes, more), nil
}
