package api

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

func (a *API) listChannels(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r)
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	list, err := a.c.Channels(r.Context())
	return http.StatusOK, control.ChannelList{Channels: list}, err
}

func (a *API) createChannel(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var spec control.ChannelSpec
	if err := object(w, r, &spec, false); err != nil {
		return 0, nil, err
	}
	made, err := a.c.CreateChannel(r.Context(), spec, actor(r))
	if err != nil {
		return 0, nil, err
	}
	w.Header().Set("Location", "/v1/channels/"+made.Name)
	return http.StatusCreated, made, nil
}

func (a *API) getChannel(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r)
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	c, err := a.c.Channel(r.Context(), r.PathValue("name"))
	return http.StatusOK, c, err
}

func (a *API) updateChannel(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var change struct {
		control.ChannelPatch
		Reason string `json:"reason"`
	}
	if err := object(w, r, &change, false); err != nil {
		return 0, nil, err
	}
	c, err := a.c.UpdateChannel(r.Context(), r.PathValue("name"), change.ChannelPatch, actor(r), change.Reason)
	return http.StatusOK, c, err
}

func (a *API) deleteChannel(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "reason")
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	c, err := a.c.DeleteChannel(r.Context(), r.PathValue("name"), actor(r), q.text("reason"))
	return http.StatusOK, c, err
}

func (a *API) testChannel(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var nothing struct{}
	if err := object(w, r, &nothing, true); err != nil {
		return 0, nil, err
	}
	result, err := a.c.TestChannel(r.Context(), r.PathValue("name"), actor(r))
	return http.StatusOK, result, err
}

func (a *API) listPolicies(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r)
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	list, err := a.c.EscalationPolicies(r.Context())
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, control.EscalationPolicyList{Policies: list, Warning: control.Uncovered(list)}, nil
}

func (a *API) createPolicy(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var spec control.EscalationPolicySpec
	if err := object(w, r, &spec, false); err != nil {
		return 0, nil, err
	}
	p, err := a.c.CreateEscalationPolicy(r.Context(), spec, actor(r))
	if err != nil {
		return 0, nil, err
	}
	w.Header().Set("Location", "/v1/escalation-policies/"+p.Name)
	return http.StatusCreated, p, nil
}

func (a *API) getPolicy(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r)
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	p, err := a.c.EscalationPolicy(r.Context(), r.PathValue("name"))
	return http.StatusOK, p, err
}

func (a *API) updatePolicy(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var change struct {
		control.EscalationPolicyPatch
		Reason string `json:"reason"`
	}
	if err := object(w, r, &change, false); err != nil {
		return 0, nil, err
	}
	p, err := a.c.UpdateEscalationPolicy(r.Context(), r.PathValue("name"), change.EscalationPolicyPatch, actor(r),
		change.Reason)
	return http.StatusOK, p, err
}

func (a *API) deletePolicy(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "reason")
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	p, err := a.c.DeleteEscalationPolicy(r.Context(), r.PathValue("name"), actor(r), q.text("reason"))
	return http.StatusOK, p, err
}

func (a *API) listEscalations(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "tenant", "state")
	filter := control.EscalationFilter{Tenant: q.text("tenant"), State: escalation.State(q.text("state"))}
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	list, err := a.c.Escalations(r.Context(), filter)
	return http.StatusOK, control.EscalationList{Escalations: list}, err
}

func (a *API) getEscalation(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r)
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	e, err := a.c.Escalation(r.Context(), r.PathValue("id"))
	return http.StatusOK, e, err
}

// taking is the body of acknowledgements: a person's name is never taken from a header.
type taking struct {
	By   string `json:"by"`
	Note string `json:"note"`
}

func (a *API) ackEscalation(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var t taking
	if err := object(w, r, &t, false); err != nil {
		return 0, nil, err
	}
	e, err := a.c.AcknowledgeEscalation(r.Context(), r.PathValue("id"), t.By, t.Note)
	return http.StatusOK, e, err
}

func (a *API) listDeadLetters(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r, "tenant", "event_id", "endpoint_id", "reason", "resolution", "since", "until", "cursor", "limit")
	f := control.DeadLetterFilter{Tenant: q.text("tenant"), EventID: q.text("event_id"), EndpointID: q.text("endpoint_id"),
		Reason: q.text("reason"), Resolution: q.text("resolution"), Since: q.time("since"), Until: q.time("until")}
	limit := q.number("limit", control.MaxPage)
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	page, err := a.c.DeadLetters(r.Context(), f, q.text("cursor"), limit)
	return http.StatusOK, page, err
}

func (a *API) getDeadLetter(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	q := parameters(r)
	if err := q.failed(); err != nil {
		return 0, nil, err
	}
	d, err := a.c.DeadLetter(r.Context(), r.PathValue("event_id"), r.PathValue("endpoint_id"))
	return http.StatusOK, d, err
}

func (a *API) ackDeadLetter(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var t taking
	if err := object(w, r, &t, false); err != nil {
		return 0, nil, err
	}
	d, err := a.c.AcknowledgeDeadLetter(r.Context(), r.PathValue("event_id"), r.PathValue("endpoint_id"), t.By, t.Note)
	return http.StatusOK, d, err
}

func (a *API) resolveDeadLetter(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var s struct {
		By     string `json:"by"`
		Reason string `json:"reason"`
	}
	if err := object(w, r, &s, false); err != nil {
		return 0, nil, err
	}
	d, err := a.c.ResolveDeadLetter(r.Context(), r.PathValue("event_id"), r.PathValue("endpoint_id"), s.By, s.Reason)
	return http.StatusOK, d, err
}
