package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNotFound says that the ledger holds nothing of that name.
var ErrNotFound = errors.New("not in the ledger")

// ErrBadCursor is what a listing returns for a cursor that no page gave.
var ErrBadCursor = errors.New("bad cursor")

// MaxLimit bounds every listing.
const MaxLimit = 1000

// scopeMarker is where a view's definition takes a further condition on the
// records that it reads.
const scopeMarker = "/* scope */"

// viewSelect is the view's own definition, read from its migration, over fewer
// records: scope is a condition on columns of records. A query that knows a
// range of idx reads only that, which no condition on the view could achieve.
func viewSelect(name, scope string) (string, error) {
	definition, err := viewDefinition(name)
	if err != nil {
		return "", err
	}
	if !strings.Contains(definition, scopeMarker) {
		return "", fmt.Errorf("view %s has no place for a scope", name)
	}
	return strings.Replace(definition, scopeMarker, "AND "+scope, 1), nil
}

// viewDefinition is what the last migration that makes the view says.
func viewDefinition(name string) (string, error) {
	all, err := migrations(migrationFiles)
	if err != nil {
		return "", err
	}
	definition := ""
	for _, m := range all {
		for _, s := range m.statements {
			if rest, ok := strings.CutPrefix(s, "CREATE OR REPLACE VIEW "+name+" AS\n"); ok {
				definition = rest
			}
		}
	}
	if definition == "" {
		return "", fmt.Errorf("no migration makes a view %s", name)
	}
	return definition, nil
}

// conditions collects what a WHERE clause asks for, with its arguments.
type conditions struct {
	terms []string
	args  []any
}

func (c *conditions) add(term string, args ...any) {
	c.terms = append(c.terms, term)
	c.args = append(c.args, args...)
}

// equal adds column = value, unless value is empty: not asked for.
func (c *conditions) equal(column, value string) {
	if value != "" {
		c.add(column+" = ?", value)
	}
}

// between adds from <= column < to; a zero time does not bound.
func (c *conditions) between(column string, from, to time.Time) {
	if !from.IsZero() {
		c.add(column+" >= fromUnixTimestamp64Nano(?, 'UTC')", from.UnixNano())
	}
	if !to.IsZero() {
		c.add(column+" < fromUnixTimestamp64Nano(?, 'UTC')", to.UnixNano())
	}
}

func (c *conditions) String() string {
	if len(c.terms) == 0 {
		return "1"
	}
	return strings.Join(c.terms, " AND ")
}

func (db *DB) selectInto(ctx context.Context, doing string, dest any, query string, args ...any) error {
	return db.explain(doing, db.conn.Select(ctx, dest, query, args...))
}

func bounded(limit int) int {
	if limit <= 0 || limit > MaxLimit {
		return MaxLimit
	}
	return limit
}
