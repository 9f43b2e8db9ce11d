package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
)

// endpointRules are the policies for some event types only.
type endpointRules struct {
	policyFor []string
	policies  []registry.PolicyRule // what policyFor means
}

func (e *endpointRules) bind(f *pflag.FlagSet) {
	f.StringArrayVar(&e.policyFor, "policy-for", nil, registry.FlagHelp("policy-for"))
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

func addRules(f *fields, e control.Endpoint) {
	for _, r := range e.Policies {
		name := r.Policy.Name
		if b, err := json.Marshal(r.Policy); err == nil && name == "" {
			name = string(b)
		}
		f.add("policy for", typesText(r.Types)+": "+name)
	}
}
