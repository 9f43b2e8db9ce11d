package cli

import (
	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/operator/history"
)

// openLedger connects when the first question is asked, so that commands that
// ask none need no ClickHouse.
func openLedger(dsn string) (l history.History, closeLedger func(), err error) {
	db, err := ledger.New(dsn)
	if err != nil {
		return l, nil, process.Usagef("--clickhouse: %w", err)
	}
	return history.New(db), func() { _ = db.Close() }, nil
}
