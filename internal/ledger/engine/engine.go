// Package engine runs a real ClickHouse beside Waybill when no server is given:
// a supervised child process with ClickHouse's own native and HTTP ports.
//
// The child is waybill-clickhouse around the engine library, or ClickHouse's own
// server where a clickhouse binary is installed. Nothing above this package can
// tell which. The child never outlives its parent, whatever ends the parent.
package engine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"
)

// Engine is a running, supervised ClickHouse. Its addresses never change: a
// process that dies is replaced on the same ports, and meanwhile clients see
// connections refused.
type Engine struct {
	options   Options
	layout    layout
	addresses addresses
	lock      *os.File

	stopping chan struct{} // closed by the first Stop
	done     chan struct{} // closed when supervision ended and no process is left
	stopOnce sync.Once

	mu       sync.Mutex    // guards what follows
	current  *child        // the process that runs or starts; nil between two
	serving  chan struct{} // closed while current answers
	restarts int
	stopCtx  context.Context // bounds the stop; set before stopping is closed
	stopErr  error           // read after done
}

// Start writes the configuration into o.Dir, starts the engine and returns when
// both ports answer. ctx bounds the start only; the engine runs until Stop.
//
// One engine runs in a directory at a time. One that a killed parent left behind
// is waited for (o.LockWait); after that, or if it belongs to a live process,
// the error wraps ErrInUse.
func Start(ctx context.Context, o Options) (*Engine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Location == (Location{}) {
		if o.Location, err = Find(SearchFromEnv(os.Getenv)); err != nil {
			return nil, err
		}
	}
	l := layout{o.Dir}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("engine directory: %w", err)
	}
	lock, err := lockDir(ctx, l, o.LockWait, o.Logger)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		options: o, layout: l, lock: lock,
		stopping: make(chan struct{}), done: make(chan struct{}), serving: make(chan struct{}),
	}
	if err := e.first(ctx); err != nil {
		_ = lock.Close()
		return nil, err
	}
	go e.supervise()
	return e, nil
}

// first chooses the ports for good and brings up the first process.
func (e *Engine) first(ctx context.Context) error {
	began := time.Now()
	var err error
	if e.addresses, err = choose(e.options.NativeAddr, e.options.HTTPAddr); err != nil {
		return err
	}
	if err := e.layout.write(e.options, e.addresses); err != nil {
		return err
	}
	if err := e.bringUp(ctx); err != nil {
		return err
	}
	e.options.Logger.Info().Stringer("engine", e.options.Location).Str("native", e.NativeAddr()).Str("http", e.HTTPAddr()).
		Int("pid", e.Pid()).Dur("took", time.Since(began)).Msg("ClickHouse engine is ready")
	return nil
}

// startTries is how many processes may die while the first one starts: one that
// was killed, by the system short of memory perhaps, is worth another, and one
// that cannot start says so soon.
const startTries = 4

// bringUp is run, again where the process dies before it answers.
func (e *Engine) bringUp(ctx context.Context) error {
	pause := firstBackoff
	for try := 1; ; try++ {
		err := e.run(ctx)
		if err == nil || !errors.Is(err, errExited) || ctx.Err() != nil {
			return err
		}
		if e.options.OnExit != nil {
			e.options.OnExit(err)
		}
		if try == startTries {
			return fmt.Errorf("%w; it was started %d times", err, startTries)
		}
		e.options.Logger.Warn().Err(err).Int("try", try).Int("of", startTries).Dur("next_try_in", pause).
			Msg("ClickHouse engine died while it was starting; it is being started again")
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
		pause *= 2
	}
}

// run starts one process and returns when it answers; if it does not, the
// process is gone when run returns.
func (e *Engine) run(ctx context.Context) error {
	c, err := launch(e.options, e.layout, e.lock)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.current = c
	e.mu.Unlock()
	if err := c.started(ctx, e.options, e.layout, e.addresses); err != nil {
		c.kill()
		return err
	}
	e.mu.Lock()
	close(e.serving)
	e.mu.Unlock()
	return nil
}

// NativeAddr is the "host:port" of the native protocol.
func (e *Engine) NativeAddr() string { return dial(e.addresses.native) }

// HTTPAddr is the "host:port" of the HTTP interface.
func (e *Engine) HTTPAddr() string { return dial(e.addresses.http) }

// DSN is a clickhouse-go address for user and database over the native
// protocol. An empty user is the owner, with the password; any other user's
// password is the caller's to add.
func (e *Engine) DSN(user, database string) string {
	u := url.URL{Scheme: "clickhouse", Host: e.NativeAddr(), Path: "/" + database, User: url.User(user)}
	if user == "" || user == e.options.User {
		u.User = url.User(e.options.User)
		if e.options.Password != "" {
			u.User = url.UserPassword(e.options.User, e.options.Password)
		}
	}
	return u.String()
}

// Pid is the engine's current process, 0 between two.
func (e *Engine) Pid() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == nil {
		return 0
	}
	return e.current.process.Pid
}

// Restarts counts the processes that ended unasked since Start.
func (e *Engine) Restarts() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.restarts
}

// Ready returns when the engine answers, which it does except while a process
// that died is being replaced. A death takes a moment to be noticed; OnExit says
// when it was.
func (e *Engine) Ready(ctx context.Context) error {
	e.mu.Lock()
	serving := e.serving
	e.mu.Unlock()
	select {
	case <-serving:
		return nil
	case <-e.done:
		return errors.New("the ClickHouse engine was stopped")
	case <-ctx.Done():
		return fmt.Errorf("the ClickHouse engine is not back yet: %w", context.Cause(ctx))
	}
}

// Done is closed when the engine was stopped and its process is gone.
func (e *Engine) Done() <-chan struct{} { return e.done }

// Stop ends the engine and returns when its process is gone: killed, if it takes
// longer than Options.StopLimit or than ctx allows. Close client pools first: the
// engine waits for open connections. Every further call waits for the first.
func (e *Engine) Stop(ctx context.Context) error {
	e.stopOnce.Do(func() {
		bounded, cancel := context.WithTimeoutCause(ctx, e.options.StopLimit,
			fmt.Errorf("stop limit %v", e.options.StopLimit))
		e.mu.Lock()
		e.stopCtx = bounded
		e.mu.Unlock()
		close(e.stopping)
		go func() { <-e.done; cancel() }()
	})
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopErr
}
