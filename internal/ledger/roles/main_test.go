package roles_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
