package testkit

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"
)

// SMTP is a small real SMTP server on a free loopback port.
type SMTP struct {
	Implicit bool // TLS from the first byte
	// StartTLS, Auth: what it offers; User and Password are what it accepts.
	StartTLS, Auth bool
	User, Password string
	Reply          func(verb string) string // instead of its own answer, if not ""

	t   testing.TB
	l   net.Listener
	tls *tls.Config

	mu      sync.Mutex
	mails   []Mail
	lines   []string      // what clients said, with (tls) before those under TLS
	arrived chan struct{} // closed and replaced on each mail
}

// Mail is one that it took.
type Mail struct {
	From    string // the MAIL command
	To      []string
	Message *mail.Message
	Body    string    // decoded
	At      time.Time // when it was whole
}

// NewSMTP starts one that offers STARTTLS, and a login under TLS. It ends with
// the test.
func NewSMTP(t testing.TB, identity Pair, alter func(*SMTP)) *SMTP {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &SMTP{t: t, l: l, tls: &tls.Config{Certificates: []tls.Certificate{identity.TLS(t)},
		MinVersion: tls.VersionTLS12}, StartTLS: true, Auth: true,
		User: "waybill", Password: "correct horse", Reply: func(string) string { return "" }, arrived: make(chan struct{})}
	if alter != nil {
		alter(s)
	}
	if s.Implicit {
		s.l = tls.NewListener(l, s.tls)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := s.l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				stop := time.AfterFunc(20*time.Second, func() { c.Close() })
				defer stop.Stop()
				s.serve(c, s.Implicit)
			})
		}
	})
	t.Cleanup(func() { s.l.Close(); wg.Wait() })
	return s
}

// Port is where it listens.
func (s *SMTP) Port() int { return s.l.Addr().(*net.TCPAddr).Port }

// Close ends it: nobody listens any more.
func (s *SMTP) Close() { s.l.Close() }

// Mails are those that it took.
func (s *SMTP) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.mails...)
}

// Said is what clients said, a line each, with (tls) before those under TLS.
func (s *SMTP) Said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func (s *SMTP) serve(c net.Conn, encrypted bool) {
	r := bufio.NewReader(c)
	say := func(format string, args ...any) { fmt.Fprintf(c, format+"\r\n", args...) }
	if !encrypted || s.Implicit {
		say("220 test ESMTP")
	}
	authed := false
	var m Mail
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		verb := strings.ToUpper(strings.SplitN(line, " ", 2)[0])
		s.mu.Lock()
		s.lines = append(s.lines, map[bool]string{true: "(tls) ", false: ""}[encrypted]+line)
		s.mu.Unlock()
		if answer := s.Reply(verb); answer != "" {
			say("%s", answer)
			continue
		}
		switch verb {
		case "EHLO", "HELO":
			offers := []string{"test", "8BITMIME"}
			if s.StartTLS && !encrypted {
				offers = append(offers, "STARTTLS")
			}
			if s.Auth && encrypted {
				offers = append(offers, "AUTH PLAIN")
			}
			for i, o := range offers {
				say("250%s%s", map[bool]string{true: " ", false: "-"}[i == len(offers)-1], o)
			}
		case "STARTTLS":
			say("220 go ahead")
			conn := tls.Server(c, s.tls)
			s.serveTLS(conn)
			return
		case "AUTH":
			want := base64.StdEncoding.EncodeToString([]byte("\x00" + s.User + "\x00" + s.Password))
			if authed = line == "AUTH PLAIN "+want; authed {
				say("235 ok")
			} else {
				say("535 5.7.8 bad credentials for %s", s.Password)
			}
		case "MAIL":
			m = Mail{From: line}
			say("250 ok")
		case "RCPT":
			m.To = append(m.To, line)
			say("250 ok")
		case "DATA":
			say("354 go on")
			m.Message, m.Body = readMail(s.t, r)
			s.take(m)
			say("250 queued")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (s *SMTP) take(m Mail) {
	m.At = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, m)
	close(s.arrived)
	s.arrived = make(chan struct{})
}

// WaitFor waits until a mail satisfies a condition, and returns the first.
func (s *SMTP) WaitFor(t testing.TB, patience time.Duration, what string, cond func(Mail) bool) Mail {
	t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		arrived := s.arrived
		s.mu.Unlock()
		for _, m := range s.Mails() {
			if cond(m) {
				return m
			}
		}
		select {
		case <-arrived:
		case <-deadline:
			t.Fatalf("waited for %s; got %d mails; clients said:\n%s", what, len(s.Mails()), s.Said())
		}
	}
}

func (s *SMTP) serveTLS(c *tls.Conn) {
	if err := c.Handshake(); err != nil {
		return
	}
	s.serve(c, true)
}

func readMail(t testing.TB, r *bufio.Reader) (*mail.Message, string) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil || line == ".\r\n" {
			break
		}
		b.WriteString(strings.TrimPrefix(line, "."))
	}
	m, err := mail.ReadMessage(strings.NewReader(b.String()))
	if err != nil {
		t.Errorf("what was sent is no mail: %v", err)
		return nil, ""
	}
	text := m.Body
	if strings.EqualFold(m.Header.Get("Content-Transfer-Encoding"), "quoted-printable") {
		text = quotedprintable.NewReader(text)
	}
	body, err := io.ReadAll(text)
	if err != nil {
		t.Error(err)
	}
	return m, string(body)
}
