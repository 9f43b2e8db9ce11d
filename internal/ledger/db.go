// Package ledger keeps the records in ClickHouse: the schema, the append and
// the queries. It is the only package that speaks to ClickHouse.
package ledger

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// DefaultDatabase is used when the DSN names none.
const DefaultDatabase = "waybill"

const (
	// dialTimeout bounds a connection attempt, so that a host that drops
	// packets looks like one that refuses.
	dialTimeout = 5 * time.Second
	// readTimeout bounds the silence of a server that has a query of ours:
	// above the longest merge stall, below a person's patience.
	readTimeout = 60 * time.Second
)

// ErrUnavailable says that ClickHouse cannot be reached or is not ready. Trying
// again later is right; nothing else has to change.
var ErrUnavailable = errors.New("ClickHouse is not available")

// DB is the ledger in one database of one ClickHouse server. It is safe for
// concurrent use.
type DB struct {
	conn    driver.Conn
	options clickhouse.Options
	columns []column
	insert  string
	// windowRecords is about how many records one step of an audit looks at.
	windowRecords int
}

// New reads a DSN, clickhouse://user:password@host:9000/database?secure=true,
// and makes no connection yet. The database defaults to "waybill".
func New(dsn string) (*DB, error) {
	if !strings.Contains(dsn, "://") {
		return nil, fmt.Errorf("ClickHouse DSN %q: want clickhouse://host:9000/database", dsn)
	}
	o, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("ClickHouse DSN %q: %w", redact(dsn), err)
	}
	if o.Protocol != clickhouse.Native {
		return nil, fmt.Errorf("ClickHouse DSN %q: want the native protocol, clickhouse://host:9000/database", redact(dsn))
	}
	if o.Auth.Database == "" {
		o.Auth.Database = DefaultDatabase
	}
	if !isName(o.Auth.Database) {
		return nil, fmt.Errorf("ClickHouse DSN: database %q: want letters, digits and underscores", o.Auth.Database)
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = dialTimeout
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = readTimeout
	}
	if o.Compression == nil {
		o.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
	}
	conn, err := clickhouse.Open(o)
	if err != nil {
		return nil, fmt.Errorf("ClickHouse DSN %q: %w", redact(dsn), err)
	}
	columns := stored()
	return &DB{conn: withoutDeadline{conn}, options: *o, columns: columns, insert: insertStatement(columns),
		windowRecords: windowRecords}, nil
}

// Open is New, and makes sure that the server answers and has the schema of
// this version: it creates and migrates what is missing. An error that wraps
// ErrUnavailable is worth another try later.
func Open(ctx context.Context, dsn string) (*DB, error) {
	db, err := New(dsn)
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Database is the name of the database.
func (db *DB) Database() string { return db.options.Auth.Database }

// Ping says whether the server answers.
func (db *DB) Ping(ctx context.Context) error {
	return db.explain("ping", db.conn.Ping(ctx))
}

// Close ends all connections.
func (db *DB) Close() error { return db.conn.Close() }

// explain says what an error means and what to do about it.
func (db *DB) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	where := strings.Join(db.options.Addr, ",")
	var e *clickhouse.Exception
	if errors.As(err, &e) {
		switch proto.Error(e.Code) {
		case proto.ErrUnknownDatabase, proto.ErrUnknownTable:
			return fmt.Errorf("%s: ClickHouse at %s has no ledger in database %q (%s); "+
				"create it with: waybill ledger migrate: %w", doing, where, db.Database(), firstLine(e.Message), ErrNoSchema)
		case proto.ErrAuthenticationFailed, proto.ErrUnknownUser, proto.ErrWrongPassword:
			return fmt.Errorf("%s: ClickHouse at %s refuses user %q; check user and password in the DSN: %w",
				doing, where, db.options.Auth.Username, err)
		case proto.ErrAccessDenied:
			return fmt.Errorf("%s: ClickHouse at %s: user %q lacks a grant: %w", doing, where, db.options.Auth.Username, err)
		case proto.ErrTimeoutExceeded, proto.ErrTooManySimultaneousQueries, proto.ErrNetworkError,
			proto.ErrMemoryLimitExceeded, proto.ErrTableIsReadOnly, proto.ErrNotEnoughSpace,
			proto.ErrTooManyParts, proto.ErrAborted, proto.ErrQueryWasCancelled, proto.ErrSystemError:
			return fmt.Errorf("%s: ClickHouse at %s: %w: %w", doing, where, ErrUnavailable, err)
		}
		return fmt.Errorf("%s: ClickHouse at %s: %w", doing, where, err)
	}
	if isTransport(err) {
		return fmt.Errorf("%s: cannot reach ClickHouse at %s; check that it runs and that the DSN is right: %w: %w", doing,
			where, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: ClickHouse at %s: %w", doing, where, err)
}

// codeOf is ClickHouse's code of an error; 0: ClickHouse did not answer with one.
func codeOf(err error) proto.Error {
	var e *clickhouse.Exception
	if !errors.As(err, &e) {
		return 0
	}
	return proto.Error(e.Code)
}

// isTransport takes everything for a broken connection that is neither an
// answer of the server nor the caller's own doing.
func isTransport(err error) bool {
	var n net.Error
	var t *tls.CertificateVerificationError
	if errors.As(err, &t) {
		return false
	}
	var dataType *clickhouse.OpError
	if errors.As(err, &dataType) || errors.Is(err, clickhouse.ErrBatchInvalid) {
		return false
	}
	if errors.As(err, &n) {
		return true
	}
	return !errors.Is(err, context.Canceled)
}

func isName(s string) bool {
	for i, c := range s {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// redact removes the password from a DSN that goes into an error.
func redact(dsn string) string {
	scheme, rest, ok := strings.Cut(dsn, "://")
	if !ok {
		return "…"
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, _, _ := strings.Cut(rest[:i], ":")
		rest = user + ":…" + rest[i:]
	}
	return scheme + "://" + rest
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
