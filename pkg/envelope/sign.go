package envelope

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Names of the headers that a request carries. HTTP does not tell their case apart.
const (
	HeaderID             = "webhook-id"
	HeaderTimestamp      = "webhook-timestamp"
	HeaderSignature      = "webhook-signature"
	HeaderIdempotencyKey = "Idempotency-Key"
	HeaderContentType    = "Content-Type"

	// DefaultTimestampedHeader carries SchemeTimestamped's signatures where
	// the endpoint chose no other name.
	DefaultTimestampedHeader = "Waybill-Signature"

	ContentType = "application/json"
)

// maxSignatures bounds the keys that sign one request, and the signatures in
// one header that a Verifier looks at: without it a forged header of a
// megabyte would buy its sender seconds of Ed25519.
const maxSignatures = 32

// ErrMixedSchemes is returned for keys whose signatures cannot share a header.
var ErrMixedSchemes = errors.New("timestamped and Standard Webhooks keys cannot sign one request; give the endpoint " +
	"keys of one kind")

// Sign gives the signature header's value for a request with this id and body,
// made at this time: one signature per key, in the keys' order. Keys of
// SchemeHMAC and SchemeEd25519 may be mixed, and give "v1,… v1a,…"; keys of
// SchemeTimestamped give "t=…,v1=…,v1=…".
func Sign(keys []Key, id string, at time.Time, body []byte) (string, error) {
	timestamped, err := checkKeys(keys)
	if err != nil {
		return "", err
	}
	unix := strconv.AppendInt(make([]byte, 0, 20), at.Unix(), 10)
	if timestamped {
		out := append(append(make([]byte, 0, 20+len(keys)*70), "t="...), unix...)
		for _, k := range keys {
			out = append(out, ",v1="...)
			out = hex.AppendEncode(out, k.timestampedMAC(unix, body))
		}
		return string(out), nil
	}
	out := make([]byte, 0, len(keys)*96)
	for i, k := range keys {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(append(out, k.Scheme...), ',')
		out = base64.StdEncoding.AppendEncode(out, k.standardSignature(id, unix, body))
	}
	return string(out), nil
}

// SetHeaders sets every header that a request with this id and body needs,
// signed at this time: webhook-id, webhook-timestamp, Idempotency-Key,
// Content-Type, and the signature. That goes into webhook-signature, or, for
// keys of SchemeTimestamped, into signatureHeader (empty:
// DefaultTimestampedHeader). On an error nothing is set.
func SetHeaders(h http.Header, keys []Key, signatureHeader, id string, at time.Time, body []byte) error {
	value, err := Sign(keys, id, at, body)
	if err != nil {
		return err
	}
	name := HeaderSignature
	if keys[0].Scheme == SchemeTimestamped {
		if name = signatureHeader; name == "" {
			name = DefaultTimestampedHeader
		}
		if err := ValidateSignatureHeader(name); err != nil {
			return err
		}
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(HeaderIdempotencyKey, id)
	h.Set(HeaderContentType, ContentType)
	h.Set(name, value)
	return nil
}

// Headers is SetHeaders into a new header.
func Headers(keys []Key, signatureHeader, id string, at time.Time, body []byte) (http.Header, error) {
	h := make(http.Header, 5)
	if err := SetHeaders(h, keys, signatureHeader, id, at, body); err != nil {
		return nil, err
	}
	return h, nil
}

// ValidateSignatureHeader reports whether an endpoint may have its timestamped
// signatures in a header of this name: an HTTP token that neither HTTP nor
// Waybill gives a meaning of its own. The error is a *FieldError.
func ValidateSignatureHeader(name string) error {
	const field = "signature_header"
	if name == "" || len(name) > MaxIDBytes {
		return fieldErrorf(field, "%d characters long; use 1 to %d", len(name), MaxIDBytes)
	}
	for i := range len(name) {
		if !isTokenByte(name[i]) {
			return fieldErrorf(field, "%s at byte %d; use letters, digits, '_' and '-'", describe(name[i:]), i)
		}
	}
	lower := strings.ToLower(name)
	switch lower {
	case HeaderID, HeaderTimestamp, HeaderSignature, "idempotency-key",
		"host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect",
		"user-agent", "accept", "accept-encoding", "authorization", "cookie", "date", "via", "forwarded":
		return fieldErrorf(field, "%q already has a meaning; choose another name, such as %s", name, DefaultTimestampedHeader)
	}
	for _, prefix := range []string{"content-", "proxy-", "sec-"} {
		if strings.HasPrefix(lower, prefix) {
			return fieldErrorf(field, "%q already has a meaning; choose another name, such as %s", name,
				DefaultTimestampedHeader)
		}
	}
	return nil
}

func checkKeys(keys []Key) (timestamped bool, err error) {
	if len(keys) == 0 {
		return false, ErrNoKeys
	}
	if len(keys) > maxSignatures {
		return false, fmt.Errorf("%d keys; at most %d can sign one request", len(keys), maxSignatures)
	}
	timestamped = keys[0].Scheme == SchemeTimestamped
	for _, k := range keys {
		if !k.canSign() {
			return false, fmt.Errorf("%v: %w", k, ErrNoPrivateKey)
		}
		if (k.Scheme == SchemeTimestamped) != timestamped {
			return false, ErrMixedSchemes
		}
	}
	return timestamped, nil
}

// standardSignature signs "id.unix.body".
func (k Key) standardSignature(id string, unix, body []byte) []byte {
	if k.Scheme == SchemeEd25519 {
		return ed25519.Sign(k.open().private, standardContent(id, unix, body))
	}
	return k.standardMAC(id, unix, body)
}

func (k Key) standardMAC(id string, unix, body []byte) []byte {
	mac := hmac.New(sha256.New, k.open().hmacKey)
	prefix := make([]byte, 0, MaxIDBytes+22)
	prefix = append(append(append(append(prefix, id...), '.'), unix...), '.')
	mac.Write(prefix)
	mac.Write(body)
	return mac.Sum(nil)
}

func standardContent(id string, unix, body []byte) []byte {
	content := make([]byte, 0, len(id)+len(unix)+len(body)+2)
	content = append(append(append(append(content, id...), '.'), unix...), '.')
	return append(content, body...)
}

func (k Key) timestampedMAC(unix, body []byte) []byte {
	mac := hmac.New(sha256.New, k.open().hmacKey)
	mac.Write(unix)
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac.Sum(nil)
}
