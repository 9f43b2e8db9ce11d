package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
)

// EscalationStep is who is told how long after the first dead letter.
type EscalationStep struct {
	After    Duration `json:"after"`
	Channels []string `json:"channels"`
}

// EscalationPolicySpec makes a policy.
type EscalationPolicySpec struct {
	Name        string           `json:"name"`
	Description string           `json:"description"`
	Priority    int              `json:"priority"` // default 100; the lowest counts
	Tenants     []string         `json:"tenants"`  // empty: every one; likewise types and reasons
	Types       []string         `json:"types"`
	Reasons     []string         `json:"reasons"`
	Steps       []EscalationStep `json:"steps"`
	Repeat      *Duration        `json:"repeat"`       // default 15m; 0s: never
	MaxDuration Duration         `json:"max_duration"` // default 24h
	Window      Duration         `json:"window"`       // default 30s
	Reason      string           `json:"reason"`       // why, for the record. Optional
}

// EscalationPolicy is a policy as people are shown it.
type EscalationPolicy struct {
	Name        string           `json:"name"`
	Description string           `json:"description,omitempty"`
	Priority    int              `json:"priority"`
	Tenants     []string         `json:"tenants"`
	Types       []string         `json:"types"`
	Reasons     []string         `json:"reasons"`
	Steps       []EscalationStep `json:"steps"`
	Repeat      Duration         `json:"repeat"`
	MaxDuration Duration         `json:"max_duration"`
	Window      Duration         `json:"window"`
	Revision    uint64           `json:"revision"`
	UpdatedBy   string           `json:"updated_by"`
	UpdatedAt   time.Time        `json:"updated_at,omitzero"`
}

func showPolicy(p escalation.Policy) EscalationPolicy {
	out := EscalationPolicy{Name: p.Name, Description: p.Description, Priority: p.Priority, Tenants: orEmpty(p.Tenants),
		Types:   orEmpty(p.Types),
		Reasons: orEmpty(p.Reasons), Repeat: Duration(p.Repeat), MaxDuration: Duration(p.MaxDuration),
		Window:   Duration(p.Window),
		Revision: p.Revision, UpdatedBy: p.UpdatedBy, UpdatedAt: p.UpdatedAt}
	for _, s := range p.Steps {
		out.Steps = append(out.Steps, EscalationStep{Duration(s.After), s.Channels})
	}
	return out
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// CreateEscalationPolicy makes a policy of channels that exist. It counts from
// the next dead letter on.
func (c *Control) CreateEscalationPolicy(ctx context.Context, s EscalationPolicySpec, actor string) (EscalationPolicy,
	error) {
	if err := errors.Join(checkActor(actor), checkReason(s.Reason, false), checkDescription(&s.Description)); err != nil {
		return EscalationPolicy{}, rejected(err)
	}
	p := escalation.Policy{Name: s.Name, Description: s.Description, Priority: s.Priority, Tenants: distinct(s.Tenants),
		Types:   distinct(s.Types),
		Reasons: distinct(s.Reasons), Steps: stepsOf(s.Steps), MaxDuration: time.Duration(s.MaxDuration),
		Window: time.Duration(s.Window)}
	if s.Repeat != nil {
		p.Repeat = time.Duration(*s.Repeat)
		if p.Repeat == 0 {
			p.Repeat = -1
		}
	}
	p = p.WithDefaults()
	if err := p.Validate(); err != nil {
		return EscalationPolicy{}, rejected(err)
	}
	if err := c.checkChannels(ctx, p); err != nil {
		return EscalationPolicy{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	p, err := c.policies.Create(ctx, p.Name, p, revision.Change{Actor: actor, Action: "created", Reason: s.Reason})
	if err != nil {
		return EscalationPolicy{}, failed(err)
	}
	return showPolicy(p), nil
}

// checkChannels refuses a policy that names a channel that is not there.
func (c *Control) checkChannels(ctx context.Context, p escalation.Policy) error {
	for _, name := range p.ChannelNames() {
		if _, err := c.channel(ctx, name); err != nil {
			var known *Error
			if errors.As(err, &known) && known.Code == CodeNotFound {
				return &Error{Code: CodeInvalid, Field: "steps",
					Err: fmt.Errorf("there is no channel %q; make it first: waybill channel create %s", name, name)}
			}
			return err
		}
	}
	return nil
}

// EscalationPolicyPatch changes the settings that are not nil.
type EscalationPolicyPatch struct {
	Description *string           `json:"description"`
	Priority    *int              `json:"priority"`
	Tenants     *[]string         `json:"tenants"` // empty: every one; likewise types and reasons
	Types       *[]string         `json:"types"`
	Reasons     *[]string         `json:"reasons"`
	Steps       *[]EscalationStep `json:"steps"`  // all of them
	Repeat      *Duration         `json:"repeat"` // 0s: never
	MaxDuration *Duration         `json:"max_duration"`
	Window      *Duration         `json:"window"`
}

func (p EscalationPolicyPatch) apply(to *escalation.Policy) {
	set(p.Description, &to.Description)
	set(p.Priority, &to.Priority)
	setDistinct(p.Tenants, &to.Tenants)
	setDistinct(p.Types, &to.Types)
	setDistinct(p.Reasons, &to.Reasons)
	set((*time.Duration)(p.Repeat), &to.Repeat)
	set((*time.Duration)(p.MaxDuration), &to.MaxDuration)
	set((*time.Duration)(p.Window), &to.Window)
	if p.Steps != nil {
		to.Steps = stepsOf(*p.Steps)
	}
}

func setDistinct(from, to *[]string) {
	if from != nil {
		*to = distinct(*from)
	}
}

func stepsOf(steps []EscalationStep) (out []escalation.Step) {
	for _, s := range steps {
		out = append(out, escalation.Step{After: time.Duration(s.After), Channels: s.Channels})
	}
	return out
}

// UpdateEscalationPolicy changes what the patch names. It counts from the next
// dead letter on; incidents under it go on as they began.
func (c *Control) UpdateEscalationPolicy(ctx context.Context, name string, patch EscalationPolicyPatch, actor,
	reason string) (EscalationPolicy, error) {
	if err := errors.Join(checkActor(actor), checkReason(reason, false), checkDescription(patch.Description)); err != nil {
		return EscalationPolicy{}, rejected(err)
	}
	if patch == (EscalationPolicyPatch{}) {
		return EscalationPolicy{}, failure(CodeInvalid, "the change is empty; name at least one setting")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	p, err := c.policies.Update(ctx, name, revision.Change{Actor: actor, Action: "updated", Reason: reason},
		func(p *escalation.Policy) error {
			patch.apply(p)
			if err := p.Validate(); err != nil {
				return rejected(err)
			}
			return c.checkChannels(ctx, *p)
		})
	if err != nil {
		return EscalationPolicy{}, failed(err)
	}
	return showPolicy(p), nil
}

// EscalationPolicies lists the policies, by name.
func (c *Control) EscalationPolicies(ctx context.Context) ([]EscalationPolicy, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.policies.List(ctx)
	if err != nil {
		return nil, failed(err)
	}
	out := make([]EscalationPolicy, len(list))
	for i, p := range list {
		out[i] = showPolicy(p)
	}
	return out, nil
}

// EscalationPolicy returns one policy.
func (c *Control) EscalationPolicy(ctx context.Context, name string) (EscalationPolicy, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	p, err := c.policies.Get(ctx, name)
	return showPolicy(p), failed(err)
}

// DeleteEscalationPolicy ends a policy. Incidents under it go on as they began.
func (c *Control) DeleteEscalationPolicy(ctx context.Context, name, actor, reason string) (EscalationPolicy, error) {
	if err := errors.Join(checkActor(actor), checkReason(reason, false)); err != nil {
		return EscalationPolicy{}, rejected(err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	p, err := c.policies.Delete(ctx, name, actor, reason)
	if err != nil {
		return EscalationPolicy{}, failed(err)
	}
	return showPolicy(p), nil
}

// Uncovered says for whom nobody is told of a dead letter: "" when every tenant
// has a policy for every type and reason.
func Uncovered(policies []EscalationPolicy) string {
	for _, p := range policies {
		if len(p.Tenants) == 0 && len(p.Reasons) == 0 && (len(p.Types) == 0 || contains(p.Types, ">")) {
			return ""
		}
	}
	if len(policies) == 0 {
		return "nobody is told of any dead letter: there is no escalation policy"
	}
	return "nobody is told of dead letters that no policy matches: make one without --tenant, --types and --reasons"
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}
