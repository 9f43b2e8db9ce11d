package envelope

import (
	"crypto/ed25519"
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// DefaultTolerance is how far a request's timestamp may be from the receiver's
// clock, either way. It bounds how long a captured request can be sent again.
const DefaultTolerance = 5 * time.Minute

// maxUnixDigits keeps a timestamp where adding to it cannot overflow; 12 digits
// last past the year 30,000.
const maxUnixDigits = 12

// What Verify returns; test with errors.Is. A receiver answers 400 to all but
// ErrNoKeys, which is its own fault.
var (
	ErrNoKeys           = errors.New("no keys to sign or verify with; pass at least one")
	ErrMissingHeader    = errors.New("missing header")
	ErrRepeatedHeader   = errors.New("header given more than once")
	ErrBadTimestamp     = errors.New("not a Unix time in whole seconds")
	ErrOutsideTolerance = errors.New("timestamp outside the tolerance")
	ErrNoMatch          = errors.New("no signature matches")
)

// Verifier checks requests for a receiver. It is safe for concurrent use as
// long as its fields are left alone.
type Verifier struct {
	// Keys that are good now: during a rotation the old and the new. All of
	// one family, as for Sign; public keys will do.
	Keys []Key

	// SignatureHeader is the header's name for SchemeTimestamped. Optional:
	// DefaultTimestampedHeader. The other schemes use webhook-signature.
	SignatureHeader string

	// Tolerance, both ways. Optional: DefaultTolerance.
	Tolerance time.Duration

	// Now is the clock. Optional: time.Now.
	Now func() time.Time
}

// NewVerifier makes a Verifier for Standard Webhooks signatures from the
// secrets or public keys ("whsec_…", "whpk_…") that are good now.
func NewVerifier(secrets ...string) (*Verifier, error) {
	v := &Verifier{}
	for _, s := range secrets {
		k, err := ParseSecret(s)
		if err != nil {
			return nil, err
		}
		v.Keys = append(v.Keys, k)
	}
	if len(v.Keys) == 0 {
		return nil, ErrNoKeys
	}
	return v, nil
}

// NewTimestampedVerifier makes a Verifier for SchemeTimestamped signatures in
// this header, from the "whsec_…" secrets that are good now.
func NewTimestampedVerifier(signatureHeader string, secrets ...string) (*Verifier, error) {
	v := &Verifier{SignatureHeader: signatureHeader}
	for _, s := range secrets {
		k, err := ParseSecretFor(SchemeTimestamped, s)
		if err != nil {
			return nil, err
		}
		v.Keys = append(v.Keys, k)
	}
	if len(v.Keys) == 0 {
		return nil, ErrNoKeys
	}
	return v, nil
}

// Verify returns nil if one of the keys signed this body, which must be the
// raw bytes as received, under these headers, and the signed time is within
// the tolerance.
//
// In the timestamped scheme no header but the signature's is covered: take the
// event's id from the body, not from webhook-id.
func (v *Verifier) Verify(header http.Header, body []byte) error {
	if len(v.Keys) == 0 {
		return ErrNoKeys
	}
	timestamped := v.Keys[0].Scheme == SchemeTimestamped
	for _, k := range v.Keys {
		if !k.holds() {
			return fmt.Errorf("%v holds nothing for its scheme: %w", k, ErrNoKeys)
		}
		if (k.Scheme == SchemeTimestamped) != timestamped {
			return ErrMixedSchemes
		}
	}
	if timestamped {
		return v.verifyTimestamped(header, body)
	}
	return v.verifyStandard(header, body)
}

func (v *Verifier) verifyStandard(header http.Header, body []byte) error {
	id, err := single(header, HeaderID)
	if err != nil {
		return err
	}
	unix, err := single(header, HeaderTimestamp)
	if err != nil {
		return err
	}
	signatures, err := single(header, HeaderSignature)
	if err != nil {
		return err
	}
	if err := v.checkTime(HeaderTimestamp, unix); err != nil {
		return err
	}
	candidates := strings.SplitN(signatures, " ", maxSignatures+1)
	if len(candidates) > maxSignatures {
		return fmt.Errorf("%s: more than %d signatures: %w", HeaderSignature, maxSignatures, ErrNoMatch)
	}
	// Every key meets every candidate, so that the time taken does not tell
	// which one matched.
	matched := false
	for _, k := range v.Keys {
		matched = k.matchesStandard(candidates, id, []byte(unix), body) || matched
	}
	if !matched {
		return fmt.Errorf("%s: %w", HeaderSignature, ErrNoMatch)
	}
	return nil
}

func (k Key) matchesStandard(candidates []string, id string, unix, body []byte) bool {
	var content, expected []byte
	if k.Scheme == SchemeEd25519 {
		content = standardContent(id, unix, body)
	} else {
		expected = base64.StdEncoding.AppendEncode(nil, k.standardMAC(id, unix, body))
	}
	matched := false
	for _, candidate := range candidates {
		scheme, text, _ := strings.Cut(candidate, ",")
		if scheme != string(k.Scheme) {
			continue
		}
		if k.Scheme == SchemeHMAC {
			matched = hmac.Equal([]byte(text), expected) || matched
			continue
		}
		signature, err := base64.StdEncoding.Strict().DecodeString(text)
		if err == nil && len(text) == base64.StdEncoding.EncodedLen(ed25519.SignatureSize) {
			matched = ed25519.Verify(k.open().public, content, signature) || matched
		}
	}
	return matched
}

func (v *Verifier) verifyTimestamped(header http.Header, body []byte) error {
	name := v.SignatureHeader
	if name == "" {
		name = DefaultTimestampedHeader
	}
	value, err := single(header, name)
	if err != nil {
		return err
	}
	unix, candidates, err := splitTimestamped(name, value)
	if err != nil {
		return err
	}
	if err := v.checkTime(name, unix); err != nil {
		return err
	}
	matched := false
	for _, k := range v.Keys {
		expected := hex.AppendEncode(nil, k.timestampedMAC([]byte(unix), body))
		for _, candidate := range candidates {
			matched = hmac.Equal([]byte(candidate), expected) || matched
		}
	}
	if !matched {
		return fmt.Errorf("%s: %w", name, ErrNoMatch)
	}
	return nil
}

// splitTimestamped reads "t=<unix>,v1=<hex>,…". Other parts are passed over, so
// that a later version can be sent beside this one.
func splitTimestamped(name, value string) (unix string, candidates []string, err error) {
	parts := strings.SplitN(value, ",", maxSignatures+2)
	if len(parts) > maxSignatures+1 {
		return "", nil, fmt.Errorf("%s: more than %d signatures: %w", name, maxSignatures, ErrNoMatch)
	}
	for _, part := range parts {
		key, text, _ := strings.Cut(part, "=")
		switch {
		case key == "t" && unix != "":
			return "", nil, fmt.Errorf("%s: t= given more than once: %w", name, ErrBadTimestamp)
		case key == "t":
			unix = text
		case key == "v1":
			candidates = append(candidates, text)
		}
	}
	return unix, candidates, nil
}

// checkTime takes only the spelling that Sign writes: other spellings of a
// number would be signed as text but compared as a number.
func (v *Verifier) checkTime(name, unix string) error {
	seconds, err := strconv.ParseInt(unix, 10, 64)
	if err != nil || len(unix) > maxUnixDigits || strconv.FormatInt(seconds, 10) != unix {
		return fmt.Errorf("%s: %w", name, ErrBadTimestamp)
	}
	now, tolerance := time.Now, v.Tolerance
	if v.Now != nil {
		now = v.Now
	}
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	current, at := now(), time.Unix(seconds, 0)
	if at.Before(current.Add(-tolerance)) || at.After(current.Add(tolerance)) {
		return fmt.Errorf("%s: signed for %s, now %s, tolerance %s: %w", name,
			at.UTC().Format(time.RFC3339), current.UTC().Format(time.RFC3339), tolerance, ErrOutsideTolerance)
	}
	return nil
}

// single is the value of a header that must be there once: of two, this
// receiver and a proxy before it might each take another.
func single(header http.Header, name string) (string, error) {
	switch values := header[textproto.CanonicalMIMEHeaderKey(name)]; {
	case len(values) == 0 || values[0] == "":
		return "", fmt.Errorf("%s: %w", name, ErrMissingHeader)
	case len(values) > 1:
		return "", fmt.Errorf("%s: %w", name, ErrRepeatedHeader)
	default:
		return values[0], nil
	}
}
