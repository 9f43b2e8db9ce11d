package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

// contentKinds are the kinds of an event that stands under its id. What was
// rejected does not, and a duplicate is the same event.
const contentKinds = "('event.accepted', 'event.unmatched')"

// contentsQuery groups by id what stands under it. Bodies are read only of the
// events that came in more than once.
const contentsQuery = `SELECT tenant, event_id, min(at) AS first_at, arrayMap(x -> x.2, arraySort(groupArray((event_seq,
		concat('number ', toString(event_seq), ' in EVENTS (', replaceOne(toString(kind), 'event.', ''), ', type ', toString(event_type), ', data sha256 ', substring(data_digest, 1, 16), '…)'))))) AS stored
	FROM records WHERE kind IN ` + contentKinds + ` AND event_id IN (
		SELECT event_id FROM records WHERE kind IN ` + contentKinds + ` AND %s GROUP BY tenant, event_id HAVING count() > 1) AND %s
	GROUP BY tenant, event_id HAVING uniqExact(toString(event_type), data_digest) > 1 ORDER BY first_at, tenant, event_id LIMIT %d`

type contentsRow struct {
	Tenant  string    `ch:"tenant"`
	EventID string    `ch:"event_id"`
	FirstAt time.Time `ch:"first_at"`
	Stored  []string  `ch:"stored"`
}

// AuditContents names the ids, of events that came in during the period, under
// which two contents stand: receivers may have got either.
func (db *DB) AuditContents(ctx context.Context, f audit.Filter, limit int) (out []audit.Mismatch, more uint64,
	err error) {
	ctx = sweep(ctx, f)
	windows, err := db.windows(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	seen := map[[2]string]bool{} // an id may be of several windows
	for _, w := range windows {
		var in, all conditions
		all.equal("tenant", f.Tenant)
		all.equal("event_id", f.EventID)
		if f.EventID == "" {
			var during conditions
			during.add("kind IN " + contentKinds)
			during.equal("tenant", f.Tenant)
			during.between("at", w.from, w.to)
			in.add("event_id IN (SELECT event_id FROM records WHERE "+during.String()+")", during.args...)
		} else {
			in.equal("event_id", f.EventID)
		}
		var rows []contentsRow
		query := fmt.Sprintf(contentsQuery, in.String(), all.String(), MaxLimit)
		if err := db.selectInto(ctx, "looking for ids with two contents", &rows, query,
			append(append([]any{}, in.args...), all.args...)...); err != nil {
			return nil, 0, err
		}
		for _, r := range rows {
			if id := [2]string{r.Tenant, r.EventID}; seen[id] {
				continue
			} else if seen[id] = true; len(out) >= limit {
				more++
				continue
			}
			out = append(out, audit.Mismatch{Tenant: r.Tenant, EventID: r.EventID, At: r.FirstAt.UTC(), What: audit.TwoContents,
				Detail: contentsText(r.Stored)})
		}
	}
	return out, more, nil
}

// contentsText says what stands under an id.
func contentsText(stored []string) string {
	const most = 5
	if n := len(stored) - most; n > 0 {
		stored = append(stored[:most:most], fmt.Sprintf("and %d more", n))
	}
	return "different events stand under this id: " + strings.Join(stored, ", ")
}
