package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

const (
	// maxAnswer is how much of an answer is read: enough for an error's text.
	maxAnswer = 4 << 10
	// maxRetryAfter keeps a server from silencing us for longer than people wait.
	maxRetryAfter = 5 * time.Minute

	maxSummary = 1024 // PagerDuty's bound, and more than a person reads
	maxChat    = 3000 // below what Slack cuts
	maxSMS     = 480  // three segments, or seven where the text is not plain ASCII
)

// eventTypes of a webhook, by action.
func eventType(a Action) string {
	switch a {
	case Resolve:
		return "waybill.escalation.acknowledged"
	case Test:
		return "waybill.escalation.test"
	}
	return "waybill.escalation.triggered"
}

// sendWebhook makes a request that verifies as every delivery of ours does.
func (s *Sender) sendWebhook(ctx context.Context, c Channel, m Message) Result {
	key, err := envelope.ParseSecretFor(envelope.SchemeHMAC, string(c.Secret))
	if err != nil {
		return misconfigured("the signing secret cannot be read")
	}
	data, err := dataOf(m)
	if err != nil {
		return misconfigured(err.Error())
	}
	event := envelope.Event{ID: m.ID, Type: eventType(m.Action), Timestamp: m.At.UTC(), Data: data}
	body := event.AppendBody(nil, max(m.Try, 1))
	header, err := envelope.Headers([]envelope.Key{key}, "", m.ID, time.Now(), body)
	if err != nil {
		return misconfigured(err.Error())
	}
	return s.post(ctx, c.URL, header, body)
}

// sendPagerDuty triggers or resolves under the incident's key.
func (s *Sender) sendPagerDuty(ctx context.Context, c Channel, m Message) Result {
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
	if m.Action != Resolve {
		details, err := json.Marshal(map[string]any{"text": m.Text, "waybill": m.Data})
		if err != nil {
			return misconfigured(err.Error())
		}
		severity := "critical"
		if m.Action == Test {
			severity = "info"
		}
		event.Action, event.Client = "trigger", "Waybill"
		event.Payload = &payload{clip(m.Title, maxSummary-3), orElse(m.Source, "waybill"), severity,
			m.At.UTC().Format(time.RFC3339Nano), details}
		if m.Link != "" {
			event.Links = []link{{m.Link, "What is on record"}}
		}
	}
	body, err := json.Marshal(event)
	if err != nil {
		return misconfigured(err.Error())
	}
	return s.post(ctx, strings.TrimSuffix(c.URL, "/")+"/v2/enqueue", http.Header{"Content-Type": {"application/json"}},
		body)
}

func (s *Sender) sendSlack(ctx context.Context, c Channel, m Message) Result {
	text := "*" + slackText(m.Title) + "*\n" + slackText(m.Text)
	if m.Link != "" {
		text += "\n" + slackText(m.Link)
	}
	body, err := json.Marshal(map[string]string{"text": clip(text, maxChat)})
	if err != nil {
		return misconfigured(err.Error())
	}
	return s.post(ctx, string(c.Secret), http.Header{"Content-Type": {"application/json"}}, body)
}

// slackText keeps what is said from becoming a mention or a link.
func slackText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

func (s *Sender) sendSMS(ctx context.Context, c Channel, m Message) Result {
	if len(c.To) != 1 {
		return misconfigured("a channel of kind sms has one receiver")
	}
	form := url.Values{"To": {c.To[0]}, "Body": {clip(m.Title+"\n"+m.Text, maxSMS)}}
	if strings.HasPrefix(c.From, "MG") && len(c.From) == 34 {
		form.Set("MessagingServiceSid", c.From)
	} else {
		form.Set("From", c.From)
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	r := &http.Request{Header: header}
	r.SetBasicAuth(c.Account, string(c.Secret))
	return s.post(ctx, strings.TrimSuffix(c.URL, "/")+"/2010-04-01/Accounts/"+c.Account+"/Messages.json", header,
		[]byte(form.Encode()))
}

// post makes the request and sorts the answer.
func (s *Sender) post(ctx context.Context, to string, header http.Header, body []byte) Result {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, egress.EscapeURL(to), bytes.NewReader(body))
	if err != nil {
		return misconfigured("the address cannot be read")
	}
	req.Header = header
	req.Header.Set("User-Agent", s.o.Software)
	res, err := s.http.Do(req)
	if err != nil {
		// Its text quotes the whole address, which may be a secret.
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return failure(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	r := ofStatus(res.StatusCode, answer)
	if err != nil && r.Class == outcome.ClassDelivered {
		// Accepted is what the status says; a body that breaks off changes nothing.
		return r
	}
	r.RetryAfter = retryAfter(res.Header.Get("Retry-After"))
	return r
}

func ofStatus(status int, answer []byte) Result {
	r := Result{Status: status, Class: outcome.ClassTerminal, Outcome: outcome.Rejected}
	switch {
	case status >= 200 && status < 300:
		r.Class, r.Outcome = outcome.ClassDelivered, outcome.Delivered
		return r
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status >= 500:
		r.Class, r.Outcome = outcome.ClassRetryable, outcome.Busy
	}
	r.Error = fmt.Sprintf("answered %d", status)
	if text := strings.TrimSpace(clip(string(answer), maxError)); text != "" {
		r.Error += ": " + text
	}
	return r
}

func retryAfter(s string) time.Duration {
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	return 0
}
