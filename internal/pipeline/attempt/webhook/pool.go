package webhook

import (
	"container/list"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/registry"
)

// maxIdentities bounds the endpoints with connections of their own that are
// kept ready. One more costs a handshake, not a delivery.
const maxIdentities = 1024

var errRetired = errors.New("the endpoint's connections were closed")

// pool keeps the transports of endpoints that connect in a way of their own:
// with a client certificate, private issuers, or a proxy. Each has its own, so
// no request can get onto a connection of another identity; a transport whose
// endpoint changed is retired, and its connections are closed once the attempts
// on them have ended.
type pool struct {
	make func(via *registry.Connection, own *connections, http1 bool) (*http.Transport, error)
	most int
	idle time.Duration

	mu     sync.Mutex
	by     map[string]*identity // by owner
	recent *list.List           // of *identity, the most recently used first
}

// identity is one owner's transport.
type identity struct {
	owner, id string
	transport *http.Transport
	conns     *connections
	place     *list.Element

	users   int // attempts under way
	retired bool
	used    time.Time
}

func newPool(o Options, most int) *pool {
	return &pool{most: most, idle: o.IdleTimeout, by: map[string]*identity{}, recent: list.New(),
		make: func(via *registry.Connection, own *connections, http1 bool) (*http.Transport, error) {
			return newTransport(o, via, own, http1)
		}}
}

// acquire returns the owner's transport, made anew when it connects differently
// than before. release MUST follow.
func (p *pool) acquire(owner string, via *registry.Connection, http1 bool) (*identity, error) {
	id := via.ID
	if http1 {
		id += " http/1.1"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.by[owner]
	if e != nil && e.id != id {
		p.retire(e)
		e = nil
	}
	if e == nil {
		own := &connections{all: map[*countingConn]struct{}{}}
		t, err := p.make(via, own, http1)
		if err != nil {
			return nil, err
		}
		e = &identity{owner: owner, id: id, transport: t, conns: own}
		e.place = p.recent.PushFront(e)
		p.by[owner] = e
	}
	e.users++
	e.used = time.Now()
	p.recent.MoveToFront(e.place)
	p.shrink()
	return e, nil
}

// shrink retires what is over the bound, and what nobody has used for long.
func (p *pool) shrink() {
	for back := p.recent.Back(); back != nil; back = p.recent.Back() {
		e := back.Value.(*identity)
		unused := e.users == 0 && time.Since(e.used) > p.idle
		if p.recent.Len() <= p.most && !unused {
			return
		}
		p.retire(e)
	}
}

// retire takes a transport out of the pool. Attempts on it go on.
func (p *pool) retire(e *identity) {
	p.recent.Remove(e.place)
	delete(p.by, e.owner)
	e.retired = true
	if e.users == 0 {
		e.conns.close()
	}
}

func (p *pool) release(e *identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	if e.retired && e.users == 0 {
		e.conns.close()
	}
}

// close retires all.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.by {
		p.retire(e)
	}
}

// connections are all those of one transport, also ones that net/http is still
// opening when nobody waits for them any more. A nil one keeps track of nothing.
type connections struct {
	mu     sync.Mutex
	all    map[*countingConn]struct{}
	closed bool
}

func (o *connections) add(c *countingConn) (net.Conn, error) {
	if o == nil {
		return c, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		_ = c.Conn.Close()
		return nil, errRetired
	}
	c.own = o
	o.all[c] = struct{}{}
	return c, nil
}

func (o *connections) remove(c *countingConn) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, c)
}

func (o *connections) close() {
	o.mu.Lock()
	all := o.all
	o.all, o.closed = nil, true
	o.mu.Unlock()
	for c := range all {
		_ = c.Conn.Close()
	}
}
