package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/control"
	"github.com/waybill-dev/waybill/internal/process"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/internal/retry"
	"github.com/waybill-dev/waybill/internal/subscription"
)

// endpointRules are the flags that say how an endpoint's deliveries are spread
// over time; create and update share them.
type endpointRules struct {
	policyFor []string
	policies  []registry.PolicyRule // what policyFor means
}

func (e *endpointRules) bind(f *pflag.FlagSet) {
	f.StringArrayVar(&e.policyFor, "policy-for", nil, "policy for some event types only, TYPES=POLICY as in 'lab_result.*=urgent'; repeatable, the first that matches wins; '' removes all")
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

func (e *endpointRules) spec(s *control.EndpointSpec) { s.Policies = e.policies }

func (e *endpointRules) patch(f *pflag.FlagSet, p *control.EndpointPatch) {
	if f.Changed("policy-for") {
		p.Policies = &e.policies
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
}
