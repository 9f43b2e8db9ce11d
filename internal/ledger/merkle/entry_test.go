package merkle_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger/merkle"
)

// The bytes are hashed for years: this text never changes.
func TestTheEntryOfARecordIsFixed(t *testing.T) {
	body := []byte(`{"v":1,"id":"rec_1"}`)
	digest := sha256.Sum256(body)
	want := "waybill-record/1 1790000000000000001 42 " + hex.EncodeToString(digest[:])
	if got := string(merkle.Entry(1790000000000000001, 42, body)); got != want {
		t.Errorf("entry %q, want %q", got, want)
	}
	leaf := sha256.Sum256([]byte("\x00" + want))
	if got := merkle.LeafHash(1790000000000000001, 42, body); got != leaf {
		t.Errorf("leaf %x, want %x", got, leaf)
	}
}

func TestAnEntryTellsApartWhateverDiffers(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range [][]byte{
		merkle.Entry(1, 23, []byte("a")), merkle.Entry(12, 3, []byte("a")), merkle.Entry(1, 23, []byte("b")),
		merkle.Entry(-1, 23, []byte("a")), merkle.Entry(1, 23, nil),
	} {
		if seen[string(e)] || len(e) > 255 || strings.ContainsAny(string(e), "\n\x00") {
			t.Errorf("entry %q", e)
		}
		seen[string(e)] = true
	}
}
