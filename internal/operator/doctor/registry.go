package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/health"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/streams"
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
	// The ledger first: what is made between the two looks is in the registry.
	recorded, err := d.Ledger.RecordedEndpoints(ctx)
	if err != nil {
		return nil // that ClickHouse does not answer is custody's to say
	}
	kept, err := registryKeys(ctx, d.JS)
	if err != nil {
		return nil // so is the registry's, of the check of that name
	}
	lost := slices.DeleteFunc(recorded, func(id string) bool { return kept[id] })
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

// registryKeys are the ids of all endpoints in the registry. Deleted ones stay in it.
func registryKeys(ctx context.Context, js jetstream.JetStream) (map[string]bool, error) {
	kv, err := js.KeyValue(ctx, streams.EndpointsBucket)
	if err != nil {
		return nil, err
	}
	list, err := kv.ListKeys(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = list.Stop() }()
	kept := map[string]bool{}
	for key := range list.Keys() {
		kept[key] = true
	}
	return kept, ctx.Err()
}
