package ingest

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzBatch: what is split is what encoding/json, reading the body as a whole,
// finds; and what is no such object is refused.
func FuzzBatch(f *testing.F) {
	for _, s := range []string{`{"events":[]}`, `{"events":[1,{"a":[2]} , "x"]}`, " {\n\"events\" :[null]}\r\n",
		`{"events":[1,]}`, `{"events":[1]`,
		`{"events":[1]}}`, `{"events":[1],"events":[2]}`, `{"events":[1],"x":2}`, `{"events":{"a":1}}`, `{"events":"["}`,
		"{\"events\":[\"\xff\"]}", `{"events"`, `{"events":[1 2]}`, `{"events"[1]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !isBatch(body) {
			return
		}
		items, p := splitBatch(body)
		var whole struct {
			Events []json.RawMessage `json:"events"`
		}
		err := json.Unmarshal(body, &whole)
		if p == nil {
			if err != nil || len(whole.Events) != len(items) {
				t.Fatalf("split %q into %d; as a whole: %d, %v", body, len(items), len(whole.Events), err)
			}
			for i := range items {
				if !bytes.Equal(items[i], whole.Events[i]) {
					t.Fatalf("item %d is %q, want %q", i, items[i], whole.Events[i])
				}
			}
			return
		}
		if p.Status < 400 || p.Code == "" || p.Detail == "" {
			t.Fatalf("refused with %+v", p)
		}
		var keys map[string]json.RawMessage
		if n := len(whole.Events); err == nil && n > 0 && n <= MaxBatchEvents && json.Unmarshal(body, &keys) == nil &&
			len(keys) == 1 &&
			bytes.Count(body, []byte(`"events"`)) == 1 && !bytes.Contains(body, []byte(`\`)) &&
			bytes.HasPrefix(bytes.TrimSpace(keys[batchKey]), []byte("[")) {
			t.Fatalf("refused %q: %s", body, p.Detail)
		}
	})
}

// FuzzLines: no line is lost, added or changed but for the white space around it.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "\n", "{}\n{}", "{}\r\n\r\n{}\n", " {\"a\":\"b c\"} ", "a\nb\rc"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		items, p := splitLines(body)
		want := 0
		for _, line := range bytes.Split(body, []byte("\n")) {
			line = bytes.TrimSpace(line)
			if len(line) == 0 {
				continue
			}
			if p == nil && !bytes.Equal(items[want], line) {
				t.Fatalf("item %d is %q, want %q", want, items[want], line)
			}
			want++
		}
		if ok := want > 0 && want <= MaxBatchEvents; ok != (p == nil) || p == nil && len(items) != want {
			t.Fatalf("%d lines, %d items, %v", want, len(items), p)
		}
	})
}
