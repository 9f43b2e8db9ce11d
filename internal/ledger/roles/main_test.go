package roles_test

import (
	"os"
	"testing"

	"github.com/waybill-dev/waybill/test/testkit"
)

func TestMain(m *testing.M) {
	// A secret of the process that runs the engines.
	if err := os.Setenv("WAYBILL_SECRETS_KEY", "of this test"); err != nil {
		panic(err)
	}
	testkit.Main(m)
}
