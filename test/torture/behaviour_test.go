package torture_test

import (
	"fmt"
	"hash/fnv"
	"net"
	"strings"
	"time"
)

// answer sends a status and keeps the connection.
func answer(status string, headers ...string) behaviour {
	return func(c call) bool {
		text := "HTTP/1.1 " + status + "\r\n"
		for _, h := range headers {
			text += h + "\r\n"
		}
		if !strings.HasPrefix(status, "204") && !strings.HasPrefix(status, "1") {
			text += "Content-Length: 2\r\n\r\nno"
		} else {
			text += "\r\n"
		}
		return send(c.conn, text)
	}
}

var good = answer("204 No Content")

func send(c net.Conn, text string) bool {
	_, err := c.Write([]byte(text))
	return err == nil
}

// until misbehaves up to an attempt, and is good from then on.
func until(attempt int, bad behaviour) behaviour {
	return func(c call) bool {
		if c.attempt < attempt {
			return bad(c)
		}
		return good(c)
	}
}

// sometimes misbehaves for a share (in a hundred) of the attempts. Which ones
// follows from event and number, so that a run repeats.
func sometimes(percent uint64, bad behaviour) behaviour {
	return func(c call) bool {
		if chance(c, 100) < percent {
			return bad(c)
		}
		return good(c)
	}
}

func chance(c call, n uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", c.event, c.attempt)
	return h.Sum64() >> 8 % n
}

// oneOf picks a behaviour for each attempt.
func oneOf(all ...behaviour) behaviour {
	return func(c call) bool { return all[chance(c, uint64(len(all)))](c) }
}

// hang answers nothing until the other side gives up.
func hang(c call) bool {
	_, _ = c.conn.Read(make([]byte, 1))
	return false
}

// drip sends an answer that never ends, a byte at a time.
func drip(c call) bool {
	for _, b := range []byte("HTTP/1.1 200 OK\r\nX-Slow: " + strings.Repeat("z", 1000)) {
		if !send(c.conn, string(b)) {
			return false
		}
		pause := time.NewTimer(20 * time.Millisecond)
		<-pause.C
	}
	return false
}

// reset breaks the connection in the middle of the answer.
func reset(c call) bool {
	send(c.conn, "HTTP/1.1 200 OK\r\nContent-Le")
	if tcp, ok := c.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return false
}

// hangUp closes the connection without an answer.
func hangUp(call) bool { return false }

// endless sends a body that never ends.
func endless(c call) bool {
	send(c.conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	for send(c.conn, "1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n") {
	}
	return false
}

// cutBody promises more than it sends.
func cutBody(c call) bool {
	send(c.conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
	return false
}

// hugeHeaders sends headers beyond any limit.
func hugeHeaders(c call) bool {
	send(c.conn, "HTTP/1.1 200 OK\r\n")
	for range 4000 {
		if !send(c.conn, "X-Huge: "+strings.Repeat("h", 1000)+"\r\n") {
			return false
		}
	}
	send(c.conn, "\r\n")
	return false
}

// interim sends informational answers only, and then hangs up.
func interim(c call) bool {
	for range 3 {
		send(c.conn, "HTTP/1.1 102 Processing\r\n\r\n")
	}
	return false
}

// interimFirst sends an informational answer before the real one.
func interimFirst(c call) bool {
	send(c.conn, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
	return good(c)
}

func garbage(c call) bool {
	send(c.conn, "220 mail.example.com ESMTP\r\n")
	return false
}

// goodbye is good, and closes the connection without saying so before: the next
// request on it may get lost.
func goodbye(c call) bool {
	good(c)
	return false
}

// slow takes its time, within the limit.
func slow(c call) bool {
	pause := time.NewTimer(150 * time.Millisecond)
	<-pause.C
	return good(c)
}
