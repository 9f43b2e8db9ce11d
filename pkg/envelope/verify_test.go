package envelope_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

const stampedHeader = "Stripe-Signature"

// family is one way to sign and what verifies it.
type family struct {
	name     string
	signers  []envelope.Key // two keys, old and new
	verifier envelope.Verifier
	header   string // where the signature is
}

func families(t testing.TB) []family {
	t.Helper()
	secondPair := mustKey(t, envelope.SchemeEd25519, "whsk_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")
	secondPublic, _ := secondPair.Public()
	all := []family{
		{name: "HMAC", header: envelope.HeaderSignature,
			signers: []envelope.Key{mustKey(t, envelope.SchemeHMAC, secretA), mustKey(t, envelope.SchemeHMAC, secretB)}},
		{name: "Ed25519", header: envelope.HeaderSignature,
			signers:  []envelope.Key{mustKey(t, envelope.SchemeEd25519, privateA), secondPair},
			verifier: envelope.Verifier{Keys: []envelope.Key{mustKey(t, envelope.SchemeEd25519, publicA), secondPublic}}},
		{name: "HMAC and Ed25519", header: envelope.HeaderSignature,
			signers: []envelope.Key{mustKey(t, envelope.SchemeHMAC, secretA), mustKey(t, envelope.SchemeEd25519, privateA)},
			verifier: envelope.Verifier{Keys: []envelope.Key{mustKey(t, envelope.SchemeHMAC, secretA),
				mustKey(t, envelope.SchemeEd25519, publicA)}}},
		{name: "timestamped", header: stampedHeader, verifier: envelope.Verifier{SignatureHeader: stampedHeader},
			signers: []envelope.Key{mustKey(t, envelope.SchemeTimestamped, secretA),
				mustKey(t, envelope.SchemeTimestamped, secretB)}},
	}
	for i := range all {
		if all[i].verifier.Keys == nil {
			all[i].verifier.Keys = all[i].signers
		}
		all[i].verifier.Now = func() time.Time { return signedAt }
	}
	return all
}

func (f family) headers(t testing.TB, keys []envelope.Key, body []byte) http.Header {
	t.Helper()
	h, err := envelope.Headers(keys, stampedHeader, "evt_1", signedAt, body)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// with is f's verifier with these keys only.
func (f family) with(keys ...envelope.Key) *envelope.Verifier {
	v := f.verifier
	v.Keys = keys
	return &v
}

func TestRotationVerifiesWithOldAndNewKeyOnEitherSide(t *testing.T) {
	body := []byte(`{"x":1}`)
	for _, f := range families(t) {
		verify := f.verifier.Keys
		for name, c := range map[string]struct {
			sign, verify []envelope.Key
			want         error
		}{
			"both sign, old verifies":  {f.signers, verify[:1], nil},
			"both sign, new verifies":  {f.signers, verify[1:], nil},
			"both sign, both verify":   {f.signers, verify, nil},
			"old signs, both verify":   {f.signers[:1], verify, nil},
			"new signs, both verify":   {f.signers[1:], verify, nil},
			"old signs, new verifies":  {f.signers[:1], verify[1:], envelope.ErrNoMatch},
			"new signs, old verifies":  {f.signers[1:], verify[:1], envelope.ErrNoMatch},
			"nobody verifies anything": {f.signers, nil, envelope.ErrNoKeys},
		} {
			if err := f.with(c.verify...).Verify(f.headers(t, c.sign, body), body); !errors.Is(err, c.want) ||
				(c.want == nil) != (err == nil) {
				t.Errorf("%s: %s: %v; want %v", f.name, name, err, c.want)
			}
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	body := []byte(`{"x":1}`)
	set := func(name, value string) func(*family, http.Header) {
		return func(_ *family, h http.Header) { h.Set(name, value) }
	}
	signature := func(edit func(string) string) func(*family, http.Header) {
		return func(f *family, h http.Header) { h.Set(f.header, edit(h.Get(f.header))) }
	}
	cases := []struct {
		name     string
		spoil    func(*family, http.Header)
		standard error // what the Standard Webhooks families answer; nil: passes
		stamped  error
	}{
		{"no signature", func(f *family, h http.Header) { h.Del(f.header) }, envelope.ErrMissingHeader,
			envelope.ErrMissingHeader},
		{"an empty signature", signature(func(string) string { return "" }), envelope.ErrMissingHeader,
			envelope.ErrMissingHeader},
		{"two signature headers", func(f *family, h http.Header) { h.Add(f.header, "x") }, envelope.ErrRepeatedHeader,
			envelope.ErrRepeatedHeader},
		{"no id", func(_ *family, h http.Header) { h.Del("webhook-id") }, envelope.ErrMissingHeader, nil},
		{"two ids", func(_ *family, h http.Header) { h.Add("webhook-id", "evt_2") }, envelope.ErrRepeatedHeader, nil},
		{"another id", set("webhook-id", "evt_2"), envelope.ErrNoMatch, nil},
		{"no timestamp", func(_ *family, h http.Header) { h.Del("webhook-timestamp") }, envelope.ErrMissingHeader, nil},
		{"another timestamp", set("webhook-timestamp", "1787149928"), envelope.ErrNoMatch, nil},
		{"a word as timestamp", set("webhook-timestamp", "now"), envelope.ErrBadTimestamp, nil},
		{"a signed timestamp", set("webhook-timestamp", "+1787149927"), envelope.ErrBadTimestamp, nil},
		{"leading zeros", set("webhook-timestamp", "01787149927"), envelope.ErrBadTimestamp, nil},
		{"a space before the timestamp", set("webhook-timestamp", " 1787149927"), envelope.ErrBadTimestamp, nil},
		{"milliseconds", set("webhook-timestamp", "1787149927000"), envelope.ErrBadTimestamp, nil},
		{"fractions", set("webhook-timestamp", "1787149927.0"), envelope.ErrBadTimestamp, nil},
		{"beyond 64 bits", set("webhook-timestamp", "99999999999999999999"), envelope.ErrBadTimestamp, nil},
		{"the scheme's name alone", signature(func(s string) string { return s[:strings.IndexAny(s, ",")] }),
			envelope.ErrNoMatch, envelope.ErrNoMatch},
		{"another scheme's name", signature(strings.NewReplacer("v1a,", "v9,", "v1,", "v9,", "v1=", "v9=").Replace),
			envelope.ErrNoMatch, envelope.ErrNoMatch},
		{"no time in the signature", signature(func(s string) string { return strings.Replace(s, "t=", "u=", 1) }), nil,
			envelope.ErrBadTimestamp},
		{"two times in the signature", signature(func(s string) string {
			return strings.Replace(s, "t=", "t=1787149927,t=",
				1)
		}), nil, envelope.ErrBadTimestamp},
		{"another time in the signature", signature(func(s string) string {
			return strings.Replace(s, "t=1787149927",
				"t=1787149928", 1)
		}), nil, envelope.ErrNoMatch},
		{"more signatures than anyone sends", func(f *family, h http.Header) {
			h.Set(f.header, strings.Repeat("v1,x ", 40)+strings.Repeat(",v1=x", 40)+h.Get(f.header))
		}, envelope.ErrNoMatch, envelope.ErrNoMatch},
	}
	for _, c := range cases {
		for _, f := range families(t) {
			h := f.headers(t, f.signers, body)
			c.spoil(&f, h)
			want := c.standard
			if f.name == "timestamped" {
				want = c.stamped
			}
			err := f.verifier.Verify(h, body)
			if !errors.Is(err, want) || (want == nil) != (err == nil) {
				t.Errorf("%s, %s: %v; want %v", f.name, c.name, err, want)
			}
		}
	}
}

func TestUnknownSignaturesBesideAGoodOneDoNotMatter(t *testing.T) {
	body := []byte(`{}`)
	for _, f := range families(t) {
		h := f.headers(t, f.signers, body)
		s := h.Get(f.header)
		if f.name == "timestamped" {
			s = "v0=abc,x," + s + ",v2=zz,v1="
		} else {
			s = "v1, v1a,AAAA v9,zzz v1 " + s + " v1,====  x"
		}
		h.Set(f.header, s)
		if err := f.verifier.Verify(h, body); err != nil {
			t.Errorf("%s: %q: %v", f.name, s, err)
		}
	}
}

// Every single-bit change to body or signature must be noticed.
func TestNoBitOfTheBodyOrTheSignatureCanChange(t *testing.T) {
	body := []byte(`{"id":"evt_1","data":{"x":1}}`)
	for _, f := range families(t) {
		signer, verifier := f.signers[:1], f.with(f.verifier.Keys[0])
		h := f.headers(t, signer, body)
		for i := range len(body) * 8 {
			changed := append([]byte(nil), body...)
			changed[i/8] ^= 1 << (i % 8)
			if err := verifier.Verify(h, changed); !errors.Is(err, envelope.ErrNoMatch) {
				t.Fatalf("%s: bit %d of the body flipped: %v", f.name, i, err)
			}
		}
		signature := h.Get(f.header)
		for i := range len(signature) * 8 {
			changed := []byte(signature)
			changed[i/8] ^= 1 << (i % 8)
			h.Set(f.header, string(changed))
			if err := verifier.Verify(h, body); err == nil {
				t.Fatalf("%s: bit %d of the signature flipped: %q passes", f.name, i, changed)
			}
		}
		h.Set(f.header, signature)
		for _, other := range [][]byte{nil, body[:len(body)-1], append([]byte(nil), append(body, ' ')...)} {
			if err := verifier.Verify(h, other); !errors.Is(err, envelope.ErrNoMatch) {
				t.Errorf("%s: body %q: %v", f.name, other, err)
			}
		}
	}
}

func TestToleranceHoldsBothWaysToTheSecond(t *testing.T) {
	body := []byte(`{}`)
	for _, f := range families(t) {
		h := f.headers(t, f.signers, body)
		for _, c := range []struct {
			tolerance, drift time.Duration
			want             error
		}{
			{0, envelope.DefaultTolerance, nil},
			{0, -envelope.DefaultTolerance, nil},
			{0, envelope.DefaultTolerance + 1, envelope.ErrOutsideTolerance},
			{0, -envelope.DefaultTolerance - 1, envelope.ErrOutsideTolerance},
			{time.Second, time.Second, nil},
			{time.Second, 2 * time.Second, envelope.ErrOutsideTolerance},
			{48 * time.Hour, 33 * time.Hour, nil},
		} {
			v := f.verifier
			v.Tolerance = c.tolerance
			v.Now = func() time.Time { return signedAt.Add(c.drift) }
			if err := v.Verify(h, body); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
				t.Errorf("%s: clock %v off, tolerance %v: %v; want %v", f.name, c.drift, c.tolerance, err, c.want)
			}
		}
	}
}

func TestVerifiersAreMadeFromSecrets(t *testing.T) {
	now := time.Now()
	body := []byte(`{}`)
	standard, err := envelope.NewVerifier(secretA, publicA)
	if err != nil {
		t.Fatal(err)
	}
	stamped, err := envelope.NewTimestampedVerifier("", secretB, secretA)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		v      *envelope.Verifier
		scheme envelope.Scheme
		secret string
	}{
		{standard, envelope.SchemeHMAC, secretA}, {standard, envelope.SchemeEd25519, privateA},
		{stamped, envelope.SchemeTimestamped, secretA},
	} {
		h, err := envelope.Headers([]envelope.Key{mustKey(t, c.scheme, c.secret)}, "", "e", now, body)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.v.Verify(h, body); err != nil { // by the real clock
			t.Errorf("%s: %v", c.scheme, err)
		}
	}
	for _, secrets := range [][]string{nil, {"x"}, {secretA, ""}} {
		if _, err := envelope.NewVerifier(secrets...); err == nil {
			t.Errorf("a verifier was made from %q", secrets)
		}
		if _, err := envelope.NewTimestampedVerifier("", secrets...); err == nil {
			t.Errorf("a timestamped verifier was made from %q", secrets)
		}
	}
	if _, err := envelope.NewTimestampedVerifier("", publicA); err == nil {
		t.Error("a timestamped verifier was made from a public key")
	}
	mixed := envelope.Verifier{Keys: append(append([]envelope.Key(nil), standard.Keys...), stamped.Keys...)}
	if err := mixed.Verify(http.Header{}, nil); !errors.Is(err, envelope.ErrMixedSchemes) {
		t.Errorf("keys of both kinds: %v", err)
	}
}

func FuzzSignVerify(f *testing.F) {
	f.Add("evt_1", int64(1787149927), []byte(`{"id":"evt_1"}`), []byte("0"))
	f.Add("a", int64(0), []byte(""), []byte("."))
	f.Fuzz(func(t *testing.T, id string, unix int64, body, extra []byte) {
		if envelope.ValidateID(id) != nil || unix < 0 || unix > 1<<36 {
			return
		}
		at := time.Unix(unix, 0)
		for _, fam := range families(t) {
			h, err := envelope.Headers(fam.signers, stampedHeader, id, at, body)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range fam.verifier.Keys {
				v := fam.with(k)
				v.Now = func() time.Time { return at }
				if err := v.Verify(h, body); err != nil {
					t.Errorf("%s: what was signed does not verify: %v", fam.name, err)
				}
				if len(extra) > 0 && v.Verify(h, append(append([]byte(nil), body...), extra...)) == nil {
					t.Errorf("%s: %q was taken after the body", fam.name, extra)
				}
			}
		}
	})
}

// Headers made without signing this body must never pass, whatever they hold.
// A mutation cannot compute an HMAC, so any pass is a forgery.
func FuzzVerifyHeader(f *testing.F) {
	for _, fam := range families(f) {
		h := fam.headers(f, fam.signers, []byte("another body"))
		f.Add(h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get(fam.header))
	}
	f.Add("", "", "")
	f.Add("e", "1787149927", "v1, v1a, v1")
	f.Add("e", "1787149927", "t=1787149927,v1=")
	f.Fuzz(func(t *testing.T, id, unix, signature string) {
		for _, fam := range families(t) {
			h := http.Header{}
			h.Set("webhook-id", id)
			h.Set("webhook-timestamp", unix)
			h.Set(fam.header, signature)
			err := fam.verifier.Verify(h, []byte("the body"))
			named := false
			for _, want := range []error{envelope.ErrMissingHeader, envelope.ErrBadTimestamp, envelope.ErrOutsideTolerance,
				envelope.ErrNoMatch} {
				named = named || errors.Is(err, want)
			}
			if !named {
				t.Errorf("%s: id %q, time %q, signature %q: %v; want a named error", fam.name, id, unix, signature, err)
			}
		}
	})
}
