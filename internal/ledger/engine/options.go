package engine

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
)

const (
	// defaultStartLimit covers a first start on a loaded machine; measured
	// starts take 0.2 to 2 s, a restart with ten million rows 0.7 s.
	defaultStartLimit = 60 * time.Second
	// defaultStopLimit leaves room for the engine's own wait of up to 5 s for
	// clients that keep a connection open.
	defaultStopLimit = 15 * time.Second
	// defaultLockWait is how long an engine that a killed parent left behind
	// gets to end: it notices at once, and ends in well under its stop time.
	defaultLockWait = 20 * time.Second
	// Restarts are at once, then further and further apart, so that an engine
	// that cannot start does not keep a core busy.
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 15 * time.Second
	// settled is how long an engine must serve before backoff begins anew.
	settled = time.Minute
)

// Options configure Start. Dir is needed; everything else has a default.
type Options struct {
	Dir        string   // holds configuration, data and log; one engine at a time
	Location   Location // from Find; zero: Find(SearchFromEnv(os.Getenv))
	NativeAddr string   // "host:port" of the native protocol; default "127.0.0.1:0"
	HTTPAddr   string   // "host:port" of HTTP; same host as NativeAddr; default "127.0.0.1:0"

	// User and Password are the owner, who may do everything, from loopback
	// only. Default: user "default" without a password. With a password the
	// user must be another than "default" (empty: "waybill"), because the
	// engine opens its ports as "default": that user is then left with the
	// right to open ports and none other.
	User, Password string
	// UsersXML is a whole <clickhouse> document, merged over the generated
	// users file: more users, profiles, quotas.
	UsersXML string
	// ConfigXML is a whole <clickhouse> document, merged over the generated
	// server configuration.
	ConfigXML string

	// MemoryLimit bounds the engine's memory, in bytes. Zero: half the machine's.
	MemoryLimit uint64

	Logger zerolog.Logger
	// OnExit, if set, is told each time the engine process ended without being
	// asked to, before it is restarted, during Start too. It must return soon.
	OnExit func(err error)

	StartLimit time.Duration // until both ports answer; default 60 s
	StopLimit  time.Duration // until a stopping engine is killed; default 15 s
	LockWait   time.Duration // for a previous engine to leave Dir; default 20 s
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("engine: Options.Dir is empty; name the directory that holds the engine's data")
	}
	dir, err := filepath.Abs(o.Dir) // the engine resolves paths against its own directory
	if err != nil {
		return o, fmt.Errorf("engine directory %s: %w", o.Dir, err)
	}
	o.Dir = dir
	if o.NativeAddr == "" {
		o.NativeAddr = "127.0.0.1:0"
	}
	if o.HTTPAddr == "" {
		o.HTTPAddr = "127.0.0.1:0"
	}
	switch {
	case o.User == "" && o.Password == "":
		o.User = bootUser
	case o.User == "":
		o.User = "waybill"
	case o.User == bootUser && o.Password != "":
		return o, errors.New(`engine: user "default" cannot have a password, because the engine opens its ports as that user; choose another Options.User`)
	case o.User != bootUser && o.Password == "":
		return o, fmt.Errorf("engine: user %q has no password; set Options.Password", o.User)
	}
	if !plainName(o.User) {
		return o, fmt.Errorf("engine: user %q: use letters, digits and _ only", o.User)
	}
	o.StartLimit = orDefault(o.StartLimit, defaultStartLimit)
	o.StopLimit = orDefault(o.StopLimit, defaultStopLimit)
	o.LockWait = orDefault(o.LockWait, defaultLockWait)
	return o, nil
}

func orDefault(given, otherwise time.Duration) time.Duration {
	if given > 0 {
		return given
	}
	return otherwise
}

// plainName keeps a user name safe as an XML element and in a DSN.
func plainName(name string) bool {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
