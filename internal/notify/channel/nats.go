package channel

import (
	"context"
	"encoding/json"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
)

// sendNATS publishes the message for programs. Delivered means that the server
// has it: whether somebody listens, NATS does not say.
func (s *Sender) sendNATS(ctx context.Context, c Channel, m Message) Result {
	if s.o.NC == nil {
		return misconfigured("this process has no connection to NATS")
	}
	data, err := dataOf(m)
	if err != nil {
		return misconfigured(err.Error())
	}
	body, err := json.Marshal(struct {
		ID       string          `json:"id"`
		Incident string          `json:"incident,omitempty"`
		Action   Action          `json:"action"`
		Title    string          `json:"title"`
		Text     string          `json:"text"`
		Link     string          `json:"link,omitempty"`
		Data     json.RawMessage `json:"data"`
	}{m.ID, m.Key, m.Action, m.Title, m.Text, m.Link, data})
	if err != nil {
		return misconfigured(err.Error())
	}
	if err := s.o.NC.PublishMsg(&nats.Msg{Subject: c.Subject, Header: nats.Header{nats.MsgIdHdr: {m.ID}},
		Data: body}); err != nil {
		return failure(err)
	}
	// Without it the message may still be in our own buffer while NATS is away.
	if err := s.o.NC.FlushWithContext(ctx); err != nil {
		return failure(err)
	}
	return Result{Class: outcome.ClassDelivered, Outcome: outcome.Delivered}
}
