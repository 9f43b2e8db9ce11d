// Package pagerduty tells people through PagerDuty's Events API v2.
package pagerduty

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/platform/egress"
)

// DefaultURL is the service's own.
const DefaultURL = "https://events.pagerduty.com"

const maxSummary = 1024 // the service's bound, and more than a person reads

var routingKey = regexp.MustCompile(`^[A-Za-z0-9]{32}$`)

// Driver sends through channels of this kind.
type Driver struct{}

// Kind implements channel.Driver, as what follows does.
func (Driver) Kind() channel.Kind { return channel.PagerDuty }

// Settings of the kind.
func (Driver) Settings() []string { return []string{"url", "secret"} }

// WithDefaults fills what may be left out.
func (Driver) WithDefaults(c channel.Channel) channel.Channel {
	c.URL = cmp.Or(c.URL, DefaultURL)
	return c
}

// Validate says which setting is wrong.
func (Driver) Validate(c channel.Channel, policy egress.Policy) error {
	if !routingKey.MatchString(string(c.Secret)) && !c.Sealed() {
		return channel.Wrong("secret", "want the routing key of an Events API v2 integration, 32 letters and digits")
	}
	return channel.CheckURL(policy, "url", c.URL)
}

// Resolves says whether a Resolve message is worth sending.
func (Driver) Resolves() bool { return true }

// Notify triggers or resolves under the incident's key.
func (Driver) Notify(ctx context.Context, way *channel.Way, c channel.Channel, m channel.Message) channel.Result {
	type payload struct {
		Summary   string          `json:"summary"`
		Source    string          `json:"source"`
		Severity  string          `json:"severity"`
		Timestamp string          `json:"timestamp"`
		Details   json.RawMessage `json:"custom_details,omitempty"`
	}
	type link struct {
		Href string `json:"href"`
		Text string `json:"text"`
	}
	event := struct {
		RoutingKey string   `json:"routing_key"`
		Action     string   `json:"event_action"`
		DedupKey   string   `json:"dedup_key"`
		Client     string   `json:"client,omitempty"`
		Payload    *payload `json:"payload,omitempty"`
		Links      []link   `json:"links,omitempty"`
	}{RoutingKey: string(c.Secret), Action: "resolve", DedupKey: m.Key}
	if m.Action != channel.Resolve {
		details, err := json.Marshal(map[string]any{"text": m.Text, "waybill": m.Data})
		if err != nil {
			return channel.Misconfigured(err.Error())
		}
		severity := "critical"
		if m.Action == channel.Test {
			severity = "info"
		}
		event.Action, event.Client = "trigger", "Waybill"
		event.Payload = &payload{channel.Clip(m.Title, maxSummary-3), cmp.Or(m.Source, "waybill"), severity,
			m.At.UTC().Format(time.RFC3339Nano), details}
		if m.Link != "" {
			event.Links = []link{{m.Link, "What is on record"}}
		}
	}
	body, err := json.Marshal(event)
	if err != nil {
		return channel.Misconfigured(err.Error())
	}
	return way.Post(ctx, strings.TrimSuffix(c.URL, "/")+"/v2/enqueue", http.Header{"Content-Type": {"application/json"}},
		body)
}
