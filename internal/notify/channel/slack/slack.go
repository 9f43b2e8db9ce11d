// Package slack tells people through an incoming webhook of Slack, or of a chat like it.
package slack

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/platform/egress"
)

const maxChat = 3000 // below what Slack cuts

// Driver sends through channels of this kind.
type Driver struct{}

// Kind implements channel.Driver, as what follows does.
func (Driver) Kind() channel.Kind { return channel.Slack }

// Settings of the kind.
func (Driver) Settings() []string { return []string{"secret"} }

// WithDefaults fills what may be left out.
func (Driver) WithDefaults(c channel.Channel) channel.Channel { return c }

// Validate says which setting is wrong.
func (Driver) Validate(c channel.Channel, policy egress.Policy) error {
	if c.Sealed() {
		return nil
	}
	return channel.CheckURL(policy, "secret", string(c.Secret))
}

// Resolves says whether a Resolve message is worth sending.
func (Driver) Resolves() bool { return true }

// Notify writes into the chat.
func (Driver) Notify(ctx context.Context, way *channel.Way, c channel.Channel, m channel.Message) channel.Result {
	text := "*" + slackText(m.Title) + "*\n" + slackText(m.Text)
	if m.Link != "" {
		text += "\n" + slackText(m.Link)
	}
	body, err := json.Marshal(map[string]string{"text": channel.Clip(text, maxChat)})
	if err != nil {
		return channel.Misconfigured(err.Error())
	}
	return way.Post(ctx, string(c.Secret), http.Header{"Content-Type": {"application/json"}}, body)
}

// slackText keeps what is said from becoming a mention or a link.
func slackText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
