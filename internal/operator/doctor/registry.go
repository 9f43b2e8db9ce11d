package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/health"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

const (
	// codeRegistryLost: the registry lacks endpoints that are on record.
	codeRegistryLost = "registry_lost"
	registryBound    = 15 * time.Second
)

// onRecord holds the registry against the ledger: a NATS server that was lost and
// made anew has no endpoints, says so without a fault, and every event matches
// nobody. Without a ledger there is nothing to compare with.
func (d *Doctor) onRecord(ctx context.Context) []health.Check {
	const name = "registry on record"
	if d.Ledger == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, registryBound)
	defer cancel()
	lost, err := d.Ledger.LostEndpoints(ctx, d.JS)
	if err != nil {
		return nil // that ClickHouse or the registry does not answer is said by the checks of those names
	}
	if len(lost) == 0 {
		return []health.Check{{Name: name, State: health.OK,
			Detail: "every endpoint that is on record is in the registry"}}
	}
	return []health.Check{{Name: name, State: health.Wrong, Code: codeRegistryLost,
		Detail: fmt.Sprintf("the registry lacks %s that the ledger has on record, such as %s: their events match nobody",
			text.Count(len(lost), "endpoint", "endpoints"), lost[0]),
		Next: "was the NATS server made anew? Bring its streams back from the backup (docs/backup.md), or make the " +
			"endpoints anew: " +
			"waybill audit controls shows how each was set"}}
}
