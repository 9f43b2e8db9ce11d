package evidence

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"strings"
	"time"

	"github.com/digitorus/pkcs7"
	"github.com/digitorus/timestamp"
)

// Stamp is what a token of RFC 3161 says.
type Stamp struct {
	Authority string    `json:"authority"` // as the ledger calls it
	At        time.Time `json:"at"`
	// Verified: a root that was given vouches for the authority.
	Verified bool `json:"verified"`
}

// timestamps checks that each token is about this checkpoint and signed; who
// signed it is known only with roots.
func (r *Report) timestamps(text string, sigs []signature, tokens []Timestamp, roots *x509.CertPool) {
	var stamped strings.Builder
	stamped.WriteString(text + "\n")
	for _, s := range sigs {
		if s.name == r.Origin {
			stamped.WriteString("— " + s.name + " " + s.base64 + "\n")
		}
	}
	digest := sha256.Sum256([]byte(stamped.String()))
	verified := false
	for _, t := range tokens {
		stamp, err := checkToken(t, digest[:], roots)
		if err != nil {
			r.wrong("the time stamp of %s: %v", t.Authority, err)
			continue
		}
		verified = verified || stamp.Verified
		r.Stamps = append(r.Stamps, stamp)
	}
	if roots != nil && !verified {
		r.wrong("no authority that the given roots vouch for has time stamped this checkpoint")
	}
}

func checkToken(t Timestamp, digest []byte, roots *x509.CertPool) (Stamp, error) {
	s := Stamp{Authority: t.Authority}
	token, err := timestamp.Parse(t.Token)
	if err != nil {
		return s, errors.Join(errors.New("it cannot be read, or its signature does not fit"), err)
	}
	if len(token.Certificates) == 0 {
		return s, errors.New("it names no certificate, so nobody can check its signature")
	}
	if token.HashAlgorithm != crypto.SHA256 || !bytes.Equal(token.HashedMessage, digest) {
		return s, errors.New("it is about something else than this checkpoint")
	}
	s.At = token.Time.UTC()
	if roots == nil {
		return s, nil
	}
	p, err := pkcs7.Parse(t.Token)
	if err != nil {
		return s, err
	}
	between := x509.NewCertPool()
	for _, c := range p.Certificates {
		between.AddCert(c)
	}
	s.Verified = p.VerifyWithOpts(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: token.Time,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageTimeStamping}}) == nil
	return s, nil
}
