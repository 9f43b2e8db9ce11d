package ledger_test

import "testing"

func TestTmp(t *testing.T) {
	_, conn := openScenario(t)
	for _, v := range []string{"audit_attempts", "audit_duplicates", "audit_failures", "audit_integrity", "audit_controls", "audit_changes", "audit_completeness"} {
		t.Log(v)
		for _, l := range lines(t, conn, "SELECT tuple(*) FROM "+v+" WHERE tenant = 'acme'") {
			t.Log(l)
		}
	}
}
