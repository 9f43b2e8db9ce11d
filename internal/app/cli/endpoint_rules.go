package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
)

// endpointRules are the flags that say how an endpoint's deliveries are spread
// over time; create and update share them.
type endpointRules struct {
	policyFor    []string
	policies     []registry.PolicyRule // what policyFor means
	maxPerSecond float64
}

func (e *endpointRules) bind(f *pflag.FlagSet) {
	f.StringArrayVar(&e.policyFor, "policy-for", nil, "policy for some event types only, TYPES=POLICY as in "+
		"'lab_result.*=urgent'; repeatable, the first that matches wins; '' removes all")
	f.Float64Var(&e.maxPerSecond, "max-per-second", 0,
		"requests a second of all dispatchers together, such as 0.5; 0 for no limit")
}

func (e *endpointRules) check() error {
	e.policies = []registry.PolicyRule{}
	for _, text := range e.policyFor {
		if text == "" {
			continue
		}
		rule, err := parsePolicyRule(text)
		if err != nil {
			return process.Usagef("--policy-for: %w", err)
		}
		e.policies = append(e.policies, rule)
	}
	if r := e.maxPerSecond; r != 0 && !(r >= registry.MinMaxPerSecond && r <= registry.MaxMaxPerSecond) {
		return process.Usagef("--max-per-second %v: want %v to %v, or 0 for no limit", r, registry.MinMaxPerSecond,
			registry.MaxMaxPerSecond)
	}
	return nil
}

func parsePolicyRule(text string) (registry.PolicyRule, error) {
	types, policy, ok := strings.Cut(text, "=")
	rule := registry.PolicyRule{Types: registry.ParseTypes(types)}
	if !ok || len(rule.Types) == 0 {
		return rule, fmt.Errorf("%.60q: want TYPES=POLICY, as in 'lab_result.*=urgent'", text)
	}
	for _, t := range rule.Types {
		if err := subscription.Validate(t); err != nil {
			return rule, err
		}
	}
	value, err := readValue("policy-for", policy)
	if err != nil {
		return rule, err
	}
	rule.Policy, err = retry.Parse(value)
	return rule, err
}

func (e *endpointRules) spec(s *control.EndpointSpec) {
	s.Policies, s.MaxPerSecond = e.policies, e.maxPerSecond
}

func (e *endpointRules) patch(f *pflag.FlagSet, p *control.EndpointPatch) {
	if f.Changed("policy-for") {
		p.Policies = &e.policies
	}
	if f.Changed("max-per-second") {
		p.MaxPerSecond = &e.maxPerSecond
	}
}

// addRules shows what differs from the default.
func (f *fields) addRules(e control.Endpoint) {
	for _, r := range e.Policies {
		name := r.Policy.Name
		if b, err := json.Marshal(r.Policy); err == nil && name == "" {
			name = string(b)
		}
		f.add("policy for", typesText(r.Types)+": "+name)
	}
	f.add("ordering", string(e.Ordering))
	if e.MaxPerSecond > 0 {
		f.add("max per second", strconv.FormatFloat(e.MaxPerSecond, 'g', -1, 64))
	}
}
