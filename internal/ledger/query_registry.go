package ledger

import (
	"context"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
)

// RecordedEndpoints are the ids of the endpoints whose last change on record is
// not that they were deleted, in order.
func (db *DB) RecordedEndpoints(ctx context.Context) ([]string, error) {
	var rows []struct {
		ID string `ch:"id"`
	}
	err := db.selectInto(ctx, "reading endpoints", &rows, `SELECT toString(endpoint_id) AS id FROM records WHERE kind = 'endpoint.changed'
		GROUP BY endpoint_id HAVING argMax(action, endpoint_revision) != 'deleted' ORDER BY id`)
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.ID
	}
	return out, err
}

// LostEndpoints are the endpoints that are on record and that the registry lacks: of
// a NATS server that was lost and made anew, all. Deleted ones stay in the registry.
func (db *DB) LostEndpoints(ctx context.Context, js jetstream.JetStream) ([]string, error) {
	// The ledger first: what is made between the two looks is in the registry.
	recorded, err := db.RecordedEndpoints(ctx)
	if err != nil {
		return nil, err
	}
	kv, err := streams.Bucket(ctx, js, streams.EndpointsBucket)
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
	if ctx.Err() != nil { // the list may be cut short
		return nil, ctx.Err()
	}
	return slices.DeleteFunc(recorded, func(id string) bool { return kept[id] }), nil
}
