package ledger

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// ErrNoSchema says that the database or its tables do not exist yet.
var ErrNoSchema = errors.New("the ledger has no schema yet")

// ErrNewerSchema says that a newer version of the program has migrated the database.
var ErrNewerSchema = errors.New("the ledger's schema is newer than this program")

// oldSchema is an error that is ErrNoSchema for who asks, and does not say so:
// there is a schema, only not all of it.
type oldSchema string

func (e oldSchema) Error() string { return string(e) }

// Is implements errors.Is.
func (oldSchema) Is(target error) bool { return target == ErrNoSchema }

// Versions are the applied and the known schema version.
type Versions struct {
	Applied int `json:"applied"`
	Known   int `json:"known"`
}

// migration is one file: NNNN_name.sql, statements that end in ";" and a line end.
type migration struct {
	version    int
	name       string
	statements []string
}

// createVersions holds which migrations were applied. A row is inserted under a
// token, so two migrators that finish the same one leave one row.
const createVersions = `CREATE TABLE IF NOT EXISTS schema_versions
(
    version UInt32,
    name String,
    applied_at DateTime64(9, 'UTC') DEFAULT now64(9)
)
ENGINE = MergeTree ORDER BY version
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1`

// Migrate creates the database, if it is missing, and applies the migrations
// that it lacks, in order. Every statement is idempotent, so a migrator that
// dies in the middle, and two that run at once, end in the same schema. It
// changes nothing in a database that is newer than this program (ErrNewerSchema).
func (db *DB) Migrate(ctx context.Context) error {
	all, err := migrations(migrationFiles)
	if err != nil {
		return err
	}
	v, err := Versions{Known: len(all)}, ErrNoSchema
	if !db.madeNow(ctx) {
		v, err = db.Schema(ctx)
	}
	if err == nil && v.Applied == v.Known {
		return nil
	}
	return db.explainMigrate(v, db.migrate(ctx, all, v, err))
}

// explainMigrate tells a user who may not change the schema what to do: the
// sink's user may not, on purpose.
func (db *DB) explainMigrate(v Versions, err error) error {
	if codeOf(err) == proto.ErrAccessDenied {
		return fmt.Errorf("database %q has schema version %d, this program needs %d, and user %q may not change it; "+
			"as a user who may, run: waybill ledger migrate --clickhouse DSN: %w: %w",
			db.Database(), v.Applied, v.Known, db.options.Auth.Username, ErrNoSchema, err)
	}
	return err
}

func (db *DB) migrate(ctx context.Context, all []migration, v Versions, err error) error {
	switch {
	case errors.Is(err, ErrNoSchema):
		if err := db.createDatabase(ctx); err != nil {
			return err
		}
		if err := db.exec(ctx, "creating schema_versions", createVersions); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	return db.alone(ctx, func() error {
		v, err := db.Schema(ctx) // another one may have done it meanwhile
		if err != nil {
			return err
		}
		for _, m := range all[min(v.Applied, len(all)):] {
			if err := db.apply(ctx, m); err != nil {
				return err
			}
			// Dying before this line repeats the migration's statements, which then change nothing.
			if err := db.markApplied(ctx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	// migrateTries is how often a migration is begun anew because another migrator
	// replaced a view between two of its statements.
	migrateTries = 50
	// migratePause bounds the pause before that. It is drawn at random: migrators
	// that keep step would take views out of each other's hands for ever.
	migratePause = time.Second
)

// apply runs a migration's statements. Two migrators at once take views out of
// each other's hands: then it begins anew, and ends in the same schema. One that
// has begun does not stop because the other one is done: it may have put an older
// view in the place of a newer one, and does what follows once more.
func (db *DB) apply(ctx context.Context, m migration) error {
	for try := 1; ; try++ {
		doing, err := db.statements(ctx, m)
		if try == migrateTries || !slices.Contains(replacedMeanwhile, codeOf(err)) {
			return db.explain(doing, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(min(time.Duration(try)*50*time.Millisecond, migratePause))):
		}
	}
}

// replacedMeanwhile are the errors of a statement whose table another migrator
// replaced, or put an older one in its place.
var replacedMeanwhile = []proto.Error{proto.ErrNotFoundColumnInBlock, proto.ErrUnknownTable, proto.ErrFileDoesntExist,
	proto.ErrTableIsDropped, proto.ErrCannotAssignAlter, proto.ErrAtomicRenameFail, proto.ErrTableUUIDMismatch}

// statements runs a migration's, and says at which one it failed.
func (db *DB) statements(ctx context.Context, m migration) (doing string, err error) {
	for i, s := range m.statements {
		if err := db.conn.Exec(ctx, s); err != nil {
			return fmt.Sprintf("migration %s, statement %d", m.name, i+1), err
		}
	}
	return "", nil
}

// Schema returns the applied and the known version, ErrNoSchema or ErrNewerSchema.
func (db *DB) Schema(ctx context.Context) (Versions, error) {
	all, err := migrations(migrationFiles)
	if err != nil {
		return Versions{}, err
	}
	v := Versions{Known: len(all)}
	var applied uint32
	err = db.explain("reading schema_versions",
		db.conn.QueryRow(ctx, "SELECT max(version) FROM schema_versions").Scan(&applied))
	if err != nil {
		return v, err
	}
	v.Applied = int(applied)
	if v.Applied > v.Known {
		return v, fmt.Errorf("%w: database %q has version %d, this program knows %d; run the newer version of Waybill",
			ErrNewerSchema, db.Database(), v.Applied, v.Known)
	}
	return v, nil
}

// CheckSchema is what a program that must not migrate does at start.
func (db *DB) CheckSchema(ctx context.Context) error {
	v, err := db.Schema(ctx)
	if err != nil {
		return err
	}
	if v.Applied < v.Known {
		return oldSchema(fmt.Sprintf("database %q has schema version %d, this program needs %d; mend it with: waybill "+
			"ledger migrate", db.Database(), v.Applied, v.Known))
	}
	return nil
}

func (db *DB) exec(ctx context.Context, doing, statement string) error {
	return db.explain(doing, db.conn.Exec(ctx, statement))
}

// madeNow makes the database if it is not there, and says whether it did. To
// find out by using it would leave a stack trace in ClickHouse's log. What fails
// here fails again, and is said, when the database is used.
func (db *DB) madeNow(ctx context.Context) (made bool) {
	err := db.outside(func(conn driver.Conn) error {
		var n uint64
		if err := conn.QueryRow(ctx, "SELECT count() FROM system.databases WHERE name = ?",
			db.Database()).Scan(&n); err != nil || n > 0 {
			return err
		}
		made = true
		return conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+db.Database())
	})
	return made && err == nil
}

func (db *DB) createDatabase(ctx context.Context) error {
	return db.explain("creating the database", db.outside(func(conn driver.Conn) error {
		return conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+db.Database())
	}))
}

// outside connects without the database: naming one that does not exist is
// refused at the handshake.
func (db *DB) outside(do func(driver.Conn) error) error {
	o := db.options
	o.Auth.Database = "default"
	o.MaxOpenConns, o.MaxIdleConns = 1, 1
	conn, err := clickhouse.Open(&o)
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close())
}

func (db *DB) markApplied(ctx context.Context, m migration) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"insert_deduplication_token": "schema-" + strconv.Itoa(m.version), "async_insert": 0,
	}))
	return db.explain("marking migration "+m.name,
		db.conn.Exec(ctx, "INSERT INTO schema_versions (version, name) VALUES (?, ?)", m.version, m.name))
}

// migrations reads the files: 0001_…, 0002_…, without a hole.
func migrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var out []migration
	for i, path := range names { // in the order of their names
		name := strings.TrimSuffix(strings.TrimPrefix(path, "migrations/"), ".sql")
		number, _, _ := strings.Cut(name, "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s: want number %04d", name, i+1)
		}
		b, err := fs.ReadFile(files, path)
		if err != nil {
			return nil, err
		}
		m := migration{version: i + 1, name: name}
		for s := range strings.SplitSeq(string(b), ";\n") {
			if s = strings.TrimSpace(s); s != "" {
				m.statements = append(m.statements, s)
			}
		}
		out = append(out, m)
	}
	return out, nil
}
