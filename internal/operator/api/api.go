// Package api is the HTTP API for operators: package control, over HTTP. See
// docs/api.md.
package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/problem"
)

// ActorHeader names who acts; it goes on record.
const ActorHeader = "Waybill-Actor"

// defaultActor is on record for requests that do not say who acts.
const defaultActor = "api"

// retryAfter is what a caller is asked to wait when NATS or ClickHouse is away.
const retryAfter = 2 * time.Second

// API answers for a Control.
type API struct{ c *control.Control }

// New makes the API of c.
func New(c *control.Control) *API { return &API{c: c} }

// handler does the work of one route. A nil value is answered with no body.
type handler func(w http.ResponseWriter, r *http.Request) (status int, value any, err error)

// Routes adds every route under /v1/ but that of package ingest to mux, and a
// problem document for what is not there.
func (a *API) Routes(mux *http.ServeMux) {
	for path, methods := range a.table() {
		mux.Handle(path, problem.Guard(dispatch(methods)))
	}
	mux.Handle("/v1/", problem.Guard(http.HandlerFunc(problem.NotFound)))
}

// Methods lists every route that Routes adds, as "GET /v1/endpoints", sorted.
func (a *API) Methods() []string {
	var out []string
	for path, methods := range a.table() {
		for m := range methods {
			out = append(out, m+" "+path)
		}
	}
	slices.Sort(out)
	return out
}

// table is every route.
func (a *API) table() map[string]map[string]handler {
	return map[string]map[string]handler{
		"/v1/endpoints":                    {"GET": a.listEndpoints, "POST": a.createEndpoint},
		"/v1/endpoints/{id}":               {"GET": a.getEndpoint, "PATCH": a.updateEndpoint, "DELETE": a.deleteEndpoint},
		"/v1/endpoints/{id}/enable":        {"POST": a.enableEndpoint},
		"/v1/endpoints/{id}/disable":       {"POST": a.disableEndpoint},
		"/v1/endpoints/{id}/missed":        {"GET": a.listMissed},
		"/v1/endpoints/{id}/rotate-secret": {"POST": a.rotateSecret},
		"/v1/endpoints/{id}/test":          {"POST": a.testEndpoint},
		"/v1/endpoints/{id}/policy":        {"GET": a.getTerms},
		"/v1/event-types":                  {"GET": a.listEventTypes},
		"/v1/event-types/{pattern}":        {"GET": a.getEventType, "PUT": a.setEventType, "DELETE": a.deleteEventType},
		"/v1/deliveries":                   {"GET": a.listDeliveries},
		"/v1/deliveries/{event_id}":        {"GET": a.getDeliveries},
		"/v1/events/{id}":                  {"GET": a.getEvent},
		"/v1/events/{id}/replay":           {"POST": a.replayEvent},
		"/v1/events/{id}/evidence":         {"GET": a.getEvidence},

		"/v1/channels":                   {"GET": a.listChannels, "POST": a.createChannel},
		"/v1/channels/{name}":            {"GET": a.getChannel, "PATCH": a.updateChannel, "DELETE": a.deleteChannel},
		"/v1/channels/{name}/test":       {"POST": a.testChannel},
		"/v1/escalation-policies":        {"GET": a.listPolicies, "POST": a.createPolicy},
		"/v1/escalation-policies/{name}": {"GET": a.getPolicy, "PATCH": a.updatePolicy, "DELETE": a.deletePolicy},
		"/v1/escalations":                {"GET": a.listEscalations},
		"/v1/escalations/{id}":           {"GET": a.getEscalation},
		"/v1/escalations/{id}/ack":       {"POST": a.ackEscalation},

		"/v1/dead-letters":                                  {"GET": a.listDeadLetters},
		"/v1/dead-letters/{event_id}/{endpoint_id}":         {"GET": a.getDeadLetter},
		"/v1/dead-letters/{event_id}/{endpoint_id}/ack":     {"POST": a.ackDeadLetter},
		"/v1/dead-letters/{event_id}/{endpoint_id}/resolve": {"POST": a.resolveDeadLetter},
	}
}

func dispatch(methods map[string]handler) http.Handler {
	var allow []string
	for m := range methods {
		allow = append(allow, m)
	}
	slices.Sort(allow)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		h, ok := methods[method]
		if !ok {
			problem.MethodNotAllowed(r.Method, allow...).Write(w)
			return
		}
		status, value, err := h(w, r)
		if err != nil {
			problemOf(err).Write(w)
			return
		}
		if f, ok := value.(file); ok {
			f.write(w, status)
			return
		}
		problem.WriteJSON(w, status, value)
	})
}

func actor(r *http.Request) string {
	if a := strings.TrimSpace(r.Header.Get(ActorHeader)); a != "" {
		return a
	}
	return defaultActor
}

// statuses of control's codes.
func status(code control.Code) int {
	switch code {
	case control.CodeInvalid:
		return http.StatusUnprocessableEntity
	case control.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case control.CodeNotFound:
		return http.StatusNotFound
	case control.CodeConflict, control.CodeIDInUse, control.CodeEndpointDisabled, control.CodeEndpointDeleted,
		control.CodeNothingToReplay,
		control.CodePendingDeliveries:
		return http.StatusConflict
	case control.CodeEventExpired:
		return http.StatusGone
	case control.CodeNoLedger, control.CodeNoKey:
		return http.StatusNotImplemented
	case control.CodeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func problemOf(err error) *problem.Problem {
	var p *problem.Problem
	if errors.As(err, &p) {
		return p
	}
	var e *control.Error
	if !errors.As(err, &e) {
		return problem.New(http.StatusInternalServerError, "internal", fmt.Sprintf("the request failed: %v", err))
	}
	p = problem.New(status(e.Code), string(e.Code), e.Error()).Of(e.Field)
	if e.Code == control.CodeUnavailable {
		p.RetryAfter = retryAfter
	}
	return p
}
