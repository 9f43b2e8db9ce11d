package envelope_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

func encoded(prefix string, n int) string {
	return prefix + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n))
}

func TestSecretsThatAreRefused(t *testing.T) {
	seedOnly := base64.StdEncoding.EncodeToString(make([]byte, ed25519.SeedSize))
	cases := []struct {
		name   string
		scheme envelope.Scheme // empty: ParseSecret
		secret string
		want   string
	}{
		{"empty", "", "", "does not begin with whsec_, whsk_ or whpk_"},
		{"no prefix", "", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "does not begin with"},
		{"another prefix", "", "whsec-MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "does not begin with"},
		{"23 bytes", "", encoded("whsec_", 23), "23 bytes; a whsec_ secret holds 24 to 64"},
		{"65 bytes", "", encoded("whsec_", 65), "65 bytes; a whsec_ secret holds 24 to 64"},
		{"nothing after the prefix", "", "whsec_", "0 bytes"},
		{"no padding", "", strings.TrimRight(encoded("whsec_", 25), "="), "not standard base64 with padding"},
		{"URL base64", "", "whsec_" + strings.Repeat("_-_-", 8), "not standard base64"},
		{"two spellings of one secret", "", "whsec_" + strings.Repeat("A", 42) + "B=", "not standard base64"},
		{"a line break at the end", "", encoded("whsec_", 24) + "\n", "a line break after whsec_"},
		{"a space in front", "", " " + encoded("whsec_", 24), "does not begin with"},
		{"a public key that is no base64", "", "whpk_=", "not standard base64"},
		{"a private key of 33 bytes", "", encoded("whsk_", 33),
			"33 bytes; a whsk_ key holds 64 (seed and public key) or 32 (seed)"},
		{"halves of two pairs", "", encoded("whsk_", 64), "do not belong together"},
		{"a public key of 31 bytes", "", encoded("whpk_", 31), "31 bytes; a whpk_ key holds 32"},
		{"an HMAC secret for Ed25519", envelope.SchemeEd25519, secretA, "does not begin with whsk_"},
		{"a private key for HMAC", envelope.SchemeHMAC, privateA, "does not begin with whsec_"},
		{"a public key for the timestamped scheme", envelope.SchemeTimestamped, publicA, "does not begin with whsec_"},
		{"a scheme nobody knows", "v2", "whsk_" + seedOnly, `unknown signature scheme "v2"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var err error
			if c.scheme == "" {
				_, err = envelope.ParseSecret(c.secret)
			} else {
				_, err = envelope.ParseSecretFor(c.scheme, c.secret)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v; want one with %q", err, c.want)
			}
			if _, tail, _ := strings.Cut(c.secret, "_"); len(tail) > 8 && strings.Contains(err.Error(), tail[:8]) {
				t.Errorf("the error %q quotes the secret", err)
			}
		})
	}
}

func TestGeneratedKeysAreReadBackFromWhatTheyReveal(t *testing.T) {
	for _, scheme := range []envelope.Scheme{envelope.SchemeHMAC, envelope.SchemeEd25519, envelope.SchemeTimestamped} {
		a, err := envelope.Generate(scheme, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		b, err := envelope.Generate(scheme, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if a.ID == b.ID || a.Reveal() == b.Reveal() {
			t.Errorf("%s: two keys are the same", scheme)
		}
		back, err := envelope.ParseSecretFor(scheme, a.Reveal())
		if err != nil || back.ID != a.ID || back.Scheme != scheme || back.Reveal() != a.Reveal() {
			t.Errorf("%s: %v came back as %v, %v", scheme, a, back, err)
		}
		body := []byte("{}")
		x, errX := envelope.Sign([]envelope.Key{a}, "e", signedAt, body)
		y, errY := envelope.Sign([]envelope.Key{back}, "e", signedAt, body)
		if errX != nil || errY != nil || x != y {
			t.Errorf("%s: signs %q (%v), read back %q (%v)", scheme, x, errX, y, errY)
		}
	}
	for _, scheme := range []envelope.Scheme{envelope.SchemeHMAC, envelope.SchemeEd25519, envelope.SchemeTimestamped, "v2",
		""} {
		if k, err := envelope.Generate(scheme, strings.NewReader("too short")); err == nil {
			t.Errorf("%q: %v was made of nine bytes", scheme, k)
		}
	}
}

func TestKeyIdsAreStableAndSharedByBothHalves(t *testing.T) {
	// On record for years: a change here would orphan every key id in ledgers.
	fixed := map[string]string{secretA: "key_51cdad203549e363", secretB: "", privateA: "key_7d2a1719fbd91ca4",
		publicA: "key_7d2a1719fbd91ca4"}
	for secret, want := range fixed {
		k, err := envelope.ParseSecret(secret)
		if err != nil {
			t.Fatal(err)
		}
		if want != "" && k.ID != want {
			t.Errorf("the id of %s… is %s; want %s", secret[:6], k.ID, want)
		}
		if !strings.HasPrefix(k.ID, "key_") || len(k.ID) != 20 {
			t.Errorf("id %q; want key_ and 16 hexadecimal digits", k.ID)
		}
	}
	if a, b := mustKey(t, envelope.SchemeHMAC, secretA), mustKey(t, envelope.SchemeTimestamped, secretA); a.ID != b.ID {
		t.Errorf("one secret has the ids %s and %s", a.ID, b.ID)
	}
	seed := "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc="
	if k := mustKey(t, envelope.SchemeEd25519, seed); k.Reveal() != privateA {
		t.Error("a seed is not written out as the whole pair")
	}
	public, ok := mustKey(t, envelope.SchemeEd25519, privateA).Public()
	if !ok || public.Reveal() != publicA {
		t.Errorf("the public half is %q, %v; want %s", public.Reveal(), ok, publicA)
	}
	if _, ok := mustKey(t, envelope.SchemeHMAC, secretA).Public(); ok {
		t.Error("an HMAC secret has a public half")
	}
}

func TestNoWayOfPrintingAKeyShowsItsSecret(t *testing.T) {
	for _, k := range []envelope.Key{
		mustKey(t, envelope.SchemeHMAC, secretA), mustKey(t, envelope.SchemeTimestamped, secretA),
		mustKey(t, envelope.SchemeEd25519, privateA),
	} {
		_, text, _ := strings.Cut(k.Reveal(), "_")
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		leaks := []string{text[:10], string(raw[:8]), fmt.Sprintf("%x", raw[:6]), fmt.Sprintf("%X", raw[:6]),
			strings.Trim(fmt.Sprint(raw[:6]), "[]"), strings.Trim(fmt.Sprintf("%#v", raw[:6]), "[]byte{}")}

		type hidden struct{ k envelope.Key } // fmt calls no methods on it
		var printed []string
		for _, v := range []any{k, &k, []envelope.Key{k}, map[string]envelope.Key{"k": k}, struct{ K envelope.Key }{k},
			hidden{k}, &hidden{k}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%08.3f"} {
				printed = append(printed, fmt.Sprintf(verb, v))
			}
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			printed = append(printed, string(b))
		}
		printed = append(printed, k.String(), k.GoString(), fmt.Errorf("%w: %v", errors.New("x"), k).Error())
		for _, p := range printed {
			for _, leak := range leaks {
				if strings.Contains(p, leak) {
					t.Fatalf("%s shows the secret: %s", k.ID, p)
				}
			}
		}
		if s := k.String(); !strings.Contains(s, k.ID) || !strings.Contains(s, string(k.Scheme)) {
			t.Errorf("String() = %q; want the scheme and the id", s)
		}
		if b, _ := json.Marshal(k); string(b) != fmt.Sprintf(`{"id":%q,"scheme":%q}`, k.ID, k.Scheme) {
			t.Errorf("JSON is %s", b)
		}
	}
}
