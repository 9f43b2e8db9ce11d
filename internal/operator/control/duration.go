package control

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time.Duration that JSON writes the way people do: "10s", "1h30m".
type Duration time.Duration

// String is the short form: 10h, not 10h0m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration does.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf(`%.40q is not a duration; write it like "10s" or "1h30m"`, b)
	}
	*d = Duration(v)
	return nil
}
