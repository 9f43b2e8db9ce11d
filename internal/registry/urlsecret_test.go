package registry_test

import (
	"slices"
	"testing"

	"github.com/waybill-dev/waybill/internal/registry"
)

// What a URL keeps secret is cut out of what its receiver answers.
func TestTheSecretsOfAURLAreSensitive(t *testing.T) {
	e := registry.Endpoint{ID: "ep_1", URL: "https://ann:hunter2hunter2@hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx?sig=0123456789"}
	o, err := e.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"abcdefghijklmnopqrstuvwx", "hunter2hunter2", "0123456789"} {
		if !slices.Contains(o.Sensitive, want) {
			t.Errorf("%q is not in %q", want, o.Sensitive)
		}
	}
}
