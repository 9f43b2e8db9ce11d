// Package payloadlint looks for personal data in events' payloads, which should
// refer to people and their records ({"type","id"}) rather than describe them.
// It never repeats a value.
package payloadlint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/waybill-dev/waybill/internal/platform/redact"
)

// Warning is one place of a type's payloads.
type Warning struct {
	EventType string `json:"event_type"`
	Path      string `json:"path"` // as in jq: .patient.name, .items[].note
	Kind      string `json:"kind"`
	Sure      bool   `json:"sure"` // false: worth a look
	Why       string `json:"why"`
	Advice    string `json:"advice"`
	Events    int    `json:"events"` // in how many of those looked at
}

// Lint collects warnings over events.
type Lint struct {
	policy *redact.Redactor
	found  map[[3]string]*Warning
	looked int
}

// New makes a lint that knows what the policy knows.
func New(policy *redact.Redactor) *Lint {
	return &Lint{policy: policy, found: map[[3]string]*Warning{}}
}

const (
	largePayload = 16 << 10 // a reference needs far less
	longText     = 200      // bytes of one string: people's words rather than a code
	maxDepth     = 100
)

// Look looks at the data of one event.
func (l *Lint) Look(eventType string, data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("the payload is no JSON: %s", reason(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind its first JSON value, which would not be looked at")
	}
	l.looked++
	w := walk{l, eventType, map[[3]string]bool{}}
	if len(data) > largePayload {
		w.warn(".", "size", false, fmt.Sprintf("more than %d KiB: it carries a document, not a reference", largePayload>>10),
			"send {\"type\",\"id\"} and let the receiver fetch the rest under its own rights")
	}
	w.value("", redact.Key{}, v, 0)
	return nil
}

// reason is an error without the bytes it quotes.
func reason(err error) string {
	if s, ok := err.(*json.SyntaxError); ok {
		return fmt.Sprintf("syntax error at byte %d", s.Offset)
	}
	return "it ends early or holds something else"
}

// Looked is how many events were looked at.
func (l *Lint) Looked() int { return l.looked }

// Warnings by type and path, sure ones first within a path.
func (l *Lint) Warnings() []Warning {
	out := make([]Warning, 0, len(l.found))
	for _, w := range l.found {
		out = append(out, *w)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		switch {
		case a.EventType != b.EventType:
			return a.EventType < b.EventType
		case a.Path != b.Path:
			return a.Path < b.Path
		case a.Sure != b.Sure:
			return a.Sure
		}
		return a.Kind < b.Kind
	})
	return out
}

// walk goes through one event; each place counts once in it.
type walk struct {
	l         *Lint
	eventType string
	seen      map[[3]string]bool
}

func (w walk) warn(path, kind string, sure bool, why, advice string) {
	k := [3]string{w.eventType, path, kind}
	if w.seen[k] {
		return
	}
	w.seen[k] = true
	have := w.l.found[k]
	if have == nil {
		have = &Warning{EventType: w.eventType, Path: path, Kind: kind, Sure: sure, Why: why, Advice: advice}
		w.l.found[k] = have
	}
	have.Sure = have.Sure || sure
	have.Events++
}

func (w walk) value(path string, key redact.Key, v any, depth int) {
	if depth > maxDepth {
		return
	}
	shown := path
	if shown == "" {
		shown = "."
	}
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			k, _ := redact.LookUp(name)
			w.value(path+"."+w.name(name), k, member, depth+1)
		}
	case []any:
		for _, e := range v {
			w.value(path+"[]", key, e, depth+1)
		}
	case string:
		w.text(shown, key, v)
	case json.Number:
		w.text(shown, key, v.String())
	}
}

// name is a member's name as it may be shown: a name may itself be somebody's.
func (w walk) name(s string) string {
	if out, removed := w.l.policy.Redact([]byte(s)); removed > 0 {
		s = string(out)
	}
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	if strings.IndexFunc(s, func(r rune) bool {
		return r != '_' &&
			(r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a' || r > 'z')
	}) >= 0 || s == "" {
		b, err := json.Marshal(s)
		if err == nil {
			return string(b)
		}
	}
	return s
}

func (w walk) text(path string, key redact.Key, s string) {
	if s == "" {
		return
	}
	if key.Kind != "" && !(key.Kind == redact.Personal && reference(s) && key.Weak) {
		w.warn(path, string(key.Kind), !key.Weak, "its name says: "+key.What, advice(key.Kind))
	}
	for _, f := range w.l.policy.Find([]byte(s), redact.Known{}) {
		if f.Kind == redact.Opaque || f.Kind == redact.Number && reference(s) {
			w.warn(path, string(f.Kind), false, "its value looks like "+f.What, advice(f.Kind))
			continue
		}
		w.warn(path, string(f.Kind), f.Kind != redact.Number, "its value looks like "+f.What, advice(f.Kind))
	}
	if len(s) > longText && strings.ContainsAny(s, " \n") {
		w.warn(path, "text", false, fmt.Sprintf("more than %d bytes of text, in which people write anything", longText),
			"send a reference to the text")
	}
}

// reference says that a value looks like an id rather than somebody's words.
func reference(s string) bool {
	return len(s) <= 64 && !strings.ContainsAny(s, " @\n") && strings.ContainsAny(s, "0123456789_-")
}

func advice(k redact.Kind) string {
	switch k {
	case redact.Secret, redact.JWT, redact.PrivateKey, redact.Cookie, redact.Userinfo, redact.Query, redact.Opaque:
		return "never send credentials in events; if it was real, revoke it"
	case redact.Email, redact.Phone, redact.Personal, redact.Birth, redact.NationalID, redact.Encoded:
		return "send a reference, {\"type\",\"id\"}, that the receiver looks up under its own rights"
	case redact.Card, redact.IBAN:
		return "send the payment provider's token, never the number"
	}
	return "make sure that it identifies a thing, not a person"
}
