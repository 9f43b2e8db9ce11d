package registry_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/registry"
)

// What is on record of a schedule tells when attempts were to be made, whether
// or not somebody gave it a name.
func TestTheScheduleOnRecord(t *testing.T) {
	standard, urgent := retry.Standard(), retry.Urgent()
	impostor := retry.Policy{Name: retry.StandardName, Delays: []time.Duration{time.Second}}
	for _, tt := range []struct {
		name   string
		policy *retry.Policy
		want   string
	}{
		{"built in", &standard, "standard"},
		{"built in, with jitter", &urgent, "urgent"},
		{"of one's own", &retry.Policy{Delays: []time.Duration{time.Second, 2 * time.Second}}, `{"delays":["1s","2s"]}`},
		{"with a name", &retry.Policy{Name: "ward", Delays: []time.Duration{time.Minute}}, `{"name":"ward","delays":["1m"]}`},
		{"with the name of another", &impostor, `{"name":"standard","delays":["1s"]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := registry.Endpoint{Policy: tt.policy,
				Policies: []registry.PolicyRule{{Types: []string{"lab.*"}, Policy: *tt.policy}}}
			s := e.Settings()
			if s["policy"] != tt.want || s["policy_for_1"] != "lab.*: "+tt.want {
				t.Errorf("on record are %q and %q, want %q", s["policy"], s["policy_for_1"], tt.want)
			}
		})
	}
}
