package control

import (
	"reflect"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/registry"
)

// A setting that a struct does not have would be lost without a word.
func TestEverySettingIsInEveryStruct(t *testing.T) {
	for _, s := range registry.Settings() {
		for what, known := range map[string]map[string][]int{"EndpointSpec": inSpec, "Endpoint": inShown,
			"registry.Endpoint": inRegistry} {
			if known[s.Name] == nil {
				t.Errorf("%s has no %s", what, s.Name)
			}
		}
	}
	inTable := registry.SettingNames(func(registry.Setting) bool { return true })
	if want := len(inTable) + len([]string{"tenant", "secret"}); len(inSpec) != want {
		t.Errorf("a spec has %d settings, the table with tenant and secret %d", len(inSpec), want)
	}
}

func TestCopySettingsTakesEachFromTheSpecToWhatIsShown(t *testing.T) {
	policy, never := retry.Urgent(), Duration(0)
	spec := EndpointSpec{URL: "https://a.example.com", Types: []string{"a"}, Description: "d",
		Scheme: "t,v1", SignatureHeader: "X-Sig", Timeout: Duration(time.Second), MaxInFlight: 3, Policy: &policy,
		DeliverWithin: Duration(time.Minute), DisableAfter: &never,
		EgressProxy: "http://p:1", Policies: []registry.PolicyRule{{Types: []string{"b"}}}, Ordering: registry.FIFO,
		SharedSettings: registry.SharedSettings{MaxPerSecond: 2.5}}
	e := registry.Endpoint{DisableAfter: registry.DefaultDisableAfter}
	copySettings(&spec, &e, plain)
	var shown Endpoint
	copySettings(&e, &shown, plain)
	for _, name := range plain {
		want, got := reflect.ValueOf(spec.Setting(name)).Elem(), reflect.ValueOf(shown.Setting(name)).Elem()
		if !reflect.DeepEqual(want.Interface(), got.Interface()) {
			t.Errorf("%s: shown %v, want %v", name, got, want)
		}
	}
	e.DisableAfter = time.Hour
	copySettings(&EndpointSpec{}, &e, []string{"disable_after", "policy"})
	if e.DisableAfter != time.Hour || e.Policy != nil {
		t.Errorf("a spec without them left %s and %v", e.DisableAfter, e.Policy)
	}
}

func TestDefaultSpec(t *testing.T) {
	s := DefaultSpec()
	if s.Tenant != DefaultTenant || s.Scheme != "v1" || s.Timeout != Duration(10*time.Second) || s.MaxInFlight != 32 ||
		s.DisableAfter == nil || *s.DisableAfter != Duration(120*time.Hour) {
		t.Errorf("%+v", s)
	}
	never := Duration(0)
	if got := withDefaults(EndpointSpec{DisableAfter: &never, Timeout: 1}); *got.DisableAfter != 0 || got.Timeout != 1 {
		t.Errorf("what was said was changed: %+v", got)
	}
}

func TestAPatchAltersWhatItNamesAlone(t *testing.T) {
	e := registry.Endpoint{URL: "https://a.example.com", Timeout: time.Second, CA: "pem"}
	spec := EndpointSpec{URL: "https://b.example.com", Timeout: Duration(time.Hour), MaxInFlight: 7}
	Patch(spec, "timeout", "ca").apply(&e)
	if e.URL != "https://a.example.com" || e.Timeout != time.Hour || e.MaxInFlight != 0 || e.CA != "" {
		t.Errorf("%+v", e)
	}
}
