package api

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/operator/control"
)

func (a *API) listEventTypes(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "tenant")
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	list, err := a.c.EventTypes(r.Context(), q.text("tenant"))
	return http.StatusOK, control.EventTypeList{EventTypes: list}, err
}

func (a *API) getEventType(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "tenant")
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	e, err := a.c.EventType(r.Context(), q.text("tenant"), r.PathValue("pattern"))
	return http.StatusOK, e, err
}

func (a *API) setEventType(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var change struct {
		control.EventTypeSpec
		Reason string `json:"reason"`
	}
	q := parameters(r, "tenant")
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	if err := decode(w, r, &change, false); err != nil {
		return 0, nil, err
	}
	e, err := a.c.SetEventType(r.Context(), q.text("tenant"), r.PathValue("pattern"), change.EventTypeSpec, actor(r),
		change.Reason)
	return http.StatusOK, e, err
}

func (a *API) deleteEventType(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "tenant", "reason")
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	e, err := a.c.DeleteEventType(r.Context(), q.text("tenant"), r.PathValue("pattern"), actor(r), q.text("reason"))
	return http.StatusOK, e, err
}

func (a *API) getTerms(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "type", "deliver_within")
	eventType, within := q.text("type"), control.Duration(0)
	if text := q.text("deliver_within"); text != "" {
		if err := within.UnmarshalText([]byte(text)); err != nil {
			q.wrong("deliver_within", "%s", err.Error())
		}
	}
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	t, err := a.c.Explain(r.Context(), r.PathValue("id"), eventType, within)
	return http.StatusOK, t, err
}
