package interop

import (
	"net/http"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stripe/stripe-go/v85/webhook"
	svix "github.com/svix/svix-webhooks/go"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

func withStandardWebhooks(secret string, h http.Header, body []byte) error {
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	return wh.Verify(body, h)
}

func withSvix(secret string, h http.Header, body []byte) error {
	wh, err := svix.NewWebhook(secret)
	if err != nil {
		return err
	}
	return wh.Verify(body, h)
}

func withStripe(secret string, h http.Header, body []byte) error {
	return webhook.ValidatePayload(body, h.Get(stripeHeader), secret)
}

func withOurs(secret string, h http.Header, body []byte) error {
	v, err := envelope.NewVerifier(secret)
	if err != nil {
		return err
	}
	return v.Verify(h, body)
}

func withOursTimestamped(secret string, h http.Header, body []byte) error {
	v, err := envelope.NewTimestampedVerifier(stripeHeader, secret)
	if err != nil {
		return err
	}
	return v.Verify(h, body)
}

func TestGoVerifiersJudgeOurRequestsRight(t *testing.T) {
	for _, v := range []struct {
		name    string
		verify  func(secret string, h http.Header, body []byte) error
		secrets secrets
		extra   []request
	}{
		{"standard-webhooks", withStandardWebhooks, hmacSecrets, bothFamilies(t, oldSecret)},
		{"svix-webhooks", withSvix, hmacSecrets, bothFamilies(t, oldSecret)},
		{"stripe-go", withStripe, stampedSecrets, nil},
		{"pkg/envelope, HMAC", withOurs, hmacSecrets, bothFamilies(t, oldSecret)},
		{"pkg/envelope, Ed25519", withOurs, ed25519Secrets, bothFamilies(t, publicHalf(t, oldPair))},
		{"pkg/envelope, timestamped", withOursTimestamped, stampedSecrets, nil},
	} {
		t.Run(v.name, func(t *testing.T) {
			rs := append(requests(t, v.secrets), v.extra...)
			tally(t, v.name, rs)
			for _, r := range rs {
				judge(t, v.name, r, v.verify(r.secret, r.header, r.body))
			}
		})
	}
}

// The other way round: what their libraries sign, our Verifier accepts.
func TestOurVerifierAcceptsWhatTheirLibrariesSign(t *testing.T) {
	for name, raw := range corpus(t) {
		h, body := signedByStandardWebhooks(t, raw)
		if err := withOurs(oldSecret, h, body); err != nil {
			t.Errorf("%s, signed by standard-webhooks: %v", name, err)
		}
		stripe := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: raw, Secret: oldSecret})
		h = http.Header{stripeHeader: {stripe.Header}}
		if err := withOursTimestamped(oldSecret, h, raw); err != nil {
			t.Errorf("%s, signed by stripe-go: %v", name, err)
		}
		if withOursTimestamped(newSecret, h, raw) == nil || withOurs(newSecret, h, body) == nil {
			t.Errorf("%s: accepted under a secret that did not sign", name)
		}
	}
}
