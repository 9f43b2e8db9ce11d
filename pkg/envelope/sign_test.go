package envelope_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

// The first two vectors are published by Standard Webhooks and by the Svix
// server; the third was computed with OpenSSL. None comes from this package.
func TestSignaturesMatchVectorsMadeByOthers(t *testing.T) {
	at, body := time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)
	for _, c := range []struct {
		scheme       envelope.Scheme
		secret, want string
	}{
		{envelope.SchemeHMAC, secretA, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		{envelope.SchemeEd25519, privateA, "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="},
		{envelope.SchemeTimestamped, secretA, "t=1614265330,v1=2e37df5d4a028c51a7f3133d64ae1e300d2c2c900f1b1d49d4369ad2530f8964"},
	} {
		got, err := envelope.Sign([]envelope.Key{mustKey(t, c.scheme, c.secret)}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body)
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.scheme, got, err, c.want)
		}
	}
}

func TestSeveralKeysGiveOneSignatureEach(t *testing.T) {
	a, b := mustKey(t, envelope.SchemeHMAC, secretA), mustKey(t, envelope.SchemeHMAC, secretB)
	c := mustKey(t, envelope.SchemeEd25519, privateA)
	sign := func(keys ...envelope.Key) string {
		t.Helper()
		s, err := envelope.Sign(keys, "e", signedAt, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got, want := sign(a, b, c), sign(a)+" "+sign(b)+" "+sign(c); got != want {
		t.Errorf("together %q; one by one %q", got, want)
	}
	ta, tb := mustKey(t, envelope.SchemeTimestamped, secretA), mustKey(t, envelope.SchemeTimestamped, secretB)
	_, second, _ := strings.Cut(sign(tb), ",")
	if got, want := sign(ta, tb), sign(ta)+","+second; got != want {
		t.Errorf("together %q; want %q", got, want)
	}
}

func TestSigningIsRefused(t *testing.T) {
	hmac, stamped := mustKey(t, envelope.SchemeHMAC, secretA), mustKey(t, envelope.SchemeTimestamped, secretA)
	many := make([]envelope.Key, 33)
	for i := range many {
		many[i] = hmac
	}
	for _, c := range []struct {
		name string
		keys []envelope.Key
		want error
	}{
		{"without keys", nil, envelope.ErrNoKeys},
		{"with the zero key", []envelope.Key{{}}, envelope.ErrNoPrivateKey},
		{"with an id in place of a key", []envelope.Key{{ID: hmac.ID, Scheme: envelope.SchemeHMAC}},
			envelope.ErrNoPrivateKey},
		{"with a public key", []envelope.Key{hmac, mustKey(t, envelope.SchemeEd25519, publicA)}, envelope.ErrNoPrivateKey},
		{"with keys of both kinds", []envelope.Key{hmac, stamped}, envelope.ErrMixedSchemes},
		{"with keys of both kinds, the other way", []envelope.Key{stamped, hmac}, envelope.ErrMixedSchemes},
		{"with 33 keys", many, nil},
	} {
		h := http.Header{}
		err := envelope.SetHeaders(h, c.keys, "", "e", signedAt, nil)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || len(h) != 0 {
			t.Errorf("%s: %v, headers %v; want %v and none", c.name, err, h, c.want)
		}
	}
}

func TestAKeyOfAnotherSchemeCannotBePassedOffByItsLabel(t *testing.T) {
	k := mustKey(t, envelope.SchemeHMAC, secretA)
	for _, scheme := range []envelope.Scheme{envelope.SchemeEd25519, envelope.SchemeTimestamped, "v2", ""} {
		k.Scheme = scheme
		if s, err := envelope.Sign([]envelope.Key{k}, "e", signedAt, nil); err == nil {
			t.Errorf("an HMAC key labelled %q signed %q", scheme, s)
		}
		v := envelope.Verifier{Keys: []envelope.Key{k}}
		if err := v.Verify(http.Header{}, nil); !errors.Is(err, envelope.ErrNoKeys) {
			t.Errorf("an HMAC key labelled %q verifies: %v", scheme, err)
		}
	}
}

func TestHeadersAreTheWholeSet(t *testing.T) {
	body := []byte("{}")
	common := map[string]string{
		"Webhook-Id": "evt/1", "Webhook-Timestamp": "1787149927", "Idempotency-Key": "evt/1",
		"Content-Type": "application/json",
	}
	for _, c := range []struct {
		scheme               envelope.Scheme
		secret, chosen, name string
	}{
		{envelope.SchemeHMAC, secretA, "", "Webhook-Signature"},
		{envelope.SchemeHMAC, secretA, "X-Passed-Over", "Webhook-Signature"},
		{envelope.SchemeEd25519, privateA, "", "Webhook-Signature"},
		{envelope.SchemeTimestamped, secretA, "", "Waybill-Signature"},
		{envelope.SchemeTimestamped, secretA, "stripe-signature", "Stripe-Signature"},
	} {
		keys := []envelope.Key{mustKey(t, c.scheme, c.secret)}
		h, err := envelope.Headers(keys, c.chosen, "evt/1", signedAt.Add(999*time.Millisecond), body)
		if err != nil {
			t.Fatal(err)
		}
		want, err := envelope.Sign(keys, "evt/1", signedAt, body)
		if err != nil {
			t.Fatal(err)
		}
		if len(h) != 5 || len(h[c.name]) != 1 || h[c.name][0] != want {
			t.Errorf("%s: headers %v; want five, with %s: %s", c.scheme, h, c.name, want)
		}
		for name, value := range common {
			if h.Get(name) != value {
				t.Errorf("%s: %s is %q; want %q", c.scheme, name, h.Get(name), value)
			}
		}
	}
}

func TestSignatureHeaderNamesThatWouldClashAreRefused(t *testing.T) {
	for _, name := range []string{"Stripe-Signature", "X-Hub_Signature-256", "Waybill-Signature", "s"} {
		if err := envelope.ValidateSignatureHeader(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	keys := []envelope.Key{mustKey(t, envelope.SchemeTimestamped, secretA)}
	for _, name := range []string{
		"Webhook-Signature", "webhook-id", "WEBHOOK-TIMESTAMP", "Idempotency-Key", "Content-Type", "content-length",
		"Content-Encoding",
		"Host", "Connection", "Transfer-Encoding", "User-Agent", "Authorization", "Cookie", "Proxy-Authorization",
		"Sec-Fetch-Mode",
		"a b", "a:b", "a\r\nb", "é", strings.Repeat("x", 129),
	} {
		h := http.Header{}
		var fe *envelope.FieldError
		err := envelope.SetHeaders(h, keys, name, "e", signedAt, nil)
		if !errors.As(err, &fe) || fe.Field != "signature_header" || len(h) != 0 {
			t.Errorf("%q: %v, headers %v; want a *FieldError and none", name, err, h)
		}
	}
	if envelope.ValidateSignatureHeader("") == nil {
		t.Error("an empty name was taken")
	}
}
