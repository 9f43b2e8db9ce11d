package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/operator/control"
)

// file is answered byte for byte: JSON that was written anew would not be what
// its digest says.
type file []byte

func (f file) write(w http.ResponseWriter, status int) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Disposition", `attachment; filename="evidence.json"`)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(f)))
	w.WriteHeader(status)
	_, _ = w.Write(f)
}

func (a *API) getEvidence(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "tenant", "endpoint", "wait")
	var wait time.Duration
	if text := q.text("wait"); text != "" {
		var err error
		if wait, err = time.ParseDuration(text); err != nil {
			q.wrong("wait", `want a duration, such as "30s"`)
		}
	}
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	b, err := a.c.Evidence(r.Context(), control.EvidenceRequest{EventID: r.PathValue("id"), Tenant: q.text("tenant"),
		EndpointID: q.text("endpoint"), Actor: actor(r), Wait: wait})
	return http.StatusOK, file(b), err
}
