package ledger

import "context"

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
