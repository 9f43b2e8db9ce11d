package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/operator/api"
)

// twin is a route and the command that asks or does the same.
type twin struct {
	route   string // as package api names it
	path    string // of the request; "" is that of the route
	body    string
	command []string // "" as the first word: there is no such command, and the rest says why
}

// TestTheCommandLineAnswersInTheShapeOfTheAPI asks every route and the command
// beside it, and compares which fields there are, and of which kind.
//
//lint:long one story, told in order
func TestTheCommandLineAnswersInTheShapeOfTheAPI(t *testing.T) {
	t.Parallel()
	d := start(t, filepath.Join(t.TempDir(), "data"))
	good, got := receiver(t, ok)
	bad, refused := receiver(t, func() int { return http.StatusUnprocessableEntity })
	var e, rejecting endpoint
	d.do("", &e, "endpoint", "create", "--url", good, "--types", "order.*")
	d.do("", &rejecting, "endpoint", "create", "--url", bad, "--types", "order.*")
	d.do("", new(any), "endpoint", "rotate-secret", rejecting.ID) // as the other one's is below
	d.do("", new(any), "channel", "create", "oncall", "--kind", "webhook", "--url", good)
	d.do("", new(any), "escalation-policy", "create", "all", "--step", "0s:oncall")
	d.do("", new(any), "event-type", "set", "lab.>", "--deliver-within", "2m")
	for _, id := range []string{"order-17", "order-18"} {
		d.do("", new(any), "event", "publish", "--type", "order.paid", "--id", id, "--data", "{}")
		next(t, got)
		next(t, refused)
		d.do("", new(any), "delivery", "wait", id)
	}
	var incident string
	d.await("people are told", func() bool { // the escalator begins it once the dead letter has reached it
		var list struct {
			Escalations []struct {
				ID   string
				Told bool
			}
		}
		d.do("", &list, "escalation", "list")
		if len(list.Escalations) > 0 && list.Escalations[0].Told {
			incident = list.Escalations[0].ID
		}
		return incident != ""
	})
	// The first is told at once, the second in the next message; until all of it is in the ledger,
	// dead letters change their shape.
	d.await("the ledger knows that they were told of both", func() bool {
		return d.query("SELECT countIf(escalated_in_time) FROM dead_letters") == "2"
	})

	twins := []twin{
		{"GET /v1/endpoints", "", "", []string{"endpoint", "list"}},
		{"GET /v1/endpoints/{id}", "/v1/endpoints/" + e.ID, "", []string{"endpoint", "show", e.ID}},
		{"GET /v1/endpoints/{id}/policy", "/v1/endpoints/" + e.ID + "/policy?type=order.paid", "",
			[]string{"policy", "show", e.ID, "--type", "order.paid"}},
		{"GET /v1/endpoints/{id}/missed", "/v1/endpoints/" + e.ID + "/missed", "", []string{"endpoint", "missed", e.ID}},
		{"GET /v1/event-types", "", "", []string{"event-type", "list"}},
		{"GET /v1/event-types/{pattern}", "/v1/event-types/lab.%3E", "", []string{"event-type", "show", "lab.>"}},
		{"GET /v1/deliveries", "", "", []string{"delivery", "list"}},
		{"GET /v1/deliveries", "/v1/deliveries?limit=1", "", []string{"delivery", "list", "--limit", "1"}},
		{"GET /v1/deliveries/{event_id}", "/v1/deliveries/order-17", "", []string{"delivery", "wait", "order-17"}},
		{"GET /v1/deliveries/{event_id}", "/v1/deliveries/order-17?endpoint=" + e.ID, "",
			[]string{"delivery", "show", "order-17", "--endpoint", e.ID}},
		{"GET /v1/events/{id}", "/v1/events/order-17?content=true", "", []string{"event", "show", "order-17", "--content"}},
		{"GET /v1/channels", "", "", []string{"channel", "list"}},
		{"GET /v1/channels/{name}", "/v1/channels/oncall", "", []string{"channel", "show", "oncall"}},
		{"GET /v1/escalation-policies", "", "", []string{"escalation-policy", "list"}},
		{"GET /v1/escalation-policies/{name}", "/v1/escalation-policies/all", "",
			[]string{"escalation-policy", "show", "all"}},
		{"GET /v1/escalations", "", "", []string{"escalation", "list"}},
		{"GET /v1/escalations/{id}", "/v1/escalations/" + incident, "", []string{"escalation", "show", incident}},
		{"GET /v1/dead-letters", "", "", []string{"deadletter", "list"}},
		{"GET /v1/dead-letters/{event_id}/{endpoint_id}", "/v1/dead-letters/order-17/" + rejecting.ID, "",
			[]string{"deadletter", "show", "order-17"}},
		{"GET /v1/events/{id}/evidence", "", "", []string{"", "the answer is a file, which evidence export writes"}},

		{"POST /v1/endpoints", "", `{"url":"` + good + `","types":["x"]}`,
			[]string{"endpoint", "create", "--url", good, "--types", "x"}},
		{"PATCH /v1/endpoints/{id}", "/v1/endpoints/" + e.ID, `{"timeout":"5s","reason":"r"}`,
			[]string{"endpoint", "update", e.ID, "--timeout", "6s", "--reason", "r"}},
		{"POST /v1/endpoints/{id}/rotate-secret", "/v1/endpoints/" + e.ID + "/rotate-secret", "",
			[]string{"endpoint", "rotate-secret", e.ID}},
		{"POST /v1/endpoints/{id}/test", "/v1/endpoints/" + e.ID + "/test", "", []string{"endpoint", "test", e.ID}},
		{"PUT /v1/event-types/{pattern}", "/v1/event-types/lab.%3E", `{"deliver_within":"1m","reason":"r"}`,
			[]string{"event-type", "set", "lab.>", "--deliver-within", "3m", "--reason", "r"}},
		{"POST /v1/events/{id}/replay", "/v1/events/order-17/replay", `{"reason":"r"}`,
			[]string{"replay", "event", "order-18", "--reason", "r"}},
		{"POST /v1/channels", "", `{"name":"one","kind":"webhook","url":"` + good + `"}`,
			[]string{"channel", "create", "two", "--kind", "webhook", "--url", good}},
		{"PATCH /v1/channels/{name}", "/v1/channels/one", `{"description":"d","reason":"r"}`,
			[]string{"channel", "update", "two", "--description", "d", "--reason", "r"}},
		{"POST /v1/channels/{name}/test", "/v1/channels/oncall/test", "", []string{"channel", "test", "oncall"}},
		{"POST /v1/escalation-policies", "", `{"name":"one","priority":900,"steps":[{"after":"0s","channels":["oncall"]}]}`,
			[]string{"escalation-policy", "create", "two", "--priority", "901", "--step", "0s:oncall"}},
		{"PATCH /v1/escalation-policies/{name}", "/v1/escalation-policies/one", `{"repeat":"20m","reason":"r"}`,
			[]string{"escalation-policy", "update", "two", "--repeat", "20m", "--reason", "r"}},
		{"POST /v1/dead-letters/{event_id}/{endpoint_id}/ack", "/v1/dead-letters/order-17/" + rejecting.ID + "/ack",
			`{"by":"ann"}`,
			[]string{"deadletter", "ack", "order-18", "--by", "ann"}},
		{"POST /v1/dead-letters/{event_id}/{endpoint_id}/resolve", "/v1/dead-letters/order-17/" + rejecting.ID + "/resolve",
			`{"by":"ann","reason":"r"}`,
			[]string{"deadletter", "resolve", "order-18", "--by", "ann", "--reason", "r"}},
		{"POST /v1/escalations/{id}/ack", "", "", []string{"", "an incident is taken once; its shape is that of GET"}},
		{"POST /v1/endpoints/{id}/disable", "/v1/endpoints/" + e.ID + "/disable", `{"reason":"r","end_pending":true}`,
			[]string{"endpoint", "disable", rejecting.ID, "--reason", "r", "--yes"}},
		{"POST /v1/endpoints/{id}/enable", "/v1/endpoints/" + e.ID + "/enable", `{"reason":"r"}`,
			[]string{"endpoint", "enable", rejecting.ID, "--reason", "r"}},
		{"DELETE /v1/escalation-policies/{name}", "/v1/escalation-policies/one?reason=r", "",
			[]string{"escalation-policy", "delete", "two", "--reason", "r"}},
		{"DELETE /v1/channels/{name}", "/v1/channels/one?reason=r", "",
			[]string{"channel", "delete", "two", "--reason", "r"}},
		{"DELETE /v1/event-types/{pattern}", "/v1/event-types/lab.%3E?reason=r", "", nil},
		{"DELETE /v1/endpoints/{id}", "/v1/endpoints/" + e.ID + "?reason=r&end_pending=true", "",
			[]string{"endpoint", "delete", rejecting.ID, "--reason", "r", "--yes"}},
		{"POST /v1/events", "", `{"id":"s-1","type":"a","timestamp":"2026-08-19T15:10:00Z","data":1}`,
			[]string{"event", "publish", "--id", "s-2", "--type", "a", "--data", "1"}},
		{"POST /v1/events", "", `{"id":"m-1","type":"a","timestamp":"2026-08-19T15:10:00Z","data":1}` + "\n",
			[]string{"event", "publish", "--ndjson", "--data",
				`{"id":"m-2","type":"a","timestamp":"2026-08-19T15:10:00Z","data":1}`}},
	}
	asked := map[string]bool{}
	for _, w := range twins {
		asked[w.route] = true
		if len(w.command) > 0 && w.command[0] != "" {
			d.compare(w)
		}
	}
	for _, route := range api.New(nil).Methods() {
		if !asked[route] {
			t.Errorf("%s has no command beside it in this test", route)
		}
	}
}

// await returns once what is asked holds.
func (d *deployment) await(what string, holds func() bool) {
	d.t.Helper()
	end := time.After(startBound)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			d.t.Fatalf("not so after %s: %s\n%s", startBound, what, d.log)
		}
	}
}

// compare asks both.
func (d *deployment) compare(w twin) {
	d.t.Helper()
	method, path, _ := strings.Cut(w.route, " ")
	if w.path != "" {
		path = w.path
	}
	req, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+d.HTTP+path, strings.NewReader(w.body))
	if err != nil {
		d.t.Fatal(err)
	}
	if w.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if strings.HasSuffix(w.body, "\n") {
		req.Header.Set("Content-Type", "application/x-ndjson")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var theirs, ours any
	if err != nil || resp.StatusCode/100 != 2 || json.Unmarshal(body, &theirs) != nil {
		d.t.Errorf("%s %s: %s %v %s", method, path, resp.Status, err, body)
		return
	}
	d.do("", &ours, w.command...)
	if a, b := shape(theirs), shape(ours); !maps.Equal(a, b) {
		d.t.Errorf("%s is not what waybill %s -o json prints:\n%s", w.route, strings.Join(w.command, " "), difference(a, b))
	}
}

// free are objects whose names are data: ids, reasons, header names.
var free = []string{".reasons", ".endpoints", ".headers", ".response_headers", ".settings"}

// shape is each field's path with its kind. What is in a list is one field,
// whichever element has it.
func shape(v any) map[string]string {
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			out[path] = "object"
			if slices.ContainsFunc(free, func(name string) bool { return strings.HasSuffix(path, name) }) {
				return
			}
			for name, field := range v {
				walk(path+"."+name, field)
			}
		case []any:
			out[path] = "list"
			for _, element := range v {
				walk(path+"[]", element)
			}
		default:
			out[path] = fmt.Sprintf("%T", v)
		}
	}
	walk("", v)
	return out
}

func difference(api, command map[string]string) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(api)) {
		if command[path] != api[path] {
			fmt.Fprintf(&b, "  %s: the API has %s, the command %q\n", path, api[path], command[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(command)) {
		if api[path] == "" {
			fmt.Fprintf(&b, "  %s: the command alone has it\n", path)
		}
	}
	return b.String()
}
