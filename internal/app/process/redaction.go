package process

import (
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/platform/redact"
)

// Redaction are the flags that say what of receivers' answers goes on record.
type Redaction struct {
	File    string
	Excerpt int
}

// Bind adds the flags.
func (r *Redaction) Bind(f *pflag.FlagSet) {
	f.StringVar(&r.File, "redaction-policy", "", "JSON file that says what of receivers' answers goes on record, see "+
		"docs/redaction.md (default: the safe one); try it with: waybill redact test")
	f.IntVar(&r.Excerpt, "response-excerpt", -1, "how many bytes of each response's body may go on record, 0 (nothing) "+
		"to 1024; -1: what the policy says")
}

// BindPolicy adds the flag of a program that keeps no excerpts, but the text of errors.
func (r *Redaction) BindPolicy(f *pflag.FlagSet) {
	r.Excerpt = -1
	f.StringVar(&r.File, "redaction-policy", "", "JSON file that says what of the words of channels' servers goes on "+
		"record, see docs/redaction.md; give every program the same one (default: the safe one)")
}

// Load reads and checks the policy.
func (r *Redaction) Load() (*redact.Redactor, error) {
	if r.Excerpt < -1 || r.Excerpt > redact.MaxExcerpt {
		return nil, Usagef("--response-excerpt %d: want 0 to %d, or -1 for what the policy says", r.Excerpt,
			redact.MaxExcerpt)
	}
	policy, err := redact.Load(r.File, r.Excerpt)
	if err != nil {
		return nil, Usagef("--redaction-policy: %w", err)
	}
	return policy, nil
}
