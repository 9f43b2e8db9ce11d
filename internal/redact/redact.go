// Package redact removes what looks like a secret or a personal identifier from
// text that a receiver sent, before it is put on record. It errs on the side of
// removing too much: an excerpt is a hint for debugging, not evidence.
package redact

import (
	"bytes"
	"regexp"
)

// Redactor replaces matches of its rules by a label in brackets. It is immutable
// and safe for concurrent use.
type Redactor struct {
	rules []rule
}

type rule struct {
	label string
	// hint reports cheaply whether the pattern can match at all; most answers are
	// a few harmless bytes and should not pay for a regular expression.
	hint    func(lower []byte) bool
	pattern *regexp.Regexp
	replace string
}

// Default returns the safe defaults: bearer and basic credentials, JSON web
// tokens, signing secrets, cookies, e-mail addresses, and runs of nine or more
// digits (also when grouped by single spaces, dots or hyphens).
func Default() *Redactor {
	return &Redactor{rules: []rule{
		newRule("secret", has("whsec_", "whsk_"), `(?i)\b(?:whsec|whsk)_[A-Za-z0-9+/=_-]+`, ""),
		newRule("jwt", has("eyj"), `eyJ[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*){1,4}`, ""),
		newRule("credentials", has("bearer", "basic"), `(?i)\b(bearer|basic)[ \t:]+["']?[A-Za-z0-9._~+/=-]+`, "$1 "),
		newRule("cookie", has("cookie"), `(?i)\b((?:set-)?cookie2?["']?[ \t]*[:=][ \t]*)[^\r\n]+`, "$1"),
		newRule("email", has("@", "%40", `\u0040`), `(?i)[\p{L}\p{N}._%+'-]+(?:@|%40|\\u0040)[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)*`, ""),
		newRule("digits", manyDigits, `\p{Nd}(?:[ .\x{2010}-\x{2015}\x{00a0}-]?\p{Nd}){8,}`, ""),
	}}
}

func newRule(label string, hint func([]byte) bool, pattern, keep string) rule {
	return rule{label: label, hint: hint, pattern: regexp.MustCompile(pattern), replace: keep + "[" + label + "]"}
}

func has(words ...string) func([]byte) bool {
	return func(lower []byte) bool {
		for _, w := range words {
			if bytes.Contains(lower, []byte(w)) {
				return true
			}
		}
		return false
	}
}

// manyDigits counts bytes outside ASCII as possible digits of another script.
func manyDigits(lower []byte) bool {
	n := 0
	for _, c := range lower {
		if c >= '0' && c <= '9' || c >= 0x80 {
			if n++; n >= 9 {
				return true
			}
		}
	}
	return false
}

// Redact returns b with every match replaced, and how many were. b is not
// changed; the result may share its memory when nothing matched. Pass valid
// UTF-8: a broken byte inside a secret would hide the rest of it.
func (r *Redactor) Redact(b []byte) (out []byte, removed int) {
	if len(b) == 0 {
		return b, 0
	}
	lower := bytes.ToLower(b)
	for _, rule := range r.rules {
		if !rule.hint(lower) {
			continue
		}
		n := len(rule.pattern.FindAllIndex(b, -1))
		if n == 0 {
			continue
		}
		removed += n
		b = rule.pattern.ReplaceAll(b, []byte(rule.replace))
	}
	return b, removed
}
