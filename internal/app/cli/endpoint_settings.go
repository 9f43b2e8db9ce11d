package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// endpointSettings are the flags that create and update share. Flags that say a
// setting as it is write into the spec.
type endpointSettings struct {
	spec        control.EndpointSpec
	policy      string
	rules       endpointRules
	credentials credentialSettings
}

// bind binds the flags of what can be changed; those of what cannot with fixed.
func (e *endpointSettings) bind(f *pflag.FlagSet, fixed bool) {
	e.spec = control.DefaultSpec()
	for _, s := range registry.Settings() {
		if s.Flag.Name != "" && (fixed || !s.Fixed) {
			bindSetting(f, s.Flag, e.spec.Setting(s.Name))
		}
	}
	f.StringVar(&e.policy, "policy", "", registry.FlagHelp("policy"))
	e.rules.bind(f)
	e.credentials.bind(f)
}

// bindSetting lets a flag set what a pointer points to, which is its default.
func bindSetting(f *pflag.FlagSet, flag registry.Flag, to any) {
	switch v := to.(type) {
	case *string:
		f.StringVar(v, flag.Name, *v, flag.Help)
	case *envelope.Scheme:
		f.StringVar((*string)(v), flag.Name, string(*v), flag.Help)
	case *registry.Ordering:
		f.StringVar((*string)(v), flag.Name, string(*v), flag.Help)
	case *[]string:
		f.StringSliceVar(v, flag.Name, *v, flag.Help)
	case *control.Duration:
		f.DurationVar((*time.Duration)(v), flag.Name, time.Duration(*v), flag.Help)
	case *int:
		f.IntVar(v, flag.Name, *v, flag.Help)
	case *float64:
		f.Float64Var(v, flag.Name, *v, flag.Help)
	case *bool:
		f.BoolVar(v, flag.Name, *v, flag.Help)
	default:
		panic(fmt.Sprintf("cli: --%s has the type %T, which no flag reads", flag.Name, to))
	}
	if flag.Env != "" {
		process.SetEnv(f, flag.Name, flag.Env)
	}
}

// check finds what is wrong without asking anybody, and completes the spec.
func (e *endpointSettings) check() error {
	for _, s := range registry.Settings() {
		if s.Flag.Name == "" {
			continue
		}
		if err := e.spec.Early(s); err != nil {
			return wrongFlag(s.Flag.Name, err)
		}
	}
	if err := firstError(e.rules.check(), e.credentials.read()); err != nil {
		return err
	}
	e.spec.Policies = e.rules.policies
	e.credentials.addTo(&e.spec)
	var err error
	e.spec.Policy, err = readPolicy(e.policy)
	return err
}

func wrongFlag(flag string, err error) error {
	var wrong *registry.Wrong
	if errors.As(err, &wrong) {
		return process.Usagef("--%s %s: want %s", flag, wrong.Got, wrong.Want)
	}
	return process.Usagef("--%s: %w", flag, err)
}

// readPolicy reads a schedule. nil: the default.
func readPolicy(given string) (*retry.Policy, error) {
	if given == "" || given == "default" {
		return nil, nil
	}
	text, err := readValue("policy", given)
	if err != nil {
		return nil, err
	}
	p, err := retry.Parse(text)
	if err != nil {
		return nil, process.Usagef("--policy: %w", err)
	}
	return &p, nil
}

// patch holds what the command line or the environment named.
func (e *endpointSettings) patch(f *pflag.FlagSet) control.EndpointPatch {
	var names []string
	for _, s := range registry.Settings() {
		named := slices.ContainsFunc(s.AllFlags(), func(flag registry.Flag) bool { return f.Changed(flag.Name) })
		if !s.Own && named || e.credentials.names(s.Name) {
			names = append(names, s.Name)
		}
	}
	return control.Patch(e.spec, names...)
}

// shownApart are the settings whose rows endpoint show puts together.
var shownApart = map[string]func(*fields, control.Endpoint){
	"description": func(f *fields, e control.Endpoint) {
		f.add("description", e.Description)
		f.add("state", spaced(string(e.State), e.StateReason))
	},
	"scheme": func(f *fields, e control.Endpoint) {
		f.add("signing", spaced(string(e.Scheme), e.SignatureHeader))
		for _, k := range e.Keys {
			f.add("key", keyText(k))
		}
	},
	"signature_header":   func(*fields, control.Endpoint) {},
	"policy":             func(f *fields, e control.Endpoint) { f.add("policy", policyText(e)) },
	"policies":           addRules,
	"client_certificate": addClientCertificate,
	"ca":                 addCA,
	"oauth2":             addOAuth2,
	"disable_after":      addDisableAfter,
}

// addSettings shows them in their order.
func (f *fields) addSettings(e control.Endpoint) {
	order := slices.Clone(registry.Settings())
	slices.SortStableFunc(order, func(a, b registry.Setting) int {
		last := len(order)
		return cmp.Compare(cmp.Or(a.Shown, last), cmp.Or(b.Shown, last))
	})
	for _, s := range order {
		if apart := shownApart[s.Name]; apart != nil {
			apart(f, e)
			continue
		}
		f.add(s.Title, settingText(e.Setting(s.Name)))
	}
}

// settingText is a setting as people read it. Empty: it is not set.
func settingText(of any) string {
	switch v := of.(type) {
	case *string:
		return *v
	case *registry.Ordering:
		return string(*v)
	case *[]string:
		return strings.Join(*v, ", ")
	case *control.Duration:
		if *v > 0 {
			return v.String()
		}
	case *int:
		if *v > 0 {
			return strconv.Itoa(*v)
		}
	case *float64:
		if *v > 0 {
			return strconv.FormatFloat(*v, 'g', -1, 64)
		}
	case *bool:
		if *v {
			return "yes"
		}
	default:
		panic(fmt.Sprintf("cli: a setting has the type %T, which nothing shows", of))
	}
	return ""
}
