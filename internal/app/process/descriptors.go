package process

import (
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

const (
	// connectionsMost is how many connections one listener holds at once.
	connectionsMost = 4096
	// connectionsShare of the open files that a process may have is what one
	// listener gets. With an API and NATS half is left for the store's files, the
	// ledger's connections and those to receivers.
	connectionsShare = 4
	// fewDescriptors is where a limit is so small that it may be felt.
	fewDescriptors = 4096
)

// Descriptors is how many files and connections this process may have open. Go
// raises the soft limit to the hard one when it starts.
func Descriptors() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fewDescriptors
	}
	return l.Cur
}

// MostConnections is how many connections a listener of this process may hold:
// so few that they never take the files that the store needs.
func MostConnections() int { return mostConnections(Descriptors()) }

func mostConnections(descriptors uint64) int {
	return int(min(connectionsMost, max(1, descriptors/connectionsShare)))
}

// WarnFewDescriptors says so where the limit of open files is small.
func WarnFewDescriptors(log zerolog.Logger) {
	if n := Descriptors(); n < fewDescriptors {
		log.Warn().Uint64("open_files", n).Int("connections", mostConnections(n)).
			Msg("this process may open few files, so each listener takes few connections; raise the limit (ulimit -n, or " +
				"LimitNOFILE of the service)")
	}
}

// bounded is a listener that holds so many connections at once. Further ones
// wait, unaccepted, until one ends.
type bounded struct {
	net.Listener
	full   func() // called, again and again, while nothing more is accepted
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

// serveBounded answers on l with at most so many connections. When they are all
// taken, those on which nothing is asked end: idle ones, and ones that have not
// sent a request within some seconds.
func serveBounded(s *http.Server, l net.Listener, most int) error {
	return s.Serve(&bounded{Listener: l, slots: make(chan struct{}, most), closed: make(chan struct{}), full: func() {
		s.SetKeepAlivesEnabled(false) // which closes them
		s.SetKeepAlivesEnabled(true)
	}})
}

// fullEvery is the pause between two looks for connections that may end.
const fullEvery = 500 * time.Millisecond

func (b *bounded) slot() bool {
	select {
	case b.slots <- struct{}{}:
		return true
	default:
	}
	t := time.NewTicker(fullEvery)
	defer t.Stop()
	for {
		b.full()
		select {
		case b.slots <- struct{}{}:
			return true
		case <-b.closed:
			return false
		case <-t.C:
		}
	}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	if !b.slot() {
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &boundedConn{Conn: c, release: sync.OnceFunc(func() { <-b.slots })}, nil
}

// Close implements net.Listener.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

type boundedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
