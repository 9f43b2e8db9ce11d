package ledger_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/test/testkit"
)

// Whoever looks into the log of a first start finds nothing that looks like a fault.
func TestAFirstStartLeavesNoStackTrace(t *testing.T) {
	dir := t.TempDir()
	e := testkit.StartClickHouseWith(t, engine.Options{Dir: dir})
	db, err := ledger.Open(context.Background(), e.DSN("", "waybill"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(context.Background()); err != nil { // then everything is written
		t.Fatal(err)
	}
	for _, name := range []string{"stderr.log", "engine.log"} {
		said, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range []string{"Stack trace", "<Error>", "Exception"} {
			if strings.Contains(string(said), fault) {
				t.Errorf("%s has %q:\n%s", name, fault, said)
			}
		}
	}
}
