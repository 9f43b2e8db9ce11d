package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/health"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

const (
	// contentsOf is the period that doctor looks through; audit completeness looks
	// through any.
	contentsOf    = 24 * time.Hour
	contentsBound = 15 * time.Second
	// codeTwoContents: different events stand under one id.
	codeTwoContents = "two_contents"
)

// contents asks ClickHouse, as an auditor, whether different events stand under one
// id. Without a ledger there is nothing to ask; that ClickHouse does not answer
// is custody's to say.
func (d *Doctor) contents(ctx context.Context) []health.Check {
	const name = "event ids"
	if d.Ledger == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, contentsBound)
	defer cancel()
	now := time.Now()
	found, more, err := d.Ledger.AuditContents(ctx, audit.Filter{From: now.Add(-contentsOf), To: now}, 1)
	switch {
	case err != nil:
		return nil
	case len(found) == 0:
		return []health.Check{{Name: name, State: health.OK,
			Detail: "one event under each id that came in during the last day"}}
	}
	first := found[0]
	return []health.Check{{Name: name, State: health.Wrong, Code: codeTwoContents,
		Detail: fmt.Sprintf("%s of the last day with different events under it; the first is %s of tenant %s: %s",
			text.Count(more+1, "id", "ids"), first.EventID, first.Tenant, first.Detail),
		Next: fmt.Sprintf("waybill event show %s --tenant %s; tell the receivers which event is meant, and publish the "+
			"other under an id of its own; all of them: waybill audit completeness", first.EventID, first.Tenant)}}
}
