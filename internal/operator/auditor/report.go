package auditor

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/internal/platform/version"
)

// integritySample is how many digests a report shows: nobody reads more of them.
const integritySample = 25

// Report asks every question about the period.
func (a Auditor) Report(ctx context.Context, f audit.Filter, limit int, now time.Time) (r audit.Report, err error) {
	r = audit.Report{Made: now.UTC(), Software: version.Software, Filter: f}
	if f.Settled, err = a.db.AuditSettled(ctx); err != nil {
		return r, err
	}
	events, err := a.db.AuditEvents(ctx, f)
	if err != nil {
		return r, err
	}
	rows, mismatches, more, err := a.db.AuditBalances(ctx, f, limit)
	if err != nil {
		return r, err
	}
	if f.Tenant == "" && f.EndpointID == "" {
		gaps, err := a.db.AuditGaps(ctx, f)
		if err != nil {
			return r, err
		}
		mismatches = append(mismatches, gaps...)
	}
	r.Days, r.Endpoints = audit.Fold(rows, audit.ByDay), audit.Fold(rows, audit.ByEndpoint)
	r.Completeness = audit.NewCompleteness(f, events, rows, mismatches, more, nil)
	if err := a.noteRetired(ctx, &r.Completeness); err != nil {
		return r, err
	}
	r.Completeness.Rows = []audit.Balance{} // by day and by endpoint instead
	if r.MoreEndpoints = uint64(max(0, len(r.Endpoints)-limit)); r.MoreEndpoints > 0 {
		r.Endpoints = audit.Worst(r.Endpoints, limit)
	}
	if r.Failures, err = a.Failures(ctx, f, limit); err != nil {
		return r, err
	}
	r.Service = audit.ServiceOf(rows, r.Failures.Totals)
	gaps, moreGaps, err := a.db.AuditAttemptGaps(ctx, f, limit)
	if err != nil {
		return r, err
	}
	r.Gaps = audit.OfAttempts(f, gaps, moreGaps)
	if r.Duplicates, err = a.Duplicates(ctx, f, false, limit); err != nil {
		return r, err
	}
	if r.Integrity, err = a.Integrity(ctx, f, min(limit, integritySample)); err != nil {
		return r, err
	}
	// What people did, and what was signed, waits for nothing to settle.
	f = r.Filter
	if r.Controls, err = a.Controls(ctx, f, limit); err != nil {
		return r, err
	}
	if r.Replays, r.MoreReplays, err = a.db.AuditReplays(ctx, f, limit); err != nil {
		return r, err
	}
	if r.Replays == nil {
		r.Replays = []audit.Replay{}
	}
	r.Checkpoints, err = a.db.AuditCheckpoints(ctx, f)
	return r, err
}
