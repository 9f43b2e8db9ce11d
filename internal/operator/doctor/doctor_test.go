package doctor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/health"
	"github.com/waybill-dev/waybill/internal/ledger"
)

func TestDoctorSaysWhatIsNotReady(t *testing.T) {
	status, text := http.StatusServiceUnavailable, "secrets: no key\nledger: ping\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}))
	defer server.Close()
	if got, err := getReady(t.Context(), server.URL); err != nil || got != "secrets: no key; ledger: ping" {
		t.Errorf("%q, %v", got, err)
	}
	status, text = http.StatusOK, "ready\n"
	if got, err := getReady(t.Context(), server.URL); err != nil || got != "" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDoctorSaysThatClickHouseDoesNotAnswer(t *testing.T) {
	db, err := ledger.New("clickhouse://127.0.0.1:1/waybill")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got := (&Doctor{Ledger: db}).custody(t.Context())
	if len(got) != 1 || got[0].State != health.Wrong ||
		!strings.HasPrefix(got[0].Detail, "ClickHouse does not answer") || strings.Contains(got[0].Next, "auditor") {
		t.Errorf("%+v", got)
	}
}
