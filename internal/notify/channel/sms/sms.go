// Package sms tells one person by text message, through Twilio's REST API or one like it.
package sms

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/platform/egress"
)

// DefaultURL is Twilio's.
const DefaultURL = "https://api.twilio.com"

const maxSMS = 480 // three segments, or seven where the text is not plain ASCII

var (
	accountSID = regexp.MustCompile(`^[A-Za-z0-9]{2,64}$`)
	phone      = regexp.MustCompile(`^\+[1-9][0-9]{5,14}$`)
	smsSender  = regexp.MustCompile(`^(\+[1-9][0-9]{5,14}|[A-Za-z0-9 ]{1,11}|MG[0-9a-fA-F]{32})$`)
)

// Driver sends through channels of this kind.
type Driver struct{}

// Kind implements channel.Driver, as what follows does.
func (Driver) Kind() channel.Kind { return channel.SMS }

// Settings of the kind.
func (Driver) Settings() []string { return []string{"url", "secret", "from", "to", "account"} }

// WithDefaults fills what may be left out.
func (Driver) WithDefaults(c channel.Channel) channel.Channel {
	c.URL = cmp.Or(c.URL, DefaultURL)
	return c
}

// Validate says which setting is wrong.
func (Driver) Validate(c channel.Channel, policy egress.Policy) error {
	switch {
	case !accountSID.MatchString(c.Account):
		return channel.Wrong("account", "%.80q; want the account's SID, such as AC0123…", c.Account)
	case c.Secret == "" || len(c.Secret) > channel.MaxField && !c.Sealed():
		return channel.Wrong("secret", "missing, or too long; want the account's auth token")
	case !smsSender.MatchString(c.From):
		return channel.Wrong("from", "%.40q; want a number such as +15005550006, a sender's name of up to 11 letters, or a "+
			"messaging service MG…", c.From)
	case len(c.To) != 1 || !phone.MatchString(c.To[0]):
		return channel.Wrong("to", "want exactly one number, such as +15005550009; make a channel for each person")
	}
	return channel.CheckURL(policy, "url", c.URL)
}

// Resolves says whether a Resolve message is worth sending.
func (Driver) Resolves() bool { return false }

// Notify sends one text message.
func (Driver) Notify(ctx context.Context, way *channel.Way, c channel.Channel, m channel.Message) channel.Result {
	if len(c.To) != 1 {
		return channel.Misconfigured("a channel of kind sms has one receiver")
	}
	form := url.Values{"To": {c.To[0]}, "Body": {channel.Clip(m.Title+"\n"+m.Text, maxSMS)}}
	if strings.HasPrefix(c.From, "MG") && len(c.From) == 34 {
		form.Set("MessagingServiceSid", c.From)
	} else {
		form.Set("From", c.From)
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	r := &http.Request{Header: header}
	r.SetBasicAuth(c.Account, string(c.Secret))
	return way.Post(ctx, strings.TrimSuffix(c.URL, "/")+"/2010-04-01/Accounts/"+c.Account+"/Messages.json", header,
		[]byte(form.Encode()))
}
