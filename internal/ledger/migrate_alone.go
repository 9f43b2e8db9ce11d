package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/ClickHouse/ch-go/proto"
)

const (
	// migratingTable is there while a migrator is at work: ClickHouse does not
	// bear two that replace a view at once. Its name is one of those that the
	// migrator's grants let it drop: that of what ClickHouse makes itself to replace
	// a view.
	migratingTable = "_tmp_replace_migrating"
	// createMigrating fails for all but one.
	createMigrating = "CREATE TABLE " + migratingTable +
		" (at DateTime) ENGINE = MergeTree ORDER BY at COMMENT 'A migration of the schema is under way'"
	dropMigrating = "DROP TABLE IF EXISTS " + migratingTable + " SYNC"
	// migratingStale is when it is taken for one that a migrator left that died; one
	// from before ClickHouse started is, at once. Should that migrator live, the
	// statements of both are idempotent.
	migratingStale = 15 * time.Second
	// unlockBound bounds the removal once the work was interrupted.
	unlockBound = 10 * time.Second
)

// alone does what one migrator may do at a time.
func (db *DB) alone(ctx context.Context, do func() error) error {
	for {
		err := db.conn.Exec(ctx, createMigrating)
		if err == nil {
			break
		}
		if codeOf(err) != proto.ErrTableAlreadyExists {
			return db.explain("beginning to migrate", err)
		}
		if err := db.dropStale(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(200 * time.Millisecond)):
		}
	}
	err := do()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockBound)
	defer cancel()
	return errors.Join(err, db.exec(ctx, "ending to migrate", dropMigrating))
}

func (db *DB) dropStale(ctx context.Context) error {
	const stale = "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = ? AND " +
		"metadata_modification_time < now() - toIntervalSecond(least(?, uptime()))"
	var n uint64
	if err := db.conn.QueryRow(ctx, stale, migratingTable, int(migratingStale.Seconds())).Scan(&n); err != nil {
		return db.explain("looking for another migrator", err)
	}
	if n == 0 {
		return nil
	}
	return db.exec(ctx, "removing what a migrator left that died", dropMigrating)
}
