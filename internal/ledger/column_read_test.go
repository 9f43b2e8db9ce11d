package ledger

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/ClickHouse/ch-go/proto"
)

// What is read ahead must never reach into what comes behind the column.
func TestStringsAreReadAsTheyWereSentAndNothingBehindThem(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, longest := range []int{0, 1, 127, 128, 400, 70_000} {
		var sent proto.ColStr
		for range 100 {
			sent.Append(string(bytes.Repeat([]byte{byte(random.IntN(256))}, random.IntN(longest+1))))
		}
		var b proto.Buffer
		sent.EncodeColumn(&b)
		b.PutString("behind")
		r := proto.NewReader(iotest.HalfReader(bytes.NewReader(b.Buf)))
		var got proto.ColStr
		got.Append("left of an earlier block")
		if err := readStrings(r, sent.Rows(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Rows() != sent.Rows() {
			t.Fatalf("%d strings, want %d", got.Rows(), sent.Rows())
		}
		for i := range sent.Rows() {
			if !bytes.Equal(got.RowBytes(i), sent.RowBytes(i)) {
				t.Fatalf("string %d of at most %d bytes: got %d bytes, want %d", i, longest, len(got.RowBytes(i)),
					len(sent.RowBytes(i)))
			}
		}
		if next, err := r.Str(); err != nil || next != "behind" {
			t.Fatalf("behind the column: %q, %v", next, err)
		}
	}
}

func TestStringsThatEndEarlyOrAreEndlessAreRefused(t *testing.T) {
	for _, b := range []string{"", "\x05abc", "\x80", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"} {
		if err := readStrings(proto.NewReader(bytes.NewReader([]byte(b))), 1, new(proto.ColStr)); err == nil {
			t.Errorf("%q: no error", b)
		}
	}
}
