package evidence_test

import (
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// A ledger that was changed gives no evidence for what it says now.
func TestALedgerThatWasChangedGivesNoEvidence(t *testing.T) {
	s := start(t)
	s.stories()
	o, err := clickhouse.ParseDSN(s.dsn)
	s.must(err)
	conn, err := clickhouse.Open(o)
	s.must(err)
	defer conn.Close()
	s.must(conn.Exec(t.Context(), "ALTER TABLE records UPDATE body = replaceOne(body, '502', '200') WHERE attempt = 1 "+
		"AND status = 502 SETTINGS mutations_sync = 2"))
	code, out, errs := s.run("evidence", "export", quoted, "--clickhouse", s.dsn)
	if code != 1 || out != "" || !strings.Contains(errs, "the ledger is damaged: record ") ||
		!strings.Contains(errs, "waybill ledger verify") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}
