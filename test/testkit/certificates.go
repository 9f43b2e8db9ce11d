package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// CA issues certificates for tests.
type CA struct {
	PEM  string
	Cert *x509.Certificate

	t   testing.TB
	key *ecdsa.PrivateKey
}

// Pair is a certificate with its private key, both PEM.
type Pair struct{ Cert, Key string }

// NewCA makes an issuer of its own.
func NewCA(t testing.TB, name string) *CA {
	t.Helper()
	ca := &CA{t: t, key: newECDSA(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0)}
	ca.Cert = sign(t, template, template, &ca.key.PublicKey, ca.key)
	ca.PEM = certificatePEM(ca.Cert)
	return ca
}

// Server issues a certificate for 127.0.0.1 and localhost.
func (ca *CA) Server(until time.Time) Pair {
	return ca.issue("receiver", x509.ExtKeyUsageServerAuth, until)
}

// Client issues a certificate for a client of this name.
func (ca *CA) Client(name string, until time.Time) Pair {
	return ca.issue(name, x509.ExtKeyUsageClientAuth, until)
}

// Pool holds this issuer alone.
func (ca *CA) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(ca.Cert)
	return p
}

// TLS is the pair as crypto/tls takes it.
func (p Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair([]byte(p.Cert), []byte(p.Key))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (ca *CA) issue(name string, use x509.ExtKeyUsage, until time.Time) Pair {
	ca.t.Helper()
	key := newECDSA(ca.t)
	cert := sign(ca.t, &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:  pkix.Name{CommonName: name},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: until}, ca.Cert, &key.PublicKey, ca.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	return Pair{certificatePEM(cert), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))}
}

func newECDSA(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, public *ecdsa.PublicKey,
	key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func certificatePEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}
