package webhook

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
)

// HTTP/2 frame types and flags that the raw receiver below needs (RFC 9113).
const (
	frameData      = 0x0
	frameHeaders   = 0x1
	frameReset     = 0x3
	frameSettings  = 0x4
	frameGoAway    = 0x7
	flagEndStream  = 0x1
	flagAck        = 0x1
	codeProtocol   = 0x1
	codeRefused    = 0x7
	codeCancel     = 0x8
	codeCalm       = 0xb
	prefaceLength  = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	maxTestPayload = 1 << 20
)

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := make([]byte, 9, 9+len(payload))
	b[0], b[1], b[2] = byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload))
	b[3], b[4] = kind, flags
	binary.BigEndian.PutUint32(b[5:], stream)
	return append(b, payload...)
}

func uint32s(values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// serveH2 speaks just enough HTTP/2 to read requests. end is called when a request
// has arrived: whole, or only its headers when early. It returns whether to go on.
func serveH2(c net.Conn, early bool, requests *atomic.Int64, end func(c net.Conn, stream uint32) bool) {
	if _, err := io.ReadFull(c, make([]byte, prefaceLength)); err != nil {
		return
	}
	c.Write(frame(frameSettings, 0, 0, nil))
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		size := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
		if size > maxTestPayload {
			return
		}
		if _, err := io.ReadFull(c, make([]byte, size)); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		if kind == frameSettings && flags&flagAck == 0 {
			c.Write(frame(frameSettings, flagAck, 0, nil))
		}
		if kind == frameHeaders {
			requests.Add(1)
		}
		arrived := kind == frameHeaders && early || kind == frameData && !early && flags&flagEndStream != 0
		if arrived && !end(c, stream) {
			return
		}
	}
}

// TestHTTP2RequestsAreNeverSentAgain covers the ways in which an HTTP/2 receiver
// ends a request that it has seen; net/http repeats some of them by itself when it
// can rewind the body.
func TestHTTP2RequestsAreNeverSentAgain(t *testing.T) {
	reset := func(code uint32) func(net.Conn, uint32) bool {
		return func(c net.Conn, stream uint32) bool {
			c.Write(frame(frameReset, 0, stream, uint32s(code)))
			return true
		}
	}
	ends := map[string]func(net.Conn, uint32) bool{
		"REFUSED_STREAM":    reset(codeRefused),
		"PROTOCOL_ERROR":    reset(codeProtocol),
		"CANCEL":            reset(codeCancel),
		"ENHANCE_YOUR_CALM": reset(codeCalm),
		"GOAWAY that disowns it": func(c net.Conn,
			_ uint32) bool {
			c.Write(frame(frameGoAway, 0, 0, uint32s(0, 0)))
			return true
		},
		"GOAWAY with an error": func(c net.Conn,
			_ uint32) bool {
			c.Write(frame(frameGoAway, 0, 0, uint32s(0, codeCalm)))
			return true
		},
		"GOAWAY and a close": func(c net.Conn,
			_ uint32) bool {
			c.Write(frame(frameGoAway, 0, 0, uint32s(0, 0)))
			return false
		},
		"a close of the connection": func(net.Conn, uint32) bool { return false },
		"a frame that is no HTTP/2": func(c net.Conn,
			_ uint32) bool {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			return false
		},
		"a 200 for no such encoding": func(c net.Conn,
			s uint32) bool {
			c.Write(frame(frameHeaders, 0x5, s, []byte{0xff, 0xff}))
			return true
		},
	}
	before := runtime.NumGoroutine()
	for name, end := range ends {
		for when, early := range map[string]bool{"after its headers": true, "after its body": false} {
			t.Run(name+" "+when, func(t *testing.T) {
				var requests atomic.Int64
				addr, o := newTLSListener(t, "h2", func(c net.Conn) { serveH2(c, early, &requests, end) })
				res := try(t, newTestClient(t, o), post("https://"+addr, patient))
				if res.Class != outcome.ClassRetryable || res.Outcome == outcome.Timeout {
					t.Errorf("got %s %s", res.Outcome, res.Err)
				}
				if n := requests.Load(); n != 1 {
					t.Errorf("one attempt made %d requests (%s %s)", n, res.Outcome, res.Err)
				}
			})
		}
	}
	expectGoroutines(t, before)
}

func TestASilentHTTP2ReceiverTimesOut(t *testing.T) {
	var requests atomic.Int64
	addr, o := newTLSListener(t, "h2", func(c net.Conn) {
		serveH2(c, false, &requests, func(net.Conn, uint32) bool { return true })
	})
	res := try(t, newTestClient(t, o), post("https://"+addr, unhurried))
	if n := requests.Load(); res.Outcome != outcome.Timeout || n != 1 {
		t.Errorf("got %s %s after %d requests", res.Outcome, res.Err, n)
	}
}
