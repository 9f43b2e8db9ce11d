package channel_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"
)

// authority is a certificate authority of the test's own.
type authority struct {
	Pool *x509.CertPool
	leaf tls.Certificate
}

func newAuthority(t testing.TB, hosts ...string) authority {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: hosts[0]}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), DNSNames: hosts, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	must(t, err)
	root, err := x509.ParseCertificate(caDER)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return authority{pool, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
}

// smtpServer is a small real SMTP server.
type smtpServer struct {
	t        testing.TB
	l        net.Listener
	tls      *tls.Config
	implicit bool
	// starttls, auth: what it offers; user and password are what it accepts.
	starttls, auth bool
	user, password string
	reply          func(verb string) string // instead of its own answer, if not ""

	mu    sync.Mutex
	mails []received
	lines []string // what clients said, with (tls) before those under TLS
}

type received struct {
	from string
	to   []string
	data *mail.Message
	body string
}

func newSMTP(t testing.TB, a authority, alter func(*smtpServer)) *smtpServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &smtpServer{t: t, l: l, tls: &tls.Config{Certificates: []tls.Certificate{a.leaf}}, starttls: true, auth: true,
		user: "waybill", password: "correct horse", reply: func(string) string { return "" }}
	if alter != nil {
		alter(s)
	}
	if s.implicit {
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
				s.serve(c, s.implicit)
			})
		}
	})
	t.Cleanup(func() { s.l.Close(); wg.Wait() })
	return s
}

func (s *smtpServer) port() int { return s.l.Addr().(*net.TCPAddr).Port }

func (s *smtpServer) got() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.mails...)
}

func (s *smtpServer) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func (s *smtpServer) serve(c net.Conn, encrypted bool) {
	r := bufio.NewReader(c)
	say := func(format string, args ...any) { fmt.Fprintf(c, format+"\r\n", args...) }
	if !encrypted || s.implicit {
		say("220 test ESMTP")
	}
	authed := false
	var m received
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
		if answer := s.reply(verb); answer != "" {
			say("%s", answer)
			continue
		}
		switch verb {
		case "EHLO", "HELO":
			offers := []string{"test", "8BITMIME"}
			if s.starttls && !encrypted {
				offers = append(offers, "STARTTLS")
			}
			if s.auth && encrypted {
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
			want := base64.StdEncoding.EncodeToString([]byte("\x00" + s.user + "\x00" + s.password))
			if authed = line == "AUTH PLAIN "+want; authed {
				say("235 ok")
			} else {
				say("535 5.7.8 bad credentials for %s", s.password)
			}
		case "MAIL":
			m = received{from: line}
			say("250 ok")
		case "RCPT":
			m.to = append(m.to, line)
			say("250 ok")
		case "DATA":
			say("354 go on")
			m.data, m.body = readMail(s.t, r)
			s.mu.Lock()
			s.mails = append(s.mails, m)
			s.mu.Unlock()
			say("250 queued")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (s *smtpServer) serveTLS(c *tls.Conn) {
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
	body, err := io.ReadAll(m.Body)
	if err != nil {
		t.Error(err)
	}
	return m, string(body)
}
