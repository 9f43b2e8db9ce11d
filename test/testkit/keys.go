package testkit

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/platform/sealed"
)

// Keys are secrets keys of the test's own.
func Keys(t testing.TB) *sealed.Keyring {
	t.Helper()
	key, err := sealed.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	ring, err := sealed.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}
