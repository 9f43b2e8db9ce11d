package process

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// However many connections somebody holds, a listener takes no more files than
// its share, and whoever asks something is answered.
func TestIdleConnectionsTakeNeitherTheFilesNorTheAnswers(t *testing.T) {
	t.Parallel()
	const most = 4
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	files := &counting{Listener: l}
	s := newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	ended := make(chan error, 1)
	go func() { ended <- serveBounded(s, files, most) }()
	t.Cleanup(func() { _ = s.Close(); <-ended })

	ask := func(c net.Conn) error {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 512))
		return err
	}
	for i := range 2 * most { // each asks once, and stays
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := ask(c); err != nil {
			t.Fatalf("connection %d is not answered: %v", i, err)
		}
	}
	for range 2 * most { // these say nothing at all
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := ask(c); err != nil {
		t.Errorf("beside silent connections nobody is answered: %v", err)
	}
	if got := files.most.Load(); got > most {
		t.Errorf("%d connections at once, want at most %d", got, most)
	}
}

// counting counts the connections that are open.
type counting struct {
	net.Listener
	open, most atomic.Int64
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.most.Store(max(l.most.Load(), l.open.Add(1))) // one goroutine accepts
	return &countedConn{Conn: c, ended: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
}

type countedConn struct {
	net.Conn
	ended func()
}

func (c *countedConn) Close() error {
	c.ended()
	return c.Conn.Close()
}

func TestAListenerLeavesFilesForTheStore(t *testing.T) {
	for descriptors, want := range map[uint64]int{256: 64, 1024: 256, 20_000: 4096, 1 << 20: 4096, 2: 1} {
		if got := mostConnections(descriptors); got != want {
			t.Errorf("of %d open files a listener gets %d, want %d", descriptors, got, want)
		}
	}
}
