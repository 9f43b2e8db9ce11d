package stage

import (
	"context"
	"sync"
)

// Lane is where a message waits for its turn: an owner's lanes take turns, and
// owners take turns, however much waits in one of them.
type Lane struct{ Owner, Name string }

// fairQueue holds what was taken from a consumer and is not being handled yet.
// Within a lane it keeps the order.
type fairQueue[T any] struct {
	maxItems, maxBytes int

	mu     sync.Mutex // guards what follows
	owners []*laneOwner[T]
	byName map[string]*laneOwner[T]
	items  int
	bytes  int
	// filled has a token when something came, freed when something went.
	filled, freed chan struct{}
}

type laneOwner[T any] struct {
	name   string
	lanes  []*lane[T]
	byName map[string]*lane[T]
}

type lane[T any] struct {
	name  string
	items []waiting[T]
}

type waiting[T any] struct {
	item T
	size int
}

func newFairQueue[T any](maxItems, maxBytes int) *fairQueue[T] {
	return &fairQueue[T]{maxItems: maxItems, maxBytes: maxBytes, byName: map[string]*laneOwner[T]{},
		filled: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

// put adds an item of a size in bytes, and waits while the queue is full. It
// is false if ctx ended first. One goroutine puts.
func (q *fairQueue[T]) put(ctx context.Context, in Lane, item T, size int) bool {
	for !q.add(in, item, size) {
		select {
		case <-q.freed:
		case <-ctx.Done():
			return false
		}
	}
	signal(q.filled)
	return true
}

func (q *fairQueue[T]) add(in Lane, item T, size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.items > 0 && (q.items >= q.maxItems || q.bytes+size > q.maxBytes) {
		return false
	}
	o := q.byName[in.Owner]
	if o == nil {
		o = &laneOwner[T]{name: in.Owner, byName: map[string]*lane[T]{}}
		q.byName[in.Owner], q.owners = o, append(q.owners, o)
	}
	l := o.byName[in.Name]
	if l == nil {
		l = &lane[T]{name: in.Name}
		o.byName[in.Name], o.lanes = l, append(o.lanes, l)
	}
	l.items = append(l.items, waiting[T]{item, size})
	q.items, q.bytes = q.items+1, q.bytes+size
	return true
}

// next takes the item whose turn it is, and waits for one. It is false if ctx
// ended first. One goroutine takes.
func (q *fairQueue[T]) next(ctx context.Context) (item T, ok bool) {
	for {
		if item, ok = q.pop(); ok {
			signal(q.freed)
			return item, true
		}
		select {
		case <-q.filled:
		case <-ctx.Done():
			return item, false
		}
	}
}

// pop takes the item whose turn it is, if there is one.
func (q *fairQueue[T]) pop() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.items == 0 {
		return item, false
	}
	o := q.owners[0]
	l := o.lanes[0]
	w := l.items[0]
	l.items[0] = waiting[T]{} // let go of it
	l.items = l.items[1:]
	q.items, q.bytes = q.items-1, q.bytes-w.size
	// Whoever had a turn goes to the end, or away when nothing is left.
	if o.lanes = o.lanes[1:]; len(l.items) > 0 {
		o.lanes = append(o.lanes, l)
	} else {
		delete(o.byName, l.name)
	}
	if q.owners = q.owners[1:]; len(o.lanes) > 0 {
		q.owners = append(q.owners, o)
	} else {
		delete(q.byName, o.name)
	}
	return w.item, true
}

// len counts what waits.
func (q *fairQueue[T]) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.items
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is there already
	}
}
