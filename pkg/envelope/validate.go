package envelope

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxIDBytes bounds an event id: it travels in headers and in every record.
	MaxIDBytes = 128
	// MaxTypeBytes and MaxTypeTokens bound an event type, which becomes part of
	// a NATS subject.
	MaxTypeBytes  = 128
	MaxTypeTokens = 16
	// MaxTenantBytes bounds a tenant, which is one token of a NATS subject.
	MaxTenantBytes = 64
	// MaxSubjectBytes bounds each part of a Subject.
	MaxSubjectBytes = 256

	// maxTimeBytes bounds a timestamp, whose fraction RFC 3339 leaves open.
	maxTimeBytes = 64
	// The years that a count of nanoseconds in 64 bits and ClickHouse's
	// DateTime64(9) can both hold in full. An event outside them could not be
	// put on record.
	minYear, maxYear = 1900, 2261
)

// FieldError says which part of an event is wrong. Field is the key as the
// producer writes it ("deliver_by", "subject.id"), or "event" when no single
// key is at fault.
type FieldError struct {
	Field  string
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

func fieldErrorf(field, format string, args ...any) *FieldError {
	return &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// ValidateID reports whether s can be an event id: 1 to 128 visible ASCII
// characters that need no escaping in a header or in JSON: no space, quote,
// backslash or comma. A full stop is allowed, although signatures cover
// "id.timestamp.body": our timestamp is digits and our body a JSON object, so
// no signature can stand for two messages. The error is a *FieldError.
func ValidateID(s string) error {
	if s == "" {
		return &FieldError{"id", "empty"}
	}
	if len(s) > MaxIDBytes {
		return fieldErrorf("id", "%d characters long; at most %d", len(s), MaxIDBytes)
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ' || c > '~' || c == '"' || c == '\\' || c == ',':
			return fieldErrorf("id", "%s at byte %d; use visible ASCII without space, quote, backslash or comma",
				describe(s[i:]), i)
		}
	}
	return nil
}

// ValidateType reports whether s can be an event type: 1 to 16 tokens of
// letters, digits, '_' and '-', separated by full stops, 128 characters at
// most. The error is a *FieldError.
func ValidateType(s string) error {
	if s == "" {
		return &FieldError{"type", "empty"}
	}
	if len(s) > MaxTypeBytes {
		return fieldErrorf("type", "%d characters long; at most %d", len(s), MaxTypeBytes)
	}
	tokens, start := 1, 0
	for i := 0; i <= len(s); i++ {
		if i == len(s) || s[i] == '.' {
			if i == start {
				return fieldErrorf("type", "an empty token at byte %d; write tokens separated by single full stops, like "+
					"lab_result.critical", i)
			}
			if i < len(s) {
				tokens, start = tokens+1, i+1
			}
			continue
		}
		if !isTokenByte(s[i]) {
			return fieldErrorf("type", "%s at byte %d; use letters, digits, '_' and '-' in tokens separated by full stops",
				describe(s[i:]), i)
		}
	}
	if tokens > MaxTypeTokens {
		return fieldErrorf("type", "%d tokens; at most %d", tokens, MaxTypeTokens)
	}
	return nil
}

// ValidateTenant reports whether s can be a tenant: one token of 1 to 64
// letters, digits, '_' and '-'. The error is a *FieldError.
func ValidateTenant(s string) error {
	if s == "" {
		return &FieldError{"tenant", "empty"}
	}
	if len(s) > MaxTenantBytes {
		return fieldErrorf("tenant", "%d characters long; at most %d", len(s), MaxTenantBytes)
	}
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return fieldErrorf("tenant", "%s at byte %d; use letters, digits, '_' and '-'", describe(s[i:]), i)
		}
	}
	return nil
}

// Validate checks an event that was put together from fields by the rules that
// Parse applies. The error is a *FieldError.
func (e Event) Validate() error {
	if err := ValidateID(e.ID); err != nil {
		return err
	}
	if err := ValidateType(e.Type); err != nil {
		return err
	}
	if e.RawTimestamp != "" {
		if _, err := parseTime("timestamp", e.RawTimestamp); err != nil {
			return err
		}
	} else if err := checkYear("timestamp", e.Timestamp); err != nil {
		return err
	}
	if !e.DeliverBy.IsZero() {
		if err := checkYear("deliver_by", e.DeliverBy); err != nil {
			return err
		}
	}
	if e.Subject != nil {
		if err := e.Subject.validate(); err != nil {
			return err
		}
	}
	return validateData(e.Data)
}

func (s *Subject) validate() error {
	if err := validateSubjectPart("subject.type", s.Type); err != nil {
		return err
	}
	return validateSubjectPart("subject.id", s.ID)
}

func validateSubjectPart(field, s string) error {
	if s == "" {
		return &FieldError{field, "empty"}
	}
	if len(s) > MaxSubjectBytes {
		return fieldErrorf(field, "%d bytes long; at most %d", len(s), MaxSubjectBytes)
	}
	for i, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return fieldErrorf(field, "%s at byte %d; use printable characters", describe(s[i:]), i)
		}
	}
	return nil
}

// validateData checks one JSON value as deep as it may be inside an event.
func validateData(b []byte) error {
	if len(b) == 0 {
		return &FieldError{"data", "missing; use null for an event without data"}
	}
	s := scanner{b: b, depth: 1}
	s.space()
	err := s.value()
	if err == nil {
		if s.space(); s.i < len(b) {
			err = s.syntax("more bytes after the value")
		}
	}
	if err != nil {
		err.Field = "data"
		return err
	}
	return nil
}

// parseTime reads s by the letter of RFC 3339, which lets t and z be in lower case.
// Package time alone would also take one-digit hours, a comma before the fraction
// and offsets of a day. A leap second is refused: no time of ours has one.
func parseTime(field, s string) (time.Time, error) {
	if len(s) > maxTimeBytes {
		return time.Time{}, fieldErrorf(field, "%d characters long; at most %d", len(s), maxTimeBytes)
	}
	upper := strings.ToUpper(s)
	t, err := time.Parse(time.RFC3339, upper)
	if err != nil && leapSecond(upper) {
		return time.Time{}, fieldErrorf(field, "a leap second cannot be put on record: %q; give the second before or after it", s)
	}
	if err != nil || !isRFC3339(upper) {
		return time.Time{}, fieldErrorf(field, "not an RFC 3339 time: %q", s)
	}
	if err := checkYear(field, t); err != nil {
		return time.Time{}, err
	}
	return t, nil
}

// leapSecond reports whether s is a time but for its second, which is the 60th.
func leapSecond(s string) bool {
	const second = len("2006-01-02T15:04:")
	if len(s) < second+2 || s[second:second+2] != "60" {
		return false
	}
	before := s[:second] + "59" + s[second+2:]
	_, err := time.Parse(time.RFC3339, before)
	return err == nil && isRFC3339(before)
}

// isRFC3339 checks the form that package time leaves open: every digit in its
// place, a full stop before the fraction, an offset under a day.
func isRFC3339(s string) bool {
	const form = "0000-00-00T00:00:00"
	if len(s) <= len(form) || !hasForm(s[:len(form)], form) {
		return false
	}
	zone := s[len(form):]
	if zone[0] == '.' {
		digits := 1
		for digits < len(zone) && '0' <= zone[digits] && zone[digits] <= '9' {
			digits++
		}
		if zone = zone[digits:]; digits == 1 {
			return false
		}
	}
	if zone == "Z" {
		return true
	}
	return (hasForm(zone, "+00:00") || hasForm(zone, "-00:00")) && zone[1:3] < "24" && zone[4:] < "60"
}

// hasForm reports whether s is form with any digit for each 0.
func hasForm(s, form string) bool {
	if len(s) != len(form) {
		return false
	}
	for i := range len(s) {
		if digit := '0' <= s[i] && s[i] <= '9'; form[i] == '0' && !digit || form[i] != '0' && s[i] != form[i] {
			return false
		}
	}
	return true
}

func checkYear(field string, t time.Time) error {
	if y := t.UTC().Year(); y < minYear || y > maxYear {
		return fieldErrorf(field, "year %d; only %d to %d can be put on record", y, minYear, maxYear)
	}
	return nil
}

func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// describe names the first character of s for an error message.
func describe(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && size <= 1:
		return fmt.Sprintf("invalid UTF-8 (0x%02x)", s[0])
	case r == ' ':
		return "a space"
	case unicode.IsPrint(r):
		return "'" + string(r) + "'"
	}
	return fmt.Sprintf("the character U+%04X", r)
}
