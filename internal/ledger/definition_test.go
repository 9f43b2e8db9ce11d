package ledger_test

import (
	"context"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/test/testkit"
)

func check(t *testing.T, s *signed) (wrong, notes []string) {
	t.Helper()
	r, wrong, notes, err := (&ledger.Verified{DB: s.db}).CheckDefinitions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if r.Objects < 10 || len(r.Refused) > 0 {
		t.Errorf("compared %d objects, refused %q", r.Objects, r.Refused)
	}
	return wrong, notes
}

func TestAChangeOfTheSchemaIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, sql, want string }{
		{"an ALIAS", "ALTER TABLE records MODIFY COLUMN error String ALIAS ''", "column error is defined as"},
		{"an ALIAS becomes a column", "ALTER TABLE records MODIFY COLUMN detail String DEFAULT ''",
			"column detail is defined as"},
		{"a column more", "ALTER TABLE records ADD COLUMN verdict String", "verdict is not this version's"},
		{"a TTL", "ALTER TABLE records MODIFY TTL toDateTime(at) + INTERVAL 50 YEAR", "TTL"},
		{"a constraint", "ALTER TABLE records ADD CONSTRAINT c CHECK status != 500", "CONSTRAINT c is not this version's"},
		{"a view", "CREATE OR REPLACE VIEW attempts AS SELECT * FROM records WHERE kind = 'attempt' AND status != 503",
			"view attempts is not this version's"},
		{"a view that declares other types", "", "view events: a column is declared otherwise"},
		{"a view is dropped", "DROP VIEW completeness", "view completeness is missing"},
		{"records becomes a view", "", "records is a view"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSigned(t, 1)
			if wrong, _ := check(t, s); len(wrong) > 0 {
				t.Fatalf("before: %q", wrong)
			}
			switch c.name {
			case "a view that declares other types":
				query := lines(t, s.conn, "SELECT as_select FROM system.tables WHERE database = currentDatabase() AND name = "+
					"'events'")[0]
				columns := lines(t, s.conn, "SELECT arrayStringConcat(groupArray(concat(name, ' ', if(name = 'event_seq', "+
					"'UInt8', type))), ', ') FROM (SELECT * FROM system.columns WHERE database = currentDatabase() AND table = "+
					"'events' ORDER BY position)")[0]
				s.sql("CREATE OR REPLACE VIEW events (%s) AS %s", columns, query)
			case "records becomes a view":
				s.sql("RENAME TABLE records TO real_records")
				s.sql("CREATE VIEW records AS SELECT * FROM real_records")
			default:
				s.sql("%s", c.sql)
			}
			if wrong, _ := check(t, s); !strings.Contains(strings.Join(wrong, "\n"), c.want) {
				t.Errorf("got %q, want %q", wrong, c.want)
			}
		})
	}
}

// Policies that are kept in the engine's configuration are seen as those in SQL.
func TestWhatHidesRowsFromSomeReadersIsFound(t *testing.T) {
	t.Parallel()
	e := testkit.StartClickHouseWith(t, engine.Options{Dir: t.TempDir(), UsersXML: `<clickhouse>
		<profiles><hiding><additional_table_filters>{'records':'status != 503'}</additional_table_filters></hiding></profiles>
		<users><analyst><password></password><networks><ip>127.0.0.1</ip></networks><profile>hiding</profile>
			<databases><waybill><records><filter>tenant != 'acme'</filter></records></waybill></databases></analyst></users></clickhouse>`})
	db, err := ledger.Open(context.Background(), e.DSN("", "waybill"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, wrong, _, err := (&ledger.Verified{DB: db}).CheckDefinitions(context.Background())
	if all := strings.Join(wrong, "\n"); err != nil || !strings.Contains(all, "tenant != 'acme'") ||
		!strings.Contains(all, "additional_table_filters") {
		t.Errorf("got %q, %v", wrong, err)
	}
}

func TestTuningIsOnlyNoted(t *testing.T) {
	t.Parallel()
	s := newSigned(t, 1)
	s.sql("ALTER TABLE records MODIFY SETTING merge_with_ttl_timeout = 7")
	s.sql("ALTER TABLE records COMMENT COLUMN status 'HTTP'")
	s.sql("ALTER TABLE records DROP INDEX by_kind")
	s.sql("CREATE TABLE ours (x UInt8) ENGINE = MergeTree ORDER BY x")
	s.update("records", "status = status", "idx = 0")
	wrong, notes := check(t, s)
	if all := strings.Join(notes, "\n"); len(wrong) > 0 || !strings.Contains(all, "INDEX by_kind") ||
		!strings.Contains(all, "comment of column status") ||
		!strings.Contains(all, "table or view ours, which") || !strings.Contains(all, "remembers a change of table records") {
		t.Errorf("wrong %q, notes %q", wrong, notes)
	}
}
