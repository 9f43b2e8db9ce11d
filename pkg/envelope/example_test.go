package envelope_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

// A receiver: read the raw body, verify it, claim the id, answer, work later.
func ExampleVerifier() {
	verifier, err := envelope.NewVerifier("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	var claimed sync.Map // in production: an insert-if-absent into a database

	receive := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "body too large or cut short", http.StatusBadRequest)
			return
		}
		if err := verifier.Verify(r.Header, body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var d envelope.Delivery
		if err := json.Unmarshal(body, &d); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if _, duplicate := claimed.LoadOrStore(d.ID, d); !duplicate {
			fmt.Printf("%s: %s\n", d.Type, d.Data)
		}
		w.WriteHeader(http.StatusNoContent)
	}

	// What Waybill does on its side, twice, as after a lost answer.
	keys := verifier.Keys
	event, err := envelope.Parse([]byte(`{"id":"evt_1","type":"order.paid","timestamp":"2026-08-19T14:32:07Z","data":{"n": 1.50}}`))
	if err != nil {
		panic(err)
	}
	for attempt := 1; attempt <= 2; attempt++ {
		body := event.AppendBody(nil, attempt)
		r := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(string(body)))
		if err := envelope.SetHeaders(r.Header, keys, "", event.ID, time.Now(), body); err != nil {
			panic(err)
		}
		w := httptest.NewRecorder()
		receive(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// order.paid: {"n": 1.50}
	// 204
	// 204
}

func ExampleParse() {
	_, err := envelope.Parse([]byte(`{"id":"evt_1","type":"order.paid","timestamp":"2026-08-19T14:32:07Z","deliver_by":"tomorrow","data":{}}`))
	var fe *envelope.FieldError
	fmt.Println(errors.As(err, &fe), fe.Field)
	fmt.Println(err)
	// Output:
	// true deliver_by
	// deliver_by: not an RFC 3339 time: "tomorrow"
}
