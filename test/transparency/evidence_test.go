package transparency

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// authority is OpenSSL as a time stamping authority, behind HTTP.
type authority struct {
	url  string
	root string // file with its root's certificate
}

const authorityConfig = `[tsa]
default_tsa = here
[here]
serial = %[1]s/serial
crypto_device = builtin
signer_cert = %[1]s/signer.crt
certs = %[1]s/root.crt
signer_key = %[1]s/signer.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ess_cert_id_alg = sha256
`

func newAuthority(t *testing.T) *authority {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	year := func(n int) time.Time { return time.Now().AddDate(n, 0, 0) }
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotBefore: year(-1),
		NotAfter: year(10),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	// RFC 3161 wants the purpose to be critical, and the only one.
	purpose, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	if err != nil {
		t.Fatal(err)
	}
	signer := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "tsa"}, NotBefore: year(-1),
		NotAfter: year(10), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: purpose}}}
	var keys [2]*ecdsa.PrivateKey
	for i := range keys {
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []*x509.Certificate{root, signer} {
		der, err := x509.CreateCertificate(rand.Reader, c, root, keys[i].Public(), keys[0])
		if err != nil {
			t.Fatal(err)
		}
		write([]string{"root.crt", "signer.crt"}[i], "CERTIFICATE", der)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	write("signer.key", "PRIVATE KEY", secret)
	for name, text := range map[string]string{"serial": "01\n", "tsa.cnf": fmt.Sprintf(authorityConfig, dir)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var one sync.Mutex // the serial number is a file
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one.Lock()
		defer one.Unlock()
		query, reply := filepath.Join(dir, "query.tsq"), filepath.Join(dir, "reply.tsr")
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = os.WriteFile(query, b, 0o600)
		}
		var out []byte
		if err == nil {
			out, err = exec.CommandContext(r.Context(), "openssl", "ts", "-reply", "-config", filepath.Join(dir, "tsa.cnf"),
				"-queryfile", query, "-out", reply).CombinedOutput()
		}
		if err == nil {
			b, err = os.ReadFile(reply)
		}
		if err != nil {
			t.Errorf("openssl as a time stamping authority: %v\n%s", err, out)
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/timestamp-reply")
		_, _ = w.Write(b)
	}))
	t.Cleanup(server.Close)
	return &authority{url: server.URL, root: filepath.Join(dir, "root.crt")}
}

// buildWaybill makes the command that people have.
func buildWaybill(t *testing.T) (run func(args ...string) (string, error)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "waybill")
	c := exec.Command("go", "build", "-o", path, "./cmd/waybill")
	c.Dir, c.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
		return string(out), err
	}
}

// Evidence that a witness of another project cosigned, and that OpenSSL stamped,
// is verified with nothing but the keys and the root.
//
//lint:long one story, told in order
func TestEvidenceHoldsTheCosignatureAndTheTimeStampOfOthers(t *testing.T) {
	l := newLog(t)
	tsa, stranger := newAuthority(t), newAuthority(t)
	l.timestamps = tsa.url
	witness, witnessKey, _ := newWitness(t, l, "one.witness.example")
	_, _, _ = newWitness(t, l, "two.witness.example") // which was not asked
	l.append(300)
	base := record.Record{At: noon, Tenant: "acme", EventID: "order-17", EventType: "order.paid"}
	accepted, owed, attempt := base, base, base
	accepted.Kind, accepted.ID, accepted.Endpoints = record.EventAccepted, "event.accepted/order-17", 1
	owed.Kind, owed.ID, owed.EndpointID = record.DeliveryOwed, "delivery.owed/order-17", "ep_1"
	attempt.Kind, attempt.ID, attempt.EndpointID, attempt.Attempt = record.Attempt, "att_17", "ep_1", 1
	attempt.StartedAt, attempt.Status, attempt.Outcome, attempt.Class, attempt.Decision = noon, 200, "response",
		"delivered", "delivered"
	l.state(accepted, owed, attempt)
	stop := l.follow(witness)
	l.fetch(303, l.verifier(), witnessKey)
	l.awaitSignature(ledger.TimestampSignature)
	stop()

	waybill := buildWaybill(t)
	file := filepath.Join(t.TempDir(), "order-17.json")
	if out, err := waybill("evidence", "export", "order-17", "--clickhouse", l.dsn, "--out", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	key := l.keys.List()[0].Verifier
	verify := func(file string, more ...string) (proven bool, out string) {
		t.Helper()
		out, err := waybill(append([]string{"evidence", "verify", file, "--key", key, "-o", "json"}, more...)...)
		var r struct{ Proven bool }
		if i := strings.LastIndex(out, "\n}"); i >= 0 { // what comes behind is standard error
			if e := json.Unmarshal([]byte(out[:i+2]), &r); e != nil {
				t.Fatalf("%v\n%s", e, out)
			}
		}
		if r.Proven != (err == nil) {
			t.Errorf("proven %v, and %v", r.Proven, err)
		}
		return r.Proven, out
	}
	one, two := l.witnesses["one.witness.example"], l.witnesses["two.witness.example"]
	proven, out := verify(file, "--witness-key", one, "--timestamp-ca", tsa.root)
	if !proven || strings.Contains(out, "When the checkpoint was signed") || strings.Count(out, `"verified": true`) != 2 {
		t.Errorf("proven %v: %s", proven, out)
	}
	if text, err := waybill("evidence", "verify", file, "--key", key, "--witness-key", one, "--timestamp-ca",
		tsa.root); err != nil || !strings.Contains(text, "PROVEN") || !strings.Contains(text, "one.witness.example") {
		t.Errorf("for people: %v\n%s", err, text)
	}
	for name, args := range map[string][]string{
		"a witness that did not sign":   {"--witness-key", two},
		"another authority's root":      {"--timestamp-ca", stranger.root},
		"both, and one of them another": {"--witness-key", one, "--timestamp-ca", stranger.root},
	} {
		if proven, out := verify(file, args...); proven {
			t.Errorf("%s: %s", name, out)
		}
	}

	// OpenSSL says the same of the token in the file.
	l.opensslAgrees(file, tsa)
}

func (l *log) awaitSignature(kind string) {
	l.t.Helper()
	deadline, tick := time.NewTimer(patience), time.NewTicker(20*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for {
		all, err := l.db.CheckpointSignatures(context.Background(), uint64(len(l.bodies)), uint64(len(l.bodies)))
		if err != nil {
			l.t.Fatal(err)
		}
		for _, s := range all {
			if s.Kind == kind {
				return
			}
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			l.t.Fatalf("no signature of kind %s: %+v", kind, all)
		}
	}
}

// opensslAgrees verifies the file's token over the note as we signed it.
func (l *log) opensslAgrees(file string, a *authority) {
	l.t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		l.t.Fatal(err)
	}
	var f struct {
		Checkpoint struct {
			Note       string `json:"note"`
			Timestamps []struct {
				Token []byte `json:"token"`
			} `json:"timestamps"`
		} `json:"checkpoint"`
	}
	if err := json.Unmarshal(b, &f); err != nil || len(f.Checkpoint.Timestamps) != 1 {
		l.t.Fatalf("%v: %d tokens in the file", err, len(f.Checkpoint.Timestamps))
	}
	// Cosignatures came later: the stamp is over the text and our own signature.
	text, sigs, _ := strings.Cut(f.Checkpoint.Note, "\n\n")
	var own bytes.Buffer
	own.WriteString(text + "\n\n")
	for _, line := range strings.SplitAfter(sigs, "\n") {
		if strings.HasPrefix(line, "— "+origin+" ") {
			own.WriteString(line)
		}
	}
	dir := l.t.TempDir()
	signed, token := filepath.Join(dir, "note"), filepath.Join(dir, "token.der")
	for path, b := range map[string][]byte{signed: own.Bytes(), token: f.Checkpoint.Timestamps[0].Token} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	if out, err := exec.Command("openssl", "ts", "-verify", "-data", signed, "-in", token, "-token_in", "-CAfile",
		a.root).CombinedOutput(); err != nil {
		l.t.Errorf("openssl does not agree: %v\n%s\n%s", err, out,
			base64.StdEncoding.EncodeToString(f.Checkpoint.Timestamps[0].Token))
	}
}
