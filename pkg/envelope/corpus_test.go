package envelope_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	// The secret of Standard Webhooks' own test vector, and a second one.
	secretA = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretB = "whsec_d2F5YmlsbCB0ZXN0IHNlY3JldCBudW1iZXIgMiE="
	// The key pair of the Svix server's test vector.
	privateA = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
	publicA  = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
)

// signedAt is when the golden requests were signed.
var signedAt = time.Unix(1787149927, 0)

// corpus is every event in the repository's testdata, by file name.
func corpus(t testing.TB) map[string][]byte {
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

func mustParse(t testing.TB, b []byte) envelope.Event {
	t.Helper()
	e, err := envelope.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustKey(t testing.TB, scheme envelope.Scheme, secret string) envelope.Key {
	t.Helper()
	k, err := envelope.ParseSecretFor(scheme, secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
