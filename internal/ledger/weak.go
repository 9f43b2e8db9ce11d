package ledger

import (
	"context"
	"fmt"
)

// Weakness is a way in which what was recorded could be changed, or was.
type Weakness struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Next   string `json:"next"`
}

// weakness is a question whose answer names what is weak; no rows: nothing is.
type weakness struct{ code, query, detail, next string }

// changing are the rights that change or take away what was recorded.
const changing = `('ALL', 'ALTER', 'ALTER TABLE', 'ALTER UPDATE', 'ALTER DELETE', 'ALTER TTL', 'ALTER MODIFY COLUMN', 'ALTER DROP COLUMN', 'DROP', 'DROP TABLE',
	'DROP DATABASE', 'TRUNCATE', 'OPTIMIZE', 'INSERT')`

func weaknesses() []weakness {
	const here = "(database IS NULL OR database = currentDatabase())"
	return []weakness{
		{"ledger_mutated", "SELECT concat(table, ': ', command) FROM system.mutations WHERE database = currentDatabase() " +
			"AND table != 'schema_versions' LIMIT 3",
			"rows were changed or deleted", "find out who, in system.query_log, and what: waybill ledger verify"},
		{"ledger_ttl", "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine_full ILIKE '% TTL %'",
			"a TTL deletes rows by itself, also those under a legal hold", "ALTER TABLE … REMOVE TTL"},
		{"ledger_rows_hidden", "SELECT table FROM system.parts WHERE database = currentDatabase() AND active AND " +
			"has_lightweight_delete LIMIT 3",
			"rows were hidden by DELETE", "find out who, in system.query_log; restore the backup from before"},
		{"ledger_rights_wide", "SELECT DISTINCT concat(user_name, ' may ', access_type) FROM system.grants WHERE " +
			"user_name IS NOT NULL AND " + here +
			" AND (table IS NULL OR table = 'records') AND NOT is_partial_revoke AND access_type IN " + changing +
			" AND NOT (user_name = 'sink' AND access_type = 'INSERT') AND NOT (user_name = 'custodian' AND access_type = " +
			"'ALTER DELETE') AND NOT (user_name = 'owner')",
			"users may change records", "revoke it; the rights that are needed: waybill ledger roles --print-sql"},
		{"ledger_open_to_all", "SELECT DISTINCT u.name FROM system.users AS u INNER JOIN system.grants AS g ON " +
			"g.user_name = u.name WHERE (has(u.auth_type, 'no_password') OR u.name = 'default' AND has(u.auth_type, " +
			"'plaintext_password')) AND g.access_type IN " + changing,
			"users without a password may change records", "give them a password, or take their rights"},
	}
}

// Weaknesses looks for them, as a user who may see what ClickHouse knows about
// itself (the auditor).
func (db *DB) Weaknesses(ctx context.Context) ([]Weakness, error) {
	var out []Weakness
	for _, w := range weaknesses() {
		found, err := db.strings(ctx, "looking for "+w.code, w.query)
		if err != nil {
			return out, err
		}
		if len(found) > 0 {
			out = append(out, Weakness{w.code, fmt.Sprintf("%s: %.200s", w.detail, fmt.Sprint(found)), w.next})
		}
	}
	return out, nil
}
