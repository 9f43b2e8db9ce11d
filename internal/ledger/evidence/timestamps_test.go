package evidence_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/digitorus/timestamp"

	"github.com/waybill-dev/waybill/internal/ledger/evidence"
)

// authority is a time stamping authority with a root of its own.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T, usage ...x509.ExtKeyUsage) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "tsa"},
		NotBefore: noon.AddDate(-10, 0, 0), NotAfter: noon.AddDate(100, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &authority{key, c}
}

func (a *authority) stamp(t *testing.T, note string) evidence.Timestamp {
	t.Helper()
	digest := sha256.Sum256([]byte(note))
	ts := timestamp.Timestamp{HashAlgorithm: crypto.SHA256, HashedMessage: digest[:], Time: noon.Add(time.Minute),
		SerialNumber: big.NewInt(1),
		Policy:       []int{1, 2, 3}, AddTSACertificate: true}
	response, err := ts.CreateResponseWithOpts(a.cert, a.key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := timestamp.ParseResponse(response)
	if err != nil {
		t.Fatal(err)
	}
	return evidence.Timestamp{Authority: "https://tsa.example", Token: parsed.RawToken}
}

func (a *authority) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func TestATimeStampVouchesForTheCheckpointsTime(t *testing.T) {
	l := newLog(t)
	l.tellSmall("e1")
	tsa, foreign, web := newAuthority(t, x509.ExtKeyUsageTimeStamping), newAuthority(t, x509.ExtKeyUsageTimeStamping),
		newAuthority(t, x509.ExtKeyUsageServerAuth)
	file := func(tokens ...evidence.Timestamp) []byte {
		f := l.file(subject("e1"))
		f.Checkpoint.Timestamps = tokens
		return f.Encode()
	}
	good := tsa.stamp(t, l.note(5, false)) // before the witness signed
	verify := func(b []byte, roots *x509.CertPool) *evidence.Report {
		return evidence.Verify(b, evidence.Options{Keys: []evidence.Key{l.key}, Roots: roots})
	}
	r := verify(file(good), tsa.roots())
	if !r.Proven || !strings.Contains(r.Claims[1].Text, "existed at 2026-11-02 12:01:00.000 UTC") ||
		strings.Contains(strings.Join(r.NotProven, ""), "When the checkpoint was signed") {
		t.Errorf("%+v %q %q", r.Claims, r.NotProven, r.Problems)
	}
	r = verify(file(good), nil)
	if !r.Proven || !strings.Contains(strings.Join(r.NotProven, ""), "give its root certificate with --timestamp-ca") {
		t.Errorf("without roots: %q %q", r.NotProven, r.Problems)
	}
	broken := good
	broken.Token = append([]byte(nil), good.Token...)
	broken.Token[len(broken.Token)-5] ^= 1
	for name, c := range map[string]struct {
		file  []byte
		roots *x509.CertPool
		want  string
	}{
		"another authority": {file(good), foreign.roots(), "no authority that the given roots vouch for"},
		"none":              {file(), tsa.roots(), "no authority that the given roots vouch for"},
		"a certificate for others": {file(web.stamp(t, l.note(5, false))), web.roots(),
			"no authority that the given roots vouch for"},
		"of another checkpoint": {file(tsa.stamp(t, l.note(4, false))), nil, "about something else"},
		"broken":                {file(broken), nil, "signature does not fit"},
		"no token":              {file(evidence.Timestamp{Authority: "x", Token: []byte("hello")}), nil, "cannot be read"},
	} {
		if r := verify(c.file, c.roots); r.Proven || !strings.Contains(strings.Join(r.Problems, "\n"), c.want) {
			t.Errorf("%s: proven %v, %q, want %q", name, r.Proven, r.Problems, c.want)
		}
	}
}
