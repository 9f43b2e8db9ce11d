package escalation

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// Defaults and bounds of a policy.
const (
	DefaultPriority    = 100
	DefaultRepeat      = 15 * time.Minute
	DefaultMaxDuration = 24 * time.Hour
	DefaultWindow      = 30 * time.Second

	// MaxMaxDuration keeps an incident shorter than the time that its bucket
	// keeps what nobody changes.
	MaxMaxDuration = 72 * time.Hour
	minRepeat      = time.Minute
	minWindow      = time.Second
	maxWindow      = 10 * time.Minute
	maxSteps       = 10
	maxChannels    = 10
	maxMatches     = 100
)

// Nobody is the channel of the default policy. It reaches no person: what it
// gets is logged as an error, counted, and published on an alert subject.
const Nobody = "(nobody)"

// Policy says who is told of which dead letters, when. Its Name is its key.
// Durations are in nanoseconds in JSON, as Go writes them.
type Policy struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Priority orders policies: of those that match, the lowest counts; of
	// equals the first by name.
	Priority int `json:"priority"`

	// What it is for; an empty list matches everything.
	Tenants []string `json:"tenants,omitempty"`
	Types   []string `json:"types,omitempty"` // patterns of event types, see package subscription
	Reasons []string `json:"reasons,omitempty"`

	Steps []Step `json:"steps"`
	// Repeat starts the steps anew, so long after the incident began and again,
	// until a named person acknowledges. 0: never.
	Repeat time.Duration `json:"repeat"`
	// MaxDuration ends the incident also when nobody acknowledged.
	MaxDuration time.Duration `json:"max_duration"`
	// Window groups what comes after the first dead letter: one message per
	// channel in each window.
	Window time.Duration `json:"window"`

	revision.Meta
	Deleted bool `json:"deleted,omitempty"`
}

// Step is who is told how long after the incident began.
type Step struct {
	After    time.Duration `json:"after"`
	Channels []string      `json:"channels"` // names
}

// Policies is how policies are kept.
func Policies() revision.Kind[Policy] {
	return revision.Kind[Policy]{Bucket: streams.EscalationPoliciesBucket, Name: "escalation policy",
		See:        "waybill escalation-policy list",
		Meta:       func(p *Policy) *revision.Meta { return &p.Meta },
		Deleted:    func(p *Policy) bool { return p.Deleted },
		SetDeleted: func(p *Policy, is bool) { p.Deleted = is }}
}

// Default is the policy of what no policy matches.
func Default() Policy {
	return Policy{Name: "(default)", Steps: []Step{{Channels: []string{Nobody}}}, Repeat: DefaultRepeat,
		MaxDuration: DefaultMaxDuration, Window: DefaultWindow}
}

// Matches says whether the policy is for a problem.
func (p Policy) Matches(t Problem) bool {
	return has(p.Tenants, t.Tenant) && has(p.Reasons, t.Reason) &&
		(len(p.Types) == 0 || subscription.MatchAny(p.Types, t.EventType))
}

func has(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }

// Choose returns the policy for a problem. Pure.
func Choose(policies []Policy, t Problem) Policy {
	best := Default()
	found := false
	for _, p := range policies {
		if p.Matches(t) && (!found || p.Priority < best.Priority || p.Priority == best.Priority && p.Name < best.Name) {
			best, found = p, true
		}
	}
	return best
}

// WithDefaults fills what was left out. A repeat that is to be none is negative.
func (p Policy) WithDefaults() Policy {
	if p.Priority == 0 {
		p.Priority = DefaultPriority
	}
	if p.Repeat == 0 {
		p.Repeat = DefaultRepeat
	}
	p.Repeat = max(p.Repeat, 0)
	if p.MaxDuration == 0 {
		p.MaxDuration = DefaultMaxDuration
	}
	if p.Window == 0 {
		p.Window = DefaultWindow
	}
	return p
}

func wrong(field, format string, args ...any) error {
	return &channel.FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// Validate says which setting is wrong, the first one only. Whether the
// channels exist is for whoever stores the policy to look up.
func (p Policy) Validate() error {
	if err := channel.ValidateName(p.Name); err != nil {
		return err
	}
	switch {
	case len(p.Description) > 500:
		return wrong("description", "at most 500 bytes")
	case p.Priority < 1 || p.Priority > 10_000:
		return wrong("priority", "%d; want 1 to 10000, the lowest counts first", p.Priority)
	case len(p.Tenants) > maxMatches || len(p.Reasons) > maxMatches:
		return wrong("tenants", "at most %d, and as many reasons", maxMatches)
	case p.Window < minWindow || p.Window > maxWindow:
		return wrong("window", "%s; want %s to %s", p.Window, minWindow, maxWindow)
	case p.MaxDuration < time.Minute || p.MaxDuration > MaxMaxDuration:
		return wrong("max_duration", "%s; want 1m to %s", p.MaxDuration, MaxMaxDuration)
	}
	for _, t := range p.Tenants {
		if err := envelope.ValidateTenant(t); err != nil {
			return wrong("tenants", "%v", err)
		}
	}
	if len(p.Types) > subscription.MaxPatterns {
		return wrong("types", "at most %d patterns", subscription.MaxPatterns)
	}
	for _, t := range p.Types {
		if err := subscription.Validate(t); err != nil {
			return err
		}
	}
	for _, r := range p.Reasons {
		if r == "" || len(r) > 64 {
			return wrong("reasons", "%.70q; want reason codes, such as endpoint_unreachable", r)
		}
	}
	return p.validateSteps()
}

func (p Policy) validateSteps() error {
	if len(p.Steps) == 0 || len(p.Steps) > maxSteps {
		return wrong("steps", "want 1 to %d, got %d", maxSteps, len(p.Steps))
	}
	for i, s := range p.Steps {
		switch {
		case i == 0 && s.After != 0:
			return wrong("steps", "the first step is after %s; it MUST be after 0s, so that the first dead letter is told at "+
				"once", s.After)
		case i > 0 && s.After <= p.Steps[i-1].After:
			return wrong("steps", "step %d is after %s, not later than the step before it", i+1, s.After)
		case s.After >= p.MaxDuration:
			return wrong("steps", "step %d is after %s, when the incident is over (max_duration %s)", i+1, s.After,
				p.MaxDuration)
		case len(s.Channels) == 0 || len(s.Channels) > maxChannels:
			return wrong("steps", "step %d has %d channels; want 1 to %d", i+1, len(s.Channels), maxChannels)
		}
		seen := map[string]bool{}
		for _, c := range s.Channels {
			if channel.ValidateName(c) != nil || seen[c] {
				return wrong("steps", "step %d: channel %.80q is no name, or named twice", i+1, c)
			}
			seen[c] = true
		}
	}
	last := p.Steps[len(p.Steps)-1].After
	if p.Repeat != 0 && (p.Repeat < minRepeat || p.Repeat <= last) {
		return wrong("repeat", "%s; want at least %s, and longer than the last step (%s); 0s for no repeat", p.Repeat,
			minRepeat, last)
	}
	return nil
}

// ChannelNames are all channels of the policy, each once.
func (p Policy) ChannelNames() []string {
	var out []string
	for _, s := range p.Steps {
		for _, c := range s.Channels {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}
