package retry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// wire is the stored form of a Policy:
//
//	{"name":"mine","max_attempts":3,"delays":["5s","250ms"],"stretch":0.2,"window":"1h"}
//	{"base":"1s","cap":"1m"}
type wire struct {
	Name        string  `json:"name,omitempty"`
	MaxAttempts int     `json:"max_attempts,omitempty"`
	Delays      []human `json:"delays,omitempty"`
	Stretch     float64 `json:"stretch,omitempty"`
	Base        human   `json:"base,omitzero"`
	Cap         human   `json:"cap,omitzero"`
	Window      human   `json:"window,omitzero"`
}

// human is a duration written the way people write it: "5s", "250ms", "1h30m".
type human time.Duration

func (h human) MarshalText() ([]byte, error) { return []byte(format(time.Duration(h))), nil }

func (h *human) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf(`%q is not a duration; write it like "5s", "250ms" or "1h30m"`, b)
	}
	*h = human(d)
	return nil
}

// MarshalJSON writes the stored form.
func (p Policy) MarshalJSON() ([]byte, error) {
	w := wire{
		Name: p.Name, MaxAttempts: p.MaxAttempts, Stretch: p.Stretch,
		Base: human(p.Base), Cap: human(p.Cap), Window: human(p.Window),
	}
	for _, d := range p.Delays {
		w.Delays = append(w.Delays, human(d))
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads the stored form, or the name of a built-in policy as a
// string. Unknown fields and policies that do not validate are refused, because
// a misspelt "max_attempt" would otherwise silently change what is promised.
func (p *Policy) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if bytes.Equal(b, []byte("null")) {
		return errors.New(`retry policy: is null; leave it out, or use "standard" or "urgent"`)
	}
	if len(b) > 0 && b[0] == '"' {
		var name string
		if err := json.Unmarshal(b, &name); err != nil {
			return fmt.Errorf("retry policy: %w", err)
		}
		preset, ok := Preset(name)
		if !ok {
			return fmt.Errorf("retry policy: no policy is called %q; use %q, %q or an object", name, StandardName, UrgentName)
		}
		*p = preset
		return nil
	}
	var w wire
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return fmt.Errorf("retry policy: %w", err)
	}
	q := Policy{
		Name: w.Name, MaxAttempts: w.MaxAttempts, Stretch: w.Stretch,
		Base: time.Duration(w.Base), Cap: time.Duration(w.Cap), Window: time.Duration(w.Window),
	}
	for _, d := range w.Delays {
		q.Delays = append(q.Delays, time.Duration(d))
	}
	if err := q.Validate(); err != nil {
		return err
	}
	*p = q
	return nil
}

// Parse reads a policy from a flag or a file: the name of a built-in policy, or
// the JSON form.
func Parse(s string) (Policy, error) {
	s = strings.TrimSpace(s)
	if p, ok := Preset(s); ok {
		return p, nil
	}
	if !strings.HasPrefix(s, "{") {
		return Policy{}, fmt.Errorf("retry policy: no policy is called %q; use %q, %q or a JSON object", s, StandardName,
			UrgentName)
	}
	var p Policy
	dec := json.NewDecoder(strings.NewReader(s))
	if err := dec.Decode(&p); err != nil {
		if strings.HasPrefix(err.Error(), "retry policy: ") { // as UnmarshalJSON says it
			return Policy{}, err
		}
		return Policy{}, fmt.Errorf("retry policy: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Policy{}, errors.New("retry policy: has text after the JSON object; remove it")
	}
	return p, nil
}

// format writes a duration without the zero units that time.Duration adds: "10h", not "10h0m0s".
func format(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
