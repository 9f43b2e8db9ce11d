package ledger

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// ErrNotEmpty says that there is a ledger already where one should be restored.
var ErrNotEmpty = errors.New("there are records already")

// destination is where ClickHouse writes a backup to, in its own words. The
// arguments are literals: what people give is put into a statement.
var destination = regexp.MustCompile(`^(File|Disk|S3|AzureBlobStorage)\('[^'\\]*'(, ?'[^'\\]*')*\)$`)

// Backup writes the whole database to a destination such as File('name'). It is
// of one moment: what is inserted meanwhile is in it or not, whole inserts only.
func (db *DB) Backup(ctx context.Context, to string) error {
	if !destination.MatchString(to) {
		return fmt.Errorf("backup destination %s: want File('…'), Disk('…', '…'), S3('…') or AzureBlobStorage('…')", to)
	}
	return db.exec(withoutReadTimeout(ctx), "backing up", fmt.Sprintf("BACKUP DATABASE %s TO %s", db.Database(), to))
}

// Restore reads a backup into a database that has no records: one that has is
// left alone (ErrNotEmpty).
func (db *DB) Restore(ctx context.Context, from string) (err error) {
	if !destination.MatchString(from) {
		return fmt.Errorf("backup %s: want File('…'), Disk('…', '…'), S3('…') or AzureBlobStorage('…')", from)
	}
	p, err := db.Last(ctx)
	switch {
	case err == nil && p.Next > 0:
		return fmt.Errorf("%w: database %q has %d; a backup is restored into an empty one", ErrNotEmpty, db.Database(),
			p.Next)
	case err != nil && !errors.Is(err, ErrNoSchema):
		return err
	}
	o := db.options
	o.Auth.Database = "default" // ours may not exist
	conn, err := clickhouse.Open(&o)
	if err != nil {
		return fmt.Errorf("restoring: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ctx = withoutReadTimeout(ctx)
	// without a record
	if err := db.explain("restoring", conn.Exec(ctx, "DROP DATABASE IF EXISTS "+db.Database()+" SYNC")); err != nil {
		return err
	}
	return db.explain("restoring", conn.Exec(ctx, fmt.Sprintf("RESTORE DATABASE %s FROM %s", db.Database(), from)))
}

// withoutReadTimeout lets ClickHouse be silent for as long as the copy takes.
func withoutReadTimeout(ctx context.Context) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_execution_time": 0}))
}
