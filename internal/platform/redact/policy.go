package redact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
)

// MaxExcerpt is how much of a response's body may go on record, in bytes.
const MaxExcerpt = 1 << 10

// Policy is what a deployment sets. The zero value is the safe default.
type Policy struct {
	// ExcerptBytes is how much of each response's body goes on record: 0 for none
	// of it. Default: MaxExcerpt.
	ExcerptBytes *int `json:"excerpt_bytes,omitempty"`
	// Headers of responses to keep besides the usual ones.
	Headers []string `json:"headers,omitempty"`
	// DropHeaders are usual ones not to keep.
	DropHeaders []string `json:"drop_headers,omitempty"`
	// Patterns are removed besides what is known.
	Patterns []Pattern `json:"patterns,omitempty"`
	// Keys are names whose values are removed, besides those known.
	Keys []string `json:"keys,omitempty"`
	// Off are kinds not to remove.
	Off []Kind `json:"off,omitempty"`
	// Endpoints says what holds for one endpoint, by its id.
	Endpoints map[string]EndpointPolicy `json:"endpoints,omitempty"`
}

// EndpointPolicy is what holds for one endpoint instead.
type EndpointPolicy struct {
	ExcerptBytes *int `json:"excerpt_bytes,omitempty"`
}

// Pattern is a regular expression (RE2) whose matches are removed.
type Pattern struct {
	Kind    string `json:"kind"`
	Pattern string `json:"pattern"`
}

type compiled struct {
	kind Kind
	re   *regexp.Regexp
}

// maxPatterns bounds what each response costs.
const maxPatterns = 50

var (
	kindName   = regexp.MustCompile(`^[a-z][a-z_]{0,31}$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$")
	endpointID = regexp.MustCompile(`^ep_[0-9A-Za-z]{1,64}$`)
)

// Default carries out the safe defaults.
func Default() *Redactor {
	return &Redactor{excerpt: MaxExcerpt}
}

// New checks a policy and makes it ready.
func New(p Policy) (*Redactor, error) {
	r := &Redactor{excerpt: MaxExcerpt, off: map[Kind]bool{}, keys: map[string]Key{}, headers: map[string]bool{},
		only: map[string]int{}}
	var err error
	if r.excerpt, err = length("excerpt_bytes", p.ExcerptBytes); err != nil {
		return nil, err
	}
	for i, h := range append(slices.Clone(p.Headers), p.DropHeaders...) {
		name := http.CanonicalHeaderKey(h)
		switch {
		case !headerName.MatchString(h):
			return nil, fmt.Errorf("header %q: want the name of a response header, such as X-Error-Code", h)
		case i < len(p.Headers) && never(name):
			return nil, fmt.Errorf("headers: %q holds credentials by its purpose and is never kept; take it out of the list", h)
		}
		r.headers[name] = i < len(p.Headers)
	}
	if len(p.Patterns) > maxPatterns {
		return nil, fmt.Errorf("patterns: %d of them, at most %d: each costs time on every response; join some with |",
			len(p.Patterns), maxPatterns)
	}
	for i, x := range p.Patterns {
		c, err := compile(x)
		if err != nil {
			return nil, fmt.Errorf("patterns[%d]%w", i, err)
		}
		r.patterns = append(r.patterns, c)
	}
	for _, k := range p.Keys {
		parts := split(k)
		if len(parts) == 0 || len(k) > maxKey {
			return nil, fmt.Errorf("keys: %q: want the name of a member, such as kundennummer, of at most %d bytes", k, maxKey)
		}
		r.keys[strings.Join(parts, "")] = Key{Kind: Personal, What: "a value that the policy names"}
	}
	for _, k := range p.Off {
		if !slices.Contains(Kinds(), k) || k == Payload || k == Own {
			return nil, fmt.Errorf("off: %q is no kind that can be turned off; want one of %s", k,
				list(Kinds()[:len(Kinds())-2]))
		}
		r.off[k] = true
	}
	for id, e := range p.Endpoints {
		if !endpointID.MatchString(id) {
			return nil, fmt.Errorf("endpoints: %q is no endpoint id; see: waybill endpoint list", id)
		}
		if e.ExcerptBytes != nil {
			if r.only[id], err = length("endpoints."+id+".excerpt_bytes", e.ExcerptBytes); err != nil {
				return nil, err
			}
		}
	}
	return r, r.sum(p)
}

// sum names the policy by what it says.
func (r *Redactor) sum(p Policy) error {
	b, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("redaction policy: %w", err)
	}
	h := sha256.Sum256(b)
	r.digest = hex.EncodeToString(h[:])
	return nil
}

func list(kinds []Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

func compile(p Pattern) (compiled, error) {
	if !kindName.MatchString(p.Kind) {
		return compiled{}, fmt.Errorf(".kind: %q: want lower-case letters and _, such as ticket", p.Kind)
	}
	re, err := regexp.Compile(p.Pattern)
	if err != nil {
		return compiled{}, fmt.Errorf(".pattern: %w; see the syntax at https://github.com/google/re2/wiki/Syntax", err)
	}
	if p.Pattern == "" || re.MatchString("") {
		return compiled{}, fmt.Errorf(".pattern: %q matches nothing at all, an empty text; make it name what is to go",
			p.Pattern)
	}
	return compiled{Kind(p.Kind), re}, nil
}

func length(field string, n *int) (int, error) {
	if n == nil {
		return MaxExcerpt, nil
	}
	if *n < 0 || *n > MaxExcerpt {
		return 0, fmt.Errorf("%s: %d: want 0 (nothing is kept) to %d", field, *n, MaxExcerpt)
	}
	return *n, nil
}

// never says that a header holds credentials by its purpose.
func never(name string) bool {
	switch name {
	case "Set-Cookie", "Set-Cookie2", "Cookie", "Authorization", "Proxy-Authorization", "Authentication-Info",
		"Proxy-Authentication-Info",
		"X-Api-Key", "X-Auth-Token", "X-Csrf-Token":
		return true
	}
	return false
}

// Parse reads a policy in JSON.
func Parse(b []byte) (Policy, error) {
	var p Policy
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return p, fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return p, errors.New("not JSON: it ends before the object does")
		}
		return p, fmt.Errorf("%s; the fields are excerpt_bytes, headers, drop_headers, patterns, keys, off and endpoints",
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("there is more behind the object; want one JSON object")
	}
	return p, nil
}

// Load reads a policy from a file; excerpt, unless it is negative, wins over what
// the file says for all endpoints. An empty path is the default policy.
func Load(path string, excerpt int) (*Redactor, error) {
	var p Policy
	if path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%w; name a file that can be read", err)
		}
		if p, err = Parse(b); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if excerpt >= 0 {
		p.ExcerptBytes = &excerpt
	}
	r, err := New(p)
	if err != nil && path != "" {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, err
}

// Excerpt is how many bytes of a response of the endpoint may go on record.
func (r *Redactor) Excerpt(endpoint string) int {
	if n, ok := r.only[endpoint]; ok {
		return n
	}
	return r.excerpt
}

// Header says what the policy sets for a response header: keep it, drop it, or
// nothing. name is canonical.
func (r *Redactor) Header(name string) (keep, set bool) {
	keep, set = r.headers[name]
	return keep, set
}

// Digest names the policy: SHA-256 of what it sets; empty for the default.
func (r *Redactor) Digest() string { return r.digest }

// OwnKinds are those of the policy's own patterns, for whoever counts by kind from 0.
func (r *Redactor) OwnKinds() []Kind {
	var out []Kind
	for _, p := range r.patterns {
		if !slices.Contains(out, p.kind) && !slices.Contains(Kinds(), p.kind) {
			out = append(out, p.kind)
		}
	}
	return out
}
