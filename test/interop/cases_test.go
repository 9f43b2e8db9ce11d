package interop

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

const (
	oldSecret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	newSecret   = "whsec_d2F5YmlsbCB0ZXN0IHNlY3JldCBudW1iZXIgMiE="
	otherSecret = "whsec_bm9ib2R5IHNpZ25lZCBhbnl0aGluZyB3aXRoIHRoaXM="

	oldPair   = "whsk_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
	newPair   = "whsk_AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="
	otherPair = "whsk_AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM="

	// Where Stripe's libraries' users look for the signature.
	stripeHeader = "Stripe-Signature"
)

// request is one signed request, and whether a receiver with this secret must
// accept it.
type request struct {
	name   string
	secret string
	header http.Header
	body   []byte
	accept bool
}

// secrets are the three keys of one scheme: two that sign during a rotation,
// and one that never does. What the receiver holds is read.
type secrets struct {
	scheme           envelope.Scheme
	old, new, other  string
	receivers        func(t *testing.T, secret string) string
	idInHeaderSigned bool
}

func (s secrets) key(t *testing.T, secret string) envelope.Key {
	t.Helper()
	k, err := envelope.ParseSecretFor(s.scheme, secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func asIs(_ *testing.T, secret string) string { return secret }

func publicHalf(t *testing.T, secret string) string {
	t.Helper()
	k, err := envelope.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	public, ok := k.Public()
	if !ok {
		t.Fatalf("%v has no public half", k)
	}
	return public.Reveal()
}

var (
	hmacSecrets    = secrets{envelope.SchemeHMAC, oldSecret, newSecret, otherSecret, asIs, true}
	stampedSecrets = secrets{envelope.SchemeTimestamped, oldSecret, newSecret, otherSecret, asIs, false}
	ed25519Secrets = secrets{envelope.SchemeEd25519, oldPair, newPair, otherPair, publicHalf, true}
)

// requests are all cases for one scheme, for every event of the corpus.
func requests(t *testing.T, s secrets) []request {
	t.Helper()
	var all []request
	for name, raw := range corpus(t) {
		event, err := envelope.Parse(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, r := range s.requestsFor(t, event) {
			r.name = name + ": " + r.name
			all = append(all, r)
		}
	}
	return all
}

func (s secrets) requestsFor(t *testing.T, event envelope.Event) []request {
	t.Helper()
	now, body := time.Now(), event.AppendBody(nil, 2)
	old, next := s.key(t, s.old), s.key(t, s.new)
	signed := func(at time.Time, keys ...envelope.Key) http.Header {
		h, err := envelope.Headers(keys, stripeHeader, event.ID, at, body)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	changed := bytes.Replace(body, []byte(`"deliveryAttempt":2`), []byte(`"deliveryAttempt":3`), 1)
	otherID := signed(now, old)
	otherID.Set(envelope.HeaderID, "evt_other")

	o, n, x := s.receivers(t, s.old), s.receivers(t, s.new), s.receivers(t, s.other)
	rs := []request{
		{"one key", o, signed(now, old), body, true},
		{"two keys, the receiver has the old one", o, signed(now, old, next), body, true},
		{"two keys, the receiver has the new one", n, signed(now, old, next), body, true},
		{"two keys, the receiver has another", x, signed(now, old, next), body, false},
		{"the new key alone, the receiver has the old one", o, signed(now, next), body, false},
		{"another attempt number", o, signed(now, old), changed, false},
		{"a byte more", o, signed(now, old), append(bytes.Clone(body), '\n'), false},
		{"a byte less", o, signed(now, old), body[:len(body)-1], false},
		{"four minutes old", o, signed(now.Add(-4*time.Minute), old), body, true},
		{"six minutes old", o, signed(now.Add(-6*time.Minute), old), body, false},
		{"another webhook-id", o, otherID, body, !s.idInHeaderSigned},
	}
	if again := reencoded(t, body); !bytes.Equal(again, body) {
		rs = append(rs, request{"decoded and encoded again", o, signed(now, old), again, false})
	}
	return rs
}

// reencoded is the body after the round trip that receivers must not make
// before they verify: numbers, key order, escapes and whitespace may change.
func reencoded(t *testing.T, body []byte) []byte {
	t.Helper()
	decode := json.NewDecoder(bytes.NewReader(body))
	decode.UseNumber() // or numbers beyond a double's range would not decode at all
	var v any
	if err := decode.Decode(&v); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// bothFamilies are requests signed with HMAC and Ed25519 in one header, as the
// specification allows; a receiver with either key accepts them.
func bothFamilies(t *testing.T, receiver string) []request {
	t.Helper()
	body := []byte(`{"id":"evt_1","data":null}`)
	keys := []envelope.Key{ed25519Secrets.key(t, oldPair), hmacSecrets.key(t, oldSecret)}
	h, err := envelope.Headers(keys, "", "evt_1", time.Now(), body)
	if err != nil {
		t.Fatal(err)
	}
	return []request{{"HMAC and Ed25519 in one header", receiver, h, body, true}}
}

func corpus(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../../testdata/*.json")
	if err != nil || len(paths) < 14 {
		t.Fatalf("testdata has %d events (%v); want the whole corpus", len(paths), err)
	}
	events := make(map[string][]byte, len(paths))
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		events[strings.TrimSuffix(filepath.Base(path), ".json")] = b
	}
	return events
}

// judge compares a verdict with what must be.
func judge(t *testing.T, verifier string, r request, refusal error) {
	t.Helper()
	if accepted := refusal == nil; accepted != r.accept {
		t.Errorf("%s, %s: accepted %v (%v); want %v", verifier, r.name, accepted, refusal, r.accept)
	}
}

func tally(t *testing.T, verifier string, rs []request) {
	t.Helper()
	accept := 0
	for _, r := range rs {
		if r.accept {
			accept++
		}
	}
	if accept == 0 || accept == len(rs) {
		t.Fatalf("%s: %d of %d requests are to be accepted; a verifier that always says the same would pass", verifier,
			accept, len(rs))
	}
	t.Logf("%s: %d requests to accept, %d to refuse", verifier, accept, len(rs)-accept)
}
