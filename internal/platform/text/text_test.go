package text_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/platform/text"
)

// hostile are characters that steer, reorder or hide.
func hostile() map[string]string {
	return map[string]string{
		"escape": "\x1b", "bell": "\a", "null": "\x00", "delete": "\x7f", "C1 CSI": "\u009b", "C1 NEL": "\u0085",
		"soft hyphen": "\u00ad",
		"override":    "\u202e", "isolate": "\u2066", "embedding": "\u202a", "mark": "\u200f", "zero width space": "\u200b",
		"non-joiner": "\u200c",
		"joiner":     "\u200d", "word joiner": "\u2060", "byte order mark": "\ufeff", "line separator": "\u2028",
		"paragraph separator": "\u2029",
		"tag":                 "\U000e0041", "private use": "\ue000", "filler": "\u3164", "blank braille": "\u2800",
		"half of UTF-8":   "\xc3",
		"C1 byte":         "\x9b",
		"grapheme joiner": "\u034f", "unassigned": "\U000e1000",
	}
}

func TestNoHostileCharacterIsShown(t *testing.T) {
	for name, c := range hostile() {
		in := "admin" + c + "x"
		for how, got := range map[string]string{"Line": text.Line(in), "Lines": text.Lines(in)} {
			if got != "admin\ufffdx" {
				t.Errorf("%s: %s gives %+q", name, how, got)
			}
		}
		if text.Fault(in) == "" || text.FaultInLines(in) == "" {
			t.Errorf("%s is taken in a name", name)
		}
	}
}

func TestWhatPeopleWriteIsShownAsItIs(t *testing.T) {
	for _, s := range []string{"", "plain", "Zoë Ångström", "日本語　テキスト", "שלום", "ภาษาไทย", "10\u202f000", "a\u00a0b",
		"👩\u200d🔬", "👩🏽\u200d🚀", "❤️\u200d🔥", "e\u0301"} {
		if got := text.Line(s); got != s {
			t.Errorf("%+q becomes %+q", s, got)
		}
		if strings.Contains(s, "\u200d") != (text.Fault(s) != "") {
			t.Errorf("%+q in a name: %q", s, text.Fault(s))
		}
	}
}

func TestLineBreaks(t *testing.T) {
	if got := text.Line("a\nb\tc\rd"); got != "a b c d" {
		t.Errorf("Line gives %q", got)
	}
	if got := text.Lines("a\nb\tc\rd"); got != "a\nb\tc\ufffdd" {
		t.Errorf("Lines gives %q", got)
	}
	if text.Fault("a\nb") == "" || text.FaultInLines("a\nb\r\nc\td") != "" || text.FaultInLines("a\rb") == "" {
		t.Error("line breaks in a text of several lines")
	}
	if got := text.Fault("ab\u202ec"); got != "the character U+202E at byte 2" {
		t.Error(got)
	}
}

func TestJSONStaysTheSameJSON(t *testing.T) {
	for name, c := range hostile() {
		v := map[string]any{"k" + c: []any{"a" + c + "b", 1.0, nil}}
		b, err := json.MarshalIndent(v, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		safe := text.JSON(b)
		if text.Lines(string(safe)) != string(safe) {
			t.Errorf("%s: %+q", name, safe)
		}
		var was, is any
		if json.Unmarshal(b, &was) != nil || json.Unmarshal(safe, &is) != nil || !reflect.DeepEqual(was, is) {
			t.Errorf("%s: %s became %s", name, b, safe)
		}
	}
	if got := string(text.JSON([]byte("\"\u009b\U000e0041é\""))); got != `"\u009b\udb40\udc41é"` {
		t.Error(got)
	}
}

func FuzzText(f *testing.F) {
	for _, c := range hostile() {
		f.Add("a"+c+"b", 2)
	}
	f.Add("👩\u200d🔬", 5)
	f.Fuzz(func(t *testing.T, s string, cut int) {
		for _, got := range []string{text.Line(s), text.Lines(s)} {
			if !utf8.ValidString(got) || text.Lines(got) != got {
				t.Errorf("%+q becomes %+q", s, got)
			}
		}
		if strings.ContainsAny(text.Line(s), "\n\t\r\x1b\u009b\u202e") {
			t.Errorf("%+q", text.Line(s))
		}
		if text.Fault(s) == "" && text.Line(s) != s {
			t.Errorf("%+q is taken in a name, and shown as %+q", s, text.Line(s))
		}
		var b strings.Builder
		w := text.NewWriter(&b)
		cut = min(max(cut, 0), len(s))
		for _, part := range []string{s[:cut], s[cut:]} {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := w.Close(); err != nil || b.String() != text.Lines(s) {
			t.Errorf("%+q cut at %d is written as %+q, want %+q", s, cut, b.String(), text.Lines(s))
		}
		if data, err := json.Marshal(s); err == nil {
			var was, is string
			if json.Unmarshal(data, &was) != nil || json.Unmarshal(text.JSON(data), &is) != nil || was != is {
				t.Errorf("%s became %s", data, text.JSON(data))
			}
		}
	})
}
