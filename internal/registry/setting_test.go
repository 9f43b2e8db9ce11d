package registry_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/registry"
)

// Each row says all that those who read the table need.
func TestEveryRowOfTheTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	once := func(kind, name string) {
		if name != "" && seen[kind+name] {
			t.Errorf("two settings have the %s %s", kind, name)
		}
		seen[kind+name] = true
	}
	for _, s := range registry.Settings() {
		once("name", s.Name)
		if s.Shown > 0 {
			once("place", string(rune('0'+s.Shown)))
		}
		if s.Name == "" || s.Meaning == "" || s.Since == "" || len(s.AllFlags()) == 0 {
			t.Errorf("%q lacks a name, a meaning, a version or a flag", s.Name)
		}
		if s.Flag.Name != "" && len(s.Flags) > 0 {
			t.Errorf("%s has Flag and Flags", s.Name)
		}
		for _, f := range s.AllFlags() {
			once("flag", f.Name)
			if f.Help == "" || registry.FlagHelp(f.Name) != f.Help {
				t.Errorf("--%s has the help %q", f.Name, f.Help)
			}
		}
	}
}

func TestTheBoundsOfASetting(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		setting string
		change  func(*registry.Endpoint)
		early   string // what the command line says. Empty: nothing
	}{
		{"timeout", func(e *registry.Endpoint) { e.Timeout = time.Millisecond }, ""},
		{"timeout", func(e *registry.Endpoint) { e.Timeout = 30 * time.Second }, ""},
		{"timeout", func(e *registry.Endpoint) { e.Timeout = 31 * time.Second }, "timeout: 31s; want 1ms to 30s"},
		{"max_in_flight", func(e *registry.Endpoint) { e.MaxInFlight = 1001 }, "max_in_flight: 1001; want 1 to 1000"},
		{"max_per_second", func(e *registry.Endpoint) { e.MaxPerSecond = 0 }, ""},
		{"max_per_second", func(e *registry.Endpoint) { e.MaxPerSecond = 0.001 }, ""},
		{"max_per_second", func(e *registry.Endpoint) { e.MaxPerSecond = -1 },
			"max_per_second: -1; want 0.001 to 1000, or 0 for no limit"},
		{"disable_after", func(e *registry.Endpoint) { e.DisableAfter = 30 * day }, ""},
		{"disable_after", func(e *registry.Endpoint) { e.DisableAfter = -1 }, "disable_after: -1ns; want 0s or more"},
		{"scheme", func(e *registry.Endpoint) { e.Scheme = "v9" }, `scheme: "v9"; want v1, v1a or t,v1`},
		{"ordering", func(e *registry.Endpoint) { e.Ordering = "x" }, `ordering: "x"; want fifo, or leave it out`},
	} {
		var e registry.Endpoint
		tt.change(&e)
		for _, s := range registry.Settings() {
			if s.Name != tt.setting {
				continue
			}
			got := ""
			if err := s.Early(&e); err != nil {
				got = err.Error()
			}
			if got != tt.early {
				t.Errorf("%s: %q, want %q", tt.setting, got, tt.early)
			}
		}
	}
}
