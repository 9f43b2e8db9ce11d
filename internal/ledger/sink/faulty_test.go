package sink_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/sink"
)

// errInjected is what an injected fault looks like: a broken connection.
var errInjected = fmt.Errorf("injected: %w", ledger.ErrUnavailable)

// errKilled is what a process sees of the world after its death: nothing.
var errKilled = errors.New("this process is dead")

// faulty is the real ledger with faults in it.
type faulty struct {
	sink.Ledger
	// before and after are asked around each call; an error takes the call's place.
	before, after func(call string) error
	// appended sees the rows of every Append that is passed on.
	appended func(rows []ledger.Row)

	mu    sync.Mutex // guards what follows
	last  uint64
	waits map[uint64]chan struct{}
}

// reached is closed once a read has shown n records.
func (f *faulty) reached(n uint64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waits == nil {
		f.waits = map[uint64]chan struct{}{}
	}
	c, ok := f.waits[n]
	if !ok {
		c = make(chan struct{})
		f.waits[n] = c
		if f.last >= n {
			close(c)
		}
	}
	return c
}

func (f *faulty) saw(next uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, c := range f.waits {
		if f.last < n && next >= n {
			close(c)
		}
	}
	f.last = max(f.last, next)
}

func (f *faulty) around(call string, do func() error) error {
	if f.before != nil {
		if err := f.before(call); err != nil {
			return err
		}
	}
	err := do()
	if f.after != nil && err == nil {
		err = f.after(call)
	}
	return err
}

func (f *faulty) Migrate(ctx context.Context) error {
	return f.around("Migrate", func() error { return f.Ledger.Migrate(ctx) })
}

func (f *faulty) Position(ctx context.Context) (p ledger.Position, err error) {
	err = f.around("Position", func() error { p, err = f.Ledger.Position(ctx); return err })
	if err == nil {
		f.saw(p.Next)
	}
	return p, err
}

func (f *faulty) Last(ctx context.Context) (p ledger.Position, err error) {
	err = f.around("Last", func() error { p, err = f.Ledger.Last(ctx); return err })
	if err == nil {
		f.saw(p.Next)
	}
	return p, err
}

func (f *faulty) Append(ctx context.Context, rows []ledger.Row) error {
	return f.around("Append", func() error {
		if f.appended != nil {
			f.appended(rows)
		}
		return f.Ledger.Append(ctx, rows)
	})
}

func (f *faulty) IDs(ctx context.Context, from uint64, yield func(ledger.Digest)) error {
	return f.around("IDs", func() error { return f.Ledger.IDs(ctx, from, yield) })
}

func (f *faulty) Turned(ctx context.Context, from uint64, epoch int64) (turned bool, err error) {
	err = f.around("Turned", func() error { turned, err = f.Ledger.Turned(ctx, from, epoch); return err })
	return turned, err
}
