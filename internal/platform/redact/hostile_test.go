package redact_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/redact"
)

func TestNoInputMakesItSlow(t *testing.T) {
	for _, piece := range []string{"@", "a@", "password=", `"password":"`, "token:", "::", "=", "eyJ", "?a=", "?a=b&",
		"born ", "mrn 1", "4111 ", "1.", "1-", "%25", `\\`, "&#64;",
		"://", "https://a:b", "basic ", "bearer:", "-----BEGIN ", "[", `"`, "A1", "aA1", "DE89", "a/", "\xff", "١",
		"cookie: ", "SG.", "AKIA", "aGVsbG8g"} {
		text := []byte(strings.Repeat(piece, 1+(256<<10)/len(piece)))
		began := time.Now()
		redact.Default().Find(text, redact.Known{Payload: text[:64<<10], Values: []string{strings.Repeat(piece, 40)}})
		// A quarter of a MiB takes milliseconds; what is quadratic takes minutes.
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("256 KiB of %q took %s", piece, took)
		}
	}
}
