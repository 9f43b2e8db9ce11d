package stage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// maxClosed is how long a message waits for a lane's owner that takes none. What
// has a deadline must not wait unseen, so then it is handled anyway.
const maxClosed = 5 * time.Second

// Lane is where a message waits for its turn: an owner's lanes take turns, and
// owners take turns, however much waits in one of them.
type Lane struct{ Owner, Name string }

// fairQueue holds what was taken from a consumer and is not being handled yet.
// Within a lane it keeps the order.
type fairQueue[T any] struct {
	maxItems, maxBytes int
	// open says whether an owner's next message may be handled. nil: always.
	open func(owner string) bool

	mu     sync.Mutex // guards what follows
	owners []*laneOwner[T]
	byName map[string]*laneOwner[T]
	// closed are the owners that take none: they have no turn until opened is
	// called, or the queue is half full, or too much time has passed.
	closed map[string]*laneOwner[T]
	items  int
	bytes  int
	// filled has a token when something came, freed when something went.
	filled, freed chan struct{}
	anyClosed     atomic.Bool
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
	at   time.Time
}

func newFairQueue[T any](maxItems, maxBytes int, open func(owner string) bool) *fairQueue[T] {
	return &fairQueue[T]{maxItems: maxItems, maxBytes: maxBytes, open: open,
		byName: map[string]*laneOwner[T]{}, closed: map[string]*laneOwner[T]{},
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
	l.items = append(l.items, waiting[T]{item, size, time.Now()})
	q.items, q.bytes = q.items+1, q.bytes+size
	if q.crowded() {
		q.openAll()
	}
	return true
}

// crowded says that others may soon find no room, so that nothing may wait for
// an owner that takes none. q.mu is held.
func (q *fairQueue[T]) crowded() bool { return q.items > q.maxItems/2 || q.bytes > q.maxBytes/2 }

// opened gives an owner turns again that took none.
func (q *fairQueue[T]) opened(owner string) {
	if !q.anyClosed.Load() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if o := q.closed[owner]; o != nil {
		delete(q.closed, owner)
		q.owners = append(q.owners, o)
		q.anyClosed.Store(len(q.closed) > 0)
		signal(q.filled)
	}
}

// recheck asks all that took none again.
func (q *fairQueue[T]) recheck() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.openAll()
}

// openAll gives all owners turns again. q.mu is held.
func (q *fairQueue[T]) openAll() {
	if len(q.closed) == 0 {
		return
	}
	for name, o := range q.closed {
		delete(q.closed, name)
		q.owners = append(q.owners, o)
	}
	q.anyClosed.Store(false)
	signal(q.filled)
}

// takesNone says whether o must be passed over. q.mu is held.
func (q *fairQueue[T]) takesNone(o *laneOwner[T]) bool {
	return q.open != nil && !q.crowded() && !q.open(o.name) && time.Since(o.lanes[0].items[0].at) < maxClosed
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
	for len(q.owners) > 0 && q.takesNone(q.owners[0]) {
		q.closed[q.owners[0].name] = q.owners[0]
		q.owners = q.owners[1:]
		q.anyClosed.Store(true)
	}
	if len(q.owners) == 0 {
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

// empty takes all that waits.
func (q *fairQueue[T]) empty() (all []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range q.byName {
		for _, l := range o.lanes {
			for _, w := range l.items {
				all = append(all, w.item)
			}
		}
	}
	q.owners, q.items, q.bytes = nil, 0, 0
	clear(q.byName)
	clear(q.closed)
	return all
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
