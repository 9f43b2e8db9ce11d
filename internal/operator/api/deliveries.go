package api

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/operator/control"
)

func (a *API) listDeliveries(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "tenant", "event_id", "endpoint_id", "type", "state", "since", "until", "cursor", "limit")
	filter := control.DeliveryFilter{Tenant: q.text("tenant"), EventID: q.text("event_id"),
		EndpointID: q.text("endpoint_id"),
		EventType:  q.text("type"), State: q.text("state"), Since: q.time("since"), Until: q.time("until")}
	limit := q.number("limit", control.MaxPage)
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	page, err := a.c.Deliveries(r.Context(), filter, q.text("cursor"), limit)
	return http.StatusOK, page, err
}

// getDeliveries answers for one event: its deliveries or, with an endpoint,
// that one with its attempts.
func (a *API) getDeliveries(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "endpoint", "cursor", "limit")
	limit := q.number("limit", control.MaxPage)
	if q.text("endpoint") != "" && (q.text("cursor") != "" || limit != 0) {
		q.wrong("cursor", "there are no pages when an endpoint is given")
	}
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	event := r.PathValue("event_id")
	if endpoint := q.text("endpoint"); endpoint != "" {
		d, err := a.c.Delivery(r.Context(), event, endpoint)
		return http.StatusOK, d, err
	}
	page, err := a.c.Deliveries(r.Context(), control.DeliveryFilter{EventID: event}, q.text("cursor"), limit)
	return http.StatusOK, page, err
}

func (a *API) getEvent(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "content", "tenant")
	content := q.flag("content")
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	e, err := a.c.Event(r.Context(), q.text("tenant"), r.PathValue("id"), content)
	return http.StatusOK, e, err
}

func (a *API) replayEvent(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var body struct {
		EndpointID string `json:"endpoint_id"`
		Reason     string `json:"reason"`
		Tenant     string `json:"tenant"`
	}
	if err := object(w, r, &body, false); err != nil {
		return 0, nil, err
	}
	done, err := a.c.Replay(r.Context(), control.ReplayRequest{EventID: r.PathValue("id"),
		Tenant: body.Tenant, EndpointID: body.EndpointID, Actor: actor(r), Reason: body.Reason})
	return http.StatusAccepted, done, err
}
