package envelope

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// What the scanner takes must be what encoding/json takes, less invalid UTF-8
// and excessive depth: otherwise Waybill would accept events that receivers
// cannot read, or refuse good ones.
func FuzzScannerAgreesWithEncodingJSON(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `[1,]`, `{"a":1,}`, `{"a" : [true , false,null]}`, `-0.0e+00`, `01`, `1.`, `.1`, `--1`, `1e`,
		`"\ud800"`, `"\u12"`, `"\/"`, "\"\x00\"", "\"\xff\"", "\"\u2028\"", `truE`, `nulll`, ` 1 `, `1 2`, "\v1", `[[[]]]`,
		`{"a"}`, `{1:2}`,
		`"\`, `"\u`, `[`, `{"`, `{"a":`, `-`, strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		err := validateData(in)
		if deep := err != nil && strings.Contains(err.Error(), "nested deeper"); deep {
			return
		}
		if want := json.Valid(in) && utf8.Valid(in); (err == nil) != want {
			t.Errorf("scanner: %v; encoding/json and UTF-8: %v, for %q", err, want, in)
		}
	})
}

func TestDepthCountsTheEventItself(t *testing.T) {
	for open, closing := range map[string]string{"[": "]", `{"":`: "}"} {
		inner := "1"
		at := strings.Repeat(open, MaxDepth-1) + inner + strings.Repeat(closing, MaxDepth-1)
		if err := validateData([]byte(at)); err != nil {
			t.Errorf("%d levels of %s inside the event: %v", MaxDepth-1, open, err)
		}
		if err := validateData([]byte(open + at + closing)); err == nil {
			t.Errorf("%d levels of %s inside the event were taken", MaxDepth, open)
		}
	}
}
