package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/waybill-dev/waybill/internal/ledger/engine"
)

// TestNoClientCanKillTheEngine does what misbehaving clients do. Without the
// terminal that waybill-clickhouse gives the engine, several of these abort it.
func TestNoClientCanKillTheEngine(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Options{User: "owner", Password: "right"})
	big := "SELECT number, repeat('x', 1000) FROM numbers(10000000)"
	for _, abuse := range []struct {
		name string
		do   func(t *testing.T, e *engine.Engine)
	}{
		{"wrong password over native", func(t *testing.T, e *engine.Engine) {
			refused(t, e.NativeAddr(), clickhouse.Native, "owner", "wrong", "")
		}},
		{"wrong password over HTTP", func(t *testing.T,
			e *engine.Engine) {
			refused(t, e.HTTPAddr(), clickhouse.HTTP, "owner", "wrong", "")
		}},
		{"unknown user", func(t *testing.T, e *engine.Engine) {
			refused(t, e.NativeAddr(), clickhouse.Native, "nobody", "",
				"")
		}},
		{"unknown database", func(t *testing.T, e *engine.Engine) {
			refused(t, e.NativeAddr(), clickhouse.Native, "owner", "right", "nosuch")
		}},
		{"HTTP spoken to the native port", func(t *testing.T, e *engine.Engine) {
			converse(t, e.NativeAddr(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}},
		{"native spoken to the HTTP port", func(t *testing.T, e *engine.Engine) {
			converse(t, e.HTTPAddr(), "\x00\x01x\x01\x01\xaa\xa6\x03\x00\x01x\x00")
		}},
		{"garbage to the native port", func(t *testing.T,
			e *engine.Engine) {
			converse(t, e.NativeAddr(), "\x7fgarbage\x00\xff\xff")
		}},
		{"garbage to the HTTP port", func(t *testing.T,
			e *engine.Engine) {
			converse(t, e.HTTPAddr(), "\x7fgarbage\x00\xff\xff\r\n\r\n")
		}},
		{"a huge string length in the hello", func(t *testing.T, e *engine.Engine) {
			converse(t, e.NativeAddr(), "\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
		}},
		{"reset after connecting to native", func(t *testing.T, e *engine.Engine) { reset(dialTCP(t, e.NativeAddr(), "")) }},
		{"reset after connecting to HTTP", func(t *testing.T, e *engine.Engine) { reset(dialTCP(t, e.HTTPAddr(), "")) }},
		{"reset after half a hello", func(t *testing.T,
			e *engine.Engine) {
			reset(dialTCP(t, e.NativeAddr(), "\x00\x04ab"))
		}},
		{"close without a word", func(t *testing.T, e *engine.Engine) { _ = dialTCP(t, e.NativeAddr(), "").Close() }},
		{"reset in an HTTP result", func(t *testing.T, e *engine.Engine) {
			request := fmt.Sprintf("POST /?user=owner&password=right HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(big), big)
			conn := dialTCP(t, e.HTTPAddr(), request)
			status, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil || !strings.Contains(status, " 200 ") {
				t.Errorf("the result did not begin: %q, %v", status, err)
			}
			reset(conn)
		}},
		{"reset in an HTTP insert's body", func(t *testing.T, e *engine.Engine) {
			reset(dialTCP(t, e.HTTPAddr(), "POST /?user=owner&password=right&query=INSERT+INTO+FUNCTION+null('a+String')+FORMAT+TSV HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("row\n", 1000)))
		}},
		{"reset in a native result", func(t *testing.T, e *engine.Engine) {
			nativeReset(t, e, func(conn driver.Conn, kill func()) {
				rows, err := conn.Query(context.Background(), big)
				if err != nil || !rows.Next() {
					t.Errorf("the result did not begin: %v", err)
				}
				kill()
			})
		}},
		{"reset in a native insert", func(t *testing.T, e *engine.Engine) {
			nativeReset(t, e, func(conn driver.Conn, kill func()) {
				batch, err := conn.PrepareBatch(context.Background(), "INSERT INTO FUNCTION null('a String')")
				if err != nil {
					t.Fatal(err)
				}
				if err := batch.Append("x"); err != nil {
					t.Error(err)
				}
				kill()
			})
		}},
		{"more memory than allowed", func(t *testing.T, e *engine.Engine) {
			err := open(t, e.DSN("", "default")).Exec(context.Background(),
				"SELECT groupArray(repeat('x', 1000)) FROM numbers(10000000) SETTINGS max_memory_usage = 100000000")
			if err == nil || !strings.Contains(err.Error(), "memory limit") {
				t.Errorf("got %v", err)
			}
		}},
	} {
		t.Run(abuse.name, func(t *testing.T) {
			before := e.Pid()
			abuse.do(t, e)
			if err := open(t, e.DSN("", "default")).Ping(within(t, time.Minute)); err != nil {
				t.Errorf("no longer answers: %v", err)
			}
			if e.Pid() != before || e.Restarts() != 0 {
				t.Fatalf("the engine died: pid %d after %d, %d restarts", e.Pid(), before, e.Restarts())
			}
		})
	}
}

func refused(t *testing.T, addr string, protocol clickhouse.Protocol, user, password, database string) {
	t.Helper()
	conn, err := clickhouse.Open(&clickhouse.Options{Protocol: protocol, Addr: []string{addr},
		Auth: clickhouse.Auth{Username: user, Password: password, Database: database}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Ping(within(t, time.Minute)); err == nil {
		t.Error("was let in")
	}
}

func dialTCP(t *testing.T, addr, say string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, say); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// converse says something, and hears the engine out until it hangs up or has
// been silent for a moment; then it resets the connection.
func converse(t *testing.T, addr, say string) {
	t.Helper()
	conn := dialTCP(t, addr, say)
	defer reset(conn)
	if err := conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, conn)
}

func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

func nativeReset(t *testing.T, e *engine.Engine, do func(conn driver.Conn, kill func())) {
	t.Helper()
	options, err := clickhouse.ParseDSN(e.DSN("", "default"))
	if err != nil {
		t.Fatal(err)
	}
	var raw *net.TCPConn
	options.DialContext = func(ctx context.Context, addr string) (net.Conn, error) {
		raw = dialTCP(t, addr, "")
		return raw, nil
	}
	conn, err := clickhouse.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	do(conn, func() { reset(raw) })
}
