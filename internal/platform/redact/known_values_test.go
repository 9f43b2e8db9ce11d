package redact_test

import (
	"encoding/base64"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/platform/redact"
)

func TestWhatWasSentIsNotKeptWhenItIsSentBack(t *testing.T) {
	const sent = `{"order":"o_17","patient":{"ref":"p_4"},"text":"seen on Monday, \u00fcber alles stable, next visit in two weeks"}`
	for name, back := range map[string]string{
		"as it was": `{"received":` + sent + `}`, "as a string": strconv.Quote(sent),
		"a piece of it": "cannot parse: " + sent[40:90] + " ...",
		"in base64":     base64.StdEncoding.EncodeToString([]byte(sent)), "twice": sent + "\n" + sent,
		"cut off": "xx" + sent[:60],
	} {
		out, found := redact.Default().Clean([]byte(back), redact.Known{Payload: []byte(sent)})
		if len(found) == 0 || strings.Contains(string(out), "Monday") || strings.Contains(string(out), "patient") {
			t.Errorf("%s: %q, %+v", name, out, found)
		}
	}
	if out, found := redact.Default().Clean([]byte(`got {"a":true}`),
		redact.Known{Payload: []byte(`{"a":true}`)}); len(found) != 1 {
		t.Errorf("a short one: %q", out)
	}
	for _, own := range []string{`{"status":"accepted","order":"unknown"}`, "ok", "", strings.Repeat("x", 4000)} {
		if out, n := redact.Default().Clean([]byte(own), redact.Known{Payload: []byte(sent)}); len(n) > 0 {
			t.Errorf("the receiver's own words: %q", out)
		}
	}
}

func TestAnyPieceOfThePayloadLongEnoughIsFound(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	payload := make([]byte, 20_000)
	for i := range payload {
		payload[i] = byte('a' + random.IntN(26))
	}
	for range 2000 {
		from := random.IntN(len(payload) - 24)
		piece := string(payload[from : from+24])
		text := strings.Repeat(". ", random.IntN(30)) + piece + strings.Repeat(" .", random.IntN(30))
		if out, _ := redact.Default().Clean([]byte(text), redact.Known{Payload: payload}); strings.Contains(string(out),
			piece) {
			t.Fatalf("kept %q of %q", piece, text)
		}
	}
}

func TestAValueThatTheEndpointKeepsSecretIsNotKept(t *testing.T) {
	const value = `tok/en "0123" abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl`
	for name, text := range map[string]string{
		"as it is": "got " + value + "!", "quoted": strconv.Quote(value), "cut off by the end": "got " + value[:70],
	} {
		out, found := redact.Default().Clean([]byte(text), redact.Known{Values: []string{value, "1", ""}})
		if len(found) == 0 || strings.Contains(string(out), "0123") || strings.Contains(string(out), "nopq") {
			t.Errorf("%s: %q, %+v", name, out, found)
		}
	}
}

func BenchmarkEcho(b *testing.B) {
	payload := []byte(strings.Repeat(`{"order":"o_17","amount":1299}`, 40_000)) // 1.2 MB
	answer := []byte(strings.Repeat("nothing of it at all. ", 180))
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		redact.Default().Clean(answer, redact.Known{Payload: payload})
	}
}
