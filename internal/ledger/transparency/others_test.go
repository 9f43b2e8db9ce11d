package transparency_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/digitorus/timestamp"
	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/transparency"
)

// badWitness answers what it is told to, and signs when it is told nothing.
type badWitness struct {
	key    ed25519.PrivateKey
	vkey   string
	hash   []byte
	mu     sync.Mutex
	answer func(w http.ResponseWriter, text string) bool // true: answered
	asked  atomic.Int64
}

func (b *badWitness) say(answer func(w http.ResponseWriter, text string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

func newBadWitness(t *testing.T) (*badWitness, transparency.Witness) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := append([]byte{4}, public...)
	sum := sha256.Sum256(append([]byte("w.example\n"), key...))
	b := &badWitness{key: private, hash: sum[:4],
		vkey: fmt.Sprintf("w.example+%x+%s", sum[:4], base64.StdEncoding.EncodeToString(key))}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	w, err := transparency.ParseWitness(s.URL + "=" + b.vkey)
	if err != nil {
		t.Fatal(err)
	}
	return b, w
}

func (b *badWitness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	b.asked.Add(1)
	_, signed, _ := strings.Cut(string(body), "\n\n")
	text, _, _ := strings.Cut(signed, "\n\n")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answer != nil && b.answer(w, text+"\n") {
		return
	}
	fmt.Fprint(w, b.line(text+"\n"))
}

func (b *badWitness) line(text string) string {
	seconds := uint64(time.Now().Unix())
	signature := ed25519.Sign(b.key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, text))
	raw := append(binary.BigEndian.AppendUint64(append([]byte(nil), b.hash...), seconds), signature...)
	return checkpoint.Line(note.Signature{Name: "w.example", Base64: base64.StdEncoding.EncodeToString(raw)})
}

func (h *harness) cosignatures(size uint64) int {
	h.t.Helper()
	all, err := h.db.CheckpointSignatures(context.Background(), size, size)
	if err != nil {
		h.t.Fatal(err)
	}
	return len(all)
}

func TestAWitnessThatMisbehavesOrIsAwayDelaysNothingAndNothingOfItIsKept(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(b *badWitness, w http.ResponseWriter) bool{
		"it signs something else": func(b *badWitness, w http.ResponseWriter) bool {
			fmt.Fprint(w, b.line("another.example\n1\nAAAA\n"))
			return true
		},
		"it sends rubbish": func(_ *badWitness, w http.ResponseWriter) bool {
			fmt.Fprint(w, "— w.example AAAA\n\x00")
			return true
		},
		"it sends nothing":    func(*badWitness, http.ResponseWriter) bool { return true },
		"it answers 500":      func(_ *badWitness, w http.ResponseWriter) bool { w.WriteHeader(500); return true },
		"it does not know us": func(_ *badWitness, w http.ResponseWriter) bool { w.WriteHeader(404); return true },
		"it redirects elsewhere": func(_ *badWitness, w http.ResponseWriter) bool {
			w.Header().Set("Location", "/x")
			w.WriteHeader(302)
			return true
		},
		"it has a larger ledger": func(_ *badWitness, w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", "text/x.tlog.size")
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, "1000000\n")
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			b, w := newBadWitness(t)
			b.say(func(w http.ResponseWriter, _ string) bool { return answer(b, w) })
			r := h.start(h.db, func(o *transparency.Options) { o.Witnesses = []transparency.Witness{w} })
			for range 3 {
				r.Landed(h.append(100))
				h.waitSigned(len(h.leaves))
			}
			h.eventually("it was asked", func() bool {
				return b.asked.Load() > 0 &&
					strings.Contains(h.log.String(), "ledger_log.witness")
			})
			for _, size := range []uint64{100, 200, 300} {
				if n := h.cosignatures(size); n != 0 {
					t.Errorf("%d signatures of %d records are kept", n, size)
				}
			}
			h.check()
			// Once it behaves, it is asked again by itself.
			b.say(nil)
			h.eventually("it cosigned", func() bool { return h.cosignatures(300) == 1 })
		})
	}
}

func TestAWitnessIsNamedByURLAndKey(t *testing.T) {
	b, w := newBadWitness(t)
	if w.Key.Name() != "w.example" {
		t.Errorf("%+v", w)
	}
	log, verifier, err := checkpoint.Generate("log.example")
	if err != nil || log == "" {
		t.Fatal(err)
	}
	for _, text := range []string{"", "https://w.example", "https://w.example=", "ftp://w.example=" + b.vkey,
		"https://w.example?x=1=" + b.vkey, "w.example=" + b.vkey,
		"https://w.example=" + verifier, "https://w.example=" + b.vkey[:len(b.vkey)-6]} {
		if _, err := transparency.ParseWitness(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// authority is a time stamping authority of the library that reads its answers.
type authority struct {
	t        *testing.T
	key      *ecdsa.PrivateKey
	cert     *x509.Certificate
	asked    atomic.Int64
	mistaken atomic.Bool // it stamps something else
}

func newAuthority(t *testing.T) (*authority, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "TSA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageTimeStamping}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key, cert: cert}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	return a, s.URL
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	q, err := timestamp.ParseRequest(body)
	if err != nil || r.Header.Get("Content-Type") != "application/timestamp-query" {
		a.t.Errorf("request: %v", err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.asked.Add(1)
	message := q.HashedMessage
	if a.mistaken.Load() {
		message = make([]byte, len(message))
	}
	answer, err := (&timestamp.Timestamp{HashAlgorithm: q.HashAlgorithm, HashedMessage: message, Time: time.Now(),
		Nonce: q.Nonce, Policy: asn1.ObjectIdentifier{1, 2, 3},
		SerialNumber: big.NewInt(a.asked.Load()), AddTSACertificate: q.Certificates}).CreateResponseWithOpts(a.cert, a.key,
		crypto.SHA256)
	if err != nil {
		a.t.Error(err)
	}
	w.Header().Set("Content-Type", "application/timestamp-reply")
	_, _ = w.Write(answer)
}

func TestACheckpointIsTimestampedNowAndThen(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a, url := newAuthority(t)
	r := h.start(h.db, func(o *transparency.Options) { o.TimestampURL, o.TimestampEvery = url, time.Hour })
	r.Landed(h.append(10))
	c := h.waitSigned(10)
	h.eventually("a timestamp", func() bool { return h.cosignatures(10) == 1 })
	all, err := h.db.CheckpointSignatures(context.Background(), 10, 10)
	if err != nil || all[0].Kind != ledger.TimestampSignature || all[0].Signer != url {
		t.Fatalf("%+v, %v", all, err)
	}
	der, err := base64.StdEncoding.DecodeString(all[0].Signature)
	if err != nil {
		t.Fatal(err)
	}
	token, err := timestamp.Parse(der)
	digest := sha256.Sum256([]byte(c.Note))
	if err != nil || string(token.HashedMessage) != string(digest[:]) || time.Since(token.Time) > time.Hour {
		t.Errorf("token %+v, %v", token, err)
	}
	r.end()
	// The pause goes on over a restart.
	r = h.start(h.db, func(o *transparency.Options) { o.TimestampURL, o.TimestampEvery = url, time.Hour })
	r.Landed(h.append(10))
	h.waitSigned(20)
	r.end()
	if n := a.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestATimestampOfSomethingElseIsNotKept(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a, url := newAuthority(t)
	a.mistaken.Store(true)
	r := h.start(h.db, func(o *transparency.Options) { o.TimestampURL = url })
	r.Landed(h.append(10))
	h.waitSigned(10)
	h.eventually("it is said", func() bool { return strings.Contains(h.log.String(), "ledger_log.not_timestamped") })
	if h.cosignatures(10) != 0 {
		t.Error("a token for something else is kept")
	}
}
