package cli

import (
	"errors"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
)

func TestSettingText(t *testing.T) {
	for want, of := range map[string]any{"a, b": &[]string{"a", "b"}, "10h": ptr(control.Duration(10 * time.Hour)),
		"3":   ptr(3),
		"0.5": ptr(0.5), "yes": ptr(true), "fifo": ptr(registry.FIFO), "x": ptr("x")} {
		if got := settingText(of); got != want {
			t.Errorf("%T is shown as %q, want %q", of, got, want)
		}
	}
	for _, of := range []any{&[]string{}, ptr(control.Duration(0)), ptr(0), ptr(0.0), ptr(false), ptr("")} {
		if got := settingText(of); got != "" {
			t.Errorf("%T that is not set is shown as %q", of, got)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func TestAPatchNamesWhatTheCommandLineNamed(t *testing.T) {
	var set endpointSettings
	f := pflag.NewFlagSet("update", pflag.ContinueOnError)
	set.bind(f, false)
	set.credentials.bindRemove(f)
	if f.Lookup("ordering") != nil {
		t.Error("what cannot be changed has a flag")
	}
	if !set.patch(f).Empty() {
		t.Errorf("defaults are a change of %v", set.patch(f).Named)
	}
	if err := f.Parse([]string{"--timeout", "3s", "--policy", "default", "--policy-for=", "--remove",
		"client-cert,egress-proxy"}); err != nil {
		t.Fatal(err)
	}
	if err := set.check(); err != nil {
		t.Fatal(err)
	}
	p := set.patch(f)
	want := map[string]bool{"timeout": true, "policy": true, "policies": true, "client_certificate": true,
		"egress_proxy": true}
	for _, name := range p.Named {
		if !want[name] {
			t.Errorf("it names %s", name)
		}
	}
	if len(p.Named) != len(want) || p.Timeout != control.Duration(3*time.Second) || p.Policy != nil ||
		len(p.Policies) != 0 {
		t.Errorf("it is %+v", p)
	}
}

func TestWrongFlagSpeaksOfTheFlag(t *testing.T) {
	err := wrongFlag("timeout", &registry.Wrong{Setting: "timeout", Got: "0s", Want: "1ms to 30s"})
	if got := err.Error(); got != "--timeout 0s: want 1ms to 30s" {
		t.Error(got)
	}
	if got := wrongFlag("url", errors.New("has no host")).Error(); got != "--url: has no host" {
		t.Error(got)
	}
}
