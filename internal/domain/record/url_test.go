package record_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

func TestNoSecretOfAURLGoesOnRecord(t *testing.T) {
	const long = "~secret-"
	for _, c := range []struct{ name, raw, want, secret string }{
		{"a plain one", "https://example.com/hooks/orders", "https://example.com/hooks/orders", ""},
		{"escapes stay as they are written", "https://example.com/a%2Fb/%C3%BC?x=1", "https://example.com/a%2Fb/%C3%BC", ""},
		{"user, query, fragment", "https://ann:hunter2hunter2@example.com:8443/in?token=abcdefgh#top",
			"https://example.com:8443/in", "hunter2hunter2 abcdefgh"},
		{"names of people's making", "https://example.com/order-status-notifications/customers/v2026.11/incoming-webhooks",
			"https://example.com/order-status-notifications/customers/v2026.11/incoming-webhooks", ""},
		{"an id of ours", "https://example.com/in/ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K",
			"https://example.com/in/ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K", ""},
		{"Slack", "https://hooks.slack.com/services/T00000000/B00000000/" + "XXXXXXXXXXXXXXXXXXXXXXXX",
			"https://hooks.slack.com/services/T00000000/B00000000/" + long, "XXXXXXXXXXXXXXXXXXXXXXXX"},
		{"Discord", "https://discord.com/api/v10/webhooks/123456/aaaa-bbbb-cccc-dddd/slack",
			"https://discord.com/api/v10/webhooks/123456/" + long, "aaaa-bbbb-cccc-dddd"},
		{"Zapier, too short for a fingerprint", "https://hooks.zapier.com/hooks/catch/12345/ab1cd2e/",
			"https://hooks.zapier.com/hooks/catch/12345/~secret/", ""},
		{"Telegram", "https://api.telegram.org/bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/sendMessage",
			"https://api.telegram.org/" + long, "bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"},
		{"Teams", "https://x.webhook.office.com/webhookb2/11111111-2222-4333-8444-555555555555/IncomingWebhook/0123456789abcdef0123456789abcdef/66666666-7777-4888-8999-000000000000", "https://x.webhook.office.com/webhookb2/" + long, "0123456789abcdef0123456789abcdef"},
		{"a random word anywhere", "https://example.com/in/q7Zr2LwX9vKp4TnB8sYd3HfM/x", "https://example.com/in/" + long,
			"q7Zr2LwX9vKp4TnB8sYd3HfM"},
		{"a random UUID", "https://webhook.site/3f2b8c1e-9d4a-4e6f-8a7b-1c2d3e4f5a6b", "https://webhook.site/" + long,
			"3f2b8c1e-9d4a-4e6f-8a7b-1c2d3e4f5a6b"},
		{"none", "https://exa mple/%zz", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := record.SafeURL(c.raw)
			if c.secret == "" && !strings.Contains(c.want, "~secret") && got != c.want || !strings.HasPrefix(got, c.want) {
				t.Errorf("on record is %q, want %q", got, c.want)
			}
			for secret := range strings.FieldsSeq(c.secret) {
				if strings.Contains(got, secret) || !slices.Contains(record.URLSecrets(c.raw), secret) {
					t.Errorf("%q is on record in %q, or is not known as secret: %q", secret, got, record.URLSecrets(c.raw))
				}
			}
			if again := record.SafeURL(got); again != got {
				t.Errorf("said again it is %q, not %q", again, got)
			}
		})
	}
}

// Whoever has the URL can confirm what is on record: printf %s SEGMENT | sha256sum | cut -c 1-16
func TestAHiddenSegmentCanBeConfirmed(t *testing.T) {
	got := record.SafeURL("https://hooks.slack.com/services/T00000000/B00000000/abc%64efghijklmnopqrstuvwx")
	if same := record.SafeURL("https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx"); same != got {
		t.Errorf("%q and %q are one address", got, same)
	}
	if !strings.HasSuffix(got, "~secret-"+sha("abcdefghijklmnopqrstuvwx")) {
		t.Errorf("%q does not end in the digest", got)
	}
}

func sha(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s)))[:16] }
