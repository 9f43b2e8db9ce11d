package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

const (
	defaultEndpoints = 100
	maxEndpoints     = 1000
)

func (a *API) listEndpoints(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "tenant", "deleted", "cursor", "limit")
	filter := control.EndpointFilter{Tenant: q.text("tenant"), Deleted: q.flag("deleted")}
	cursor, limit := q.text("cursor"), q.number("limit", maxEndpoints)
	if cursor != "" && !ids.Valid(ids.Endpoint, cursor) {
		q.wrong("cursor", "not one that a page gave; leave it out to begin at the start")
	}
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	if limit == 0 {
		limit = defaultEndpoints
	}
	all, err := a.c.Endpoints(r.Context(), filter)
	if err != nil {
		return 0, nil, err
	}
	// Ids sort by the time they were made, so a cursor holds also when endpoints come and go.
	first, found := slices.BinarySearchFunc(all, cursor,
		func(e control.Endpoint, id string) int { return strings.Compare(e.ID, id) })
	if found {
		first++
	}
	page := control.EndpointList{Endpoints: all[first:min(first+limit, len(all))]}
	if first+limit < len(all) {
		page.Next = all[first+limit-1].ID
	}
	return http.StatusOK, page, nil
}

func (a *API) createEndpoint(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var spec control.EndpointSpec
	if err := object(w, r, &spec, false); err != nil {
		return 0, nil, err
	}
	made, err := a.c.CreateEndpoint(r.Context(), spec, actor(r))
	if err != nil {
		return 0, nil, err
	}
	w.Header().Set("Location", "/v1/endpoints/"+made.Endpoint.ID)
	return http.StatusCreated, made, nil
}

func (a *API) getEndpoint(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r)
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	e, err := a.c.Endpoint(r.Context(), r.PathValue("id"))
	return http.StatusOK, e, err
}

func (a *API) updateEndpoint(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var change struct {
		control.EndpointSpec
		Reason string `json:"reason"`
	}
	q := parameters(r)
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	named, err := decodeChange(w, r, &change, control.FixedSettings, control.NullableSettings)
	if err != nil {
		return 0, nil, err
	}
	named = slices.DeleteFunc(named, func(name string) bool { return name == "reason" })
	patch := control.Patch(change.EndpointSpec, named...)
	e, err := a.c.UpdateEndpoint(r.Context(), r.PathValue("id"), patch, actor(r), change.Reason)
	return http.StatusOK, e, err
}

func (a *API) deleteEndpoint(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "reason", "end_pending")
	stop := control.Stop{Reason: q.text("reason"), EndPending: q.flag("end_pending")}
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	e, err := a.c.DeleteEndpoint(r.Context(), r.PathValue("id"), stop, actor(r))
	return http.StatusOK, e, err
}

// because is the body of actions that take a reason.
type because struct {
	Reason string `json:"reason"`
}

func (a *API) enableEndpoint(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var why because
	if err := object(w, r, &why, true); err != nil {
		return 0, nil, err
	}
	e, err := a.c.EnableEndpoint(r.Context(), r.PathValue("id"), actor(r), why.Reason)
	return http.StatusOK, e, err
}

func (a *API) disableEndpoint(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var stop struct {
		because
		EndPending bool `json:"end_pending"`
	}
	if err := object(w, r, &stop, true); err != nil {
		return 0, nil, err
	}
	e, err := a.c.DisableEndpoint(r.Context(), r.PathValue("id"),
		control.Stop{Reason: stop.Reason, EndPending: stop.EndPending}, actor(r))
	return http.StatusOK, e, err
}

// listMissed answers which events an endpoint was not owed because it was disabled.
func (a *API) listMissed(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "since", "until", "cursor", "limit")
	filter, limit := control.MissedFilter{Since: q.time("since"), Until: q.time("until")},
		q.number("limit", control.MaxPage)
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	page, err := a.c.Missed(r.Context(), r.PathValue("id"), filter, q.text("cursor"), limit)
	return http.StatusOK, page, err
}

func (a *API) rotateSecret(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var rotation control.Rotation
	if err := object(w, r, &rotation, true); err != nil {
		return 0, nil, err
	}
	made, err := a.c.RotateSecret(r.Context(), r.PathValue("id"), rotation, actor(r))
	return http.StatusOK, made, err
}

func (a *API) testEndpoint(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var nothing struct{}
	if err := object(w, r, &nothing, true); err != nil {
		return 0, nil, err
	}
	ack, err := a.c.TestEndpoint(r.Context(), r.PathValue("id"), actor(r))
	return http.StatusAccepted, ack, err
}

// object decodes a body where nothing may be null, on a route without parameters.
func object(w http.ResponseWriter, r *http.Request, into any, optional bool) error {
	q := parameters(r)
	if err := q.failed(); err != nil {
		return err
	}
	return decode(w, r, into, optional)
}
