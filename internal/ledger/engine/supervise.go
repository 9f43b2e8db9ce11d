package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// supervise replaces the process each time it dies, until Stop. It alone starts
// processes after the first, and it alone closes done.
func (e *Engine) supervise() {
	defer close(e.done)
	defer e.lock.Close()
	backoff := time.Duration(0)
	for {
		e.mu.Lock()
		c := e.current
		e.mu.Unlock()
		began := time.Now()
		if !e.attend(c) {
			e.finish(c)
			return
		}
		_ = c.lifetime.Close()
		if time.Since(began) > settled {
			backoff = 0
		}
		e.noteExit(c)
		if !e.replace(&backoff) {
			return
		}
	}
}

const (
	// portsPoll is how often the ports are looked at, and portsMisses how often
	// in a row one must refuse: a server that is busy takes connections all the same.
	portsPoll   = time.Second
	portsMisses = 3
)

// attend returns true when the process is gone, and false when Stop came. A
// process that lives and has closed a port is killed: user "default" opens the
// ports and so could close them, and must not be able to for long.
func (e *Engine) attend(c *child) bool {
	poll := time.NewTicker(portsPoll)
	defer poll.Stop()
	refused := 0
	for {
		select {
		case <-e.stopping:
			return false
		case <-c.exited:
			return true
		case <-poll.C:
			if refused++; !e.refuses() {
				refused = 0
			}
			if refused >= portsMisses {
				e.options.Logger.Error().Str("native", e.NativeAddr()).Str("http", e.HTTPAddr()).
					Msg("ClickHouse engine has closed a port; it is being restarted")
				c.kill()
			}
		}
	}
}

// refuses says whether one of the ports takes no connections.
func (e *Engine) refuses() bool {
	for _, addr := range []string{e.NativeAddr(), e.HTTPAddr()} {
		conn, err := net.DialTimeout("tcp", addr, portsPoll)
		if err == nil {
			_ = conn.Close()
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return true
		}
	}
	return false
}

func (e *Engine) finish(c *child) {
	e.mu.Lock()
	ctx := e.stopCtx
	e.mu.Unlock()
	err := c.stop(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current, e.serving, e.stopErr = nil, make(chan struct{}), err
}

func (e *Engine) noteExit(c *child) {
	e.mu.Lock()
	e.current, e.serving = nil, make(chan struct{})
	e.restarts++
	restarts := e.restarts
	e.mu.Unlock()
	e.options.Logger.Error().AnErr("cause", c.exitErr).Int("restarts", restarts).Str("last_words", c.lastOutput()).
		Msg("ClickHouse engine died; it is being restarted on the same ports")
	if e.options.OnExit != nil {
		e.options.OnExit(c.exitErr)
	}
}

// replace tries until a new process serves, which it reports, or Stop comes.
func (e *Engine) replace(backoff *time.Duration) bool {
	for {
		pause := time.NewTimer(*backoff)
		select {
		case <-e.stopping:
			pause.Stop()
			return false
		case <-pause.C:
		}
		*backoff = min(max(2**backoff, firstBackoff), maxBackoff)
		began := time.Now()
		err := e.again()
		if err == nil {
			e.options.Logger.Info().Int("pid", e.Pid()).Dur("took", time.Since(began)).Msg("ClickHouse engine is back")
			return true
		}
		e.mu.Lock()
		e.current = nil
		e.mu.Unlock()
		select {
		case <-e.stopping: // the failure is our own doing
			return false
		default:
			e.options.Logger.Error().Err(err).Dur("next_try_in", *backoff).Msg("ClickHouse engine did not restart")
		}
	}
}

// again is run on the ports already chosen; Stop interrupts it.
func (e *Engine) again() error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case <-e.stopping:
			cancel(fmt.Errorf("stopped"))
		case <-ctx.Done():
		}
	}()
	// Says who is at fault when another process took the port meanwhile.
	if _, err := choose(e.addresses.native.String(), e.addresses.http.String()); err != nil {
		return err
	}
	if err := e.layout.write(e.options, e.addresses); err != nil {
		return err
	}
	return e.run(ctx)
}
