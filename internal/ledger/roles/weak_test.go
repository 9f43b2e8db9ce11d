package roles_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
)

func TestWeaknessesAreFoundAndAStrongDeploymentHasNone(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	u := url.URL{Scheme: "clickhouse", User: url.UserPassword(roles.Auditor, d.pass[roles.Auditor]),
		Host: d.e.NativeAddr(), Path: "/waybill"}
	db, err := ledger.New(u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	codes := func() string {
		t.Helper()
		found, err := db.Weaknesses(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, w := range found {
			out = append(out, w.Code)
			if w.Next == "" || w.Detail == "" {
				t.Errorf("%+v", w)
			}
		}
		return strings.Join(out, " ")
	}
	if got := codes(); got != "" {
		t.Errorf("a strong deployment has %s", got)
	}
	d.must(owner, "ALTER TABLE records UPDATE tenant = 'x' WHERE idx = 99")
	if got := codes(); got != "ledger_mutated" {
		t.Errorf("after a mutation: %s", got)
	}
	d.must(owner, "DELETE FROM records WHERE idx = 0 SETTINGS lightweight_deletes_sync = 0")
	d.must(owner, "ALTER TABLE records MODIFY TTL toDateTime(at) + INTERVAL 100 YEAR")
	if got := codes(); !strings.HasPrefix(got, "ledger_mutated ledger_ttl") {
		t.Errorf("with a TTL: %s", got)
	}
}

func TestUsersWithMoreRightsThanTheyNeedAreFound(t *testing.T) {
	t.Parallel()
	users := strings.Replace(roles.EmbeddedXML("waybill", map[string]string{roles.Auditor: "a"}),
		"<query>GRANT SYSTEM LISTEN ON *.*</query>",
		"<query>GRANT SYSTEM LISTEN ON *.*</query><query>GRANT ALTER DELETE, DROP TABLE ON waybill.*</query>", 1)
	d := deployWith(t, users, map[string]string{owner: "of the owner", roles.Auditor: "a"})
	u := url.URL{Scheme: "clickhouse", User: url.UserPassword(roles.Auditor, "a"), Host: d.e.NativeAddr(),
		Path: "/waybill"}
	db := mustNew(t, u.String())
	found, err := db.Weaknesses(t.Context())
	if err != nil || len(found) != 2 || found[0].Code != "ledger_rights_wide" || found[1].Code != "ledger_open_to_all" ||
		!strings.Contains(found[0].Detail, "default may ALTER DELETE") {
		t.Errorf("%+v %v", found, err)
	}
}
