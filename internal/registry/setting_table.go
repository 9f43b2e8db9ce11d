package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// schemes are what the command line says of a scheme that is none of these.
var schemes = []envelope.Scheme{envelope.SchemeHMAC, envelope.SchemeEd25519, envelope.SchemeTimestamped}

// The table. Its order is that of the checks: of several wrong settings the
// first one is named.
var (
	receiverSettings = []Setting{
		{Name: "url", Title: "url", Shown: 1, Since: "0.1.0",
			Flag: Flag{Name: "url", Help: "where to send, https:// or http://"},
			Meaning: "where to send, `https://` or `http://`. An address that Waybill may not call (private, loopback, " +
				"metadata …) is refused at once, unless `--egress-allow` permits it; a name is checked at each connection",
			check: func(e *Endpoint) error {
				if e.URL == "" || len(e.URL) > maxURL {
					return fmt.Errorf("url: want 1 to %d characters, got %d", maxURL, len(e.URL))
				}
				return nil
			},
			early: func(e *Endpoint) error {
				if e.URL == "" {
					return nil
				}
				_, err := egress.ParseURL(e.URL)
				return err
			}},
		{Name: "types", Title: "types", Shown: 2, Since: "0.1.0",
			Flag: Flag{Name: "types",
				Help: "event types, comma-separated: exact, a.* for one more token, a.> for any more, > for all"},
			Meaning: "the event types that it is owed, as patterns: `*` stands for one token, `>` at the end for one or more",
			Values:  "1 to " + strconv.Itoa(subscription.MaxPatterns),
			check: func(e *Endpoint) error {
				if len(e.Types) == 0 || len(e.Types) > subscription.MaxPatterns {
					return fmt.Errorf("types: want 1 to %d patterns, got %d; use > for every type",
						subscription.MaxPatterns, len(e.Types))
				}
				return validatePatterns(e)
			},
			early: validatePatterns},
		{Name: "description", Title: "description", Shown: 3, Since: "0.1.0",
			Flag:    Flag{Name: "description", Help: "for people"},
			Meaning: "for people", Values: "up to " + strconv.Itoa(maxDescription) + " bytes",
			check: func(e *Endpoint) error {
				if len(e.Description) > maxDescription {
					return fmt.Errorf("description: at most %d characters", maxDescription)
				}
				return nil
			},
			early: unchecked},
	}

	signingSettings = []Setting{
		{Name: "scheme", Title: "signing", Shown: 4, Since: "0.1.0", Default: envelope.SchemeHMAC,
			Flag: Flag{Name: "scheme",
				Help: "how requests are signed: v1 (HMAC-SHA256), v1a (Ed25519) or t,v1 (timestamped HMAC)"},
			Meaning: "how requests are signed. It can change between `v1` and `t,v1`",
			Values:  "`v1`, `v1a` (Ed25519) or `t,v1` (timestamped)",
			early: func(e *Endpoint) error {
				for _, s := range schemes {
					if e.Scheme == s {
						return nil
					}
				}
				return &Wrong{"scheme", strconv.Quote(string(e.Scheme)), "v1, v1a or t,v1"}
			}},
		{Name: "signature_header", Shown: 5, Since: "0.1.0",
			Flag: Flag{Name: "signature-header",
				Help: "header of the signature, with --scheme t,v1 only (default " + envelope.DefaultTimestampedHeader + ")"},
			Meaning: "header of the signature, for the scheme `t,v1` only",
			early: func(e *Endpoint) error {
				if e.SignatureHeader == "" {
					return nil
				}
				return envelope.ValidateSignatureHeader(e.SignatureHeader)
			}},
	}

	deliverySettings = []Setting{
		{Name: "timeout", Title: "timeout", Shown: 6, Since: "0.1.0", Default: DefaultTimeout,
			Flag:    Flag{Name: "timeout", Help: "how long an answer may take, at most " + MaxTimeout.String()},
			Meaning: "of a whole exchange", Values: "`1ms` to `" + MaxTimeout.String() + "`",
			check:  bounded("timeout", timeout, time.Millisecond, MaxTimeout, ""),
			record: func(e *Endpoint) string { return e.Timeout.String() }},
		{Name: "max_in_flight", Title: "max in flight", Shown: 7, Since: "0.1.0", Default: DefaultMaxInFlight,
			Flag:    Flag{Name: "max-in-flight", Help: "requests at once, at most " + strconv.Itoa(MaxMaxInFlight)},
			Meaning: "requests at once", Values: "1 to " + strconv.Itoa(MaxMaxInFlight),
			check:  bounded("max_in_flight", func(e *Endpoint) int { return e.MaxInFlight }, 1, MaxMaxInFlight, ""),
			record: func(e *Endpoint) string { return strconv.Itoa(e.MaxInFlight) }},
		{Name: "deliver_within", Title: "deliver within", Shown: 12, Since: "0.1.0",
			Flag:    Flag{Name: "deliver-within", Help: "deadline for events that bring none; 0s for none"},
			Meaning: "the deadline of events that bring none. `0s`: no deadline",
			check: func(e *Endpoint) error {
				if e.DeliverWithin < 0 {
					return fmt.Errorf("deliver_within: %s is in the past", e.DeliverWithin)
				}
				return nil
			},
			early:  notNegative("deliver_within", func(e *Endpoint) time.Duration { return e.DeliverWithin }),
			record: func(e *Endpoint) string { return positive(e.DeliverWithin) }},
		{Name: "disable_after", Title: "disable after", Shown: 19, Since: "0.1.0", Default: DefaultDisableAfter,
			Flag: Flag{Name: "disable-after",
				Help: "disable the endpoint when no attempt succeeded for so long; 0s for never"},
			Meaning: "Waybill disables the endpoint when no attempt succeeded for so long. `0s`: never",
			Values:  "`1m` to `720h`, or `0s`",
			check:   bounded("disable_after", disableAfter, minDisableAfter, maxDisableAfter, "0s for never"),
			early:   notNegative("disable_after", disableAfter),
			record:  func(e *Endpoint) string { return e.DisableAfter.String() }},
		{Name: "policy", Nullable: true, Title: "policy", Shown: 8, Since: "0.1.0",
			Flags: []Flag{{Name: "policy", Help: "schedule of attempts: standard, urgent, a JSON object, or @FILE " +
				"(default: standard, or urgent when there is a deadline)"}},
			Meaning: "schedule of attempts. Absent: `standard`, or `urgent` when there is a deadline",
			Values: "`\"standard\"`, `\"urgent\"` or an object such as `{\"delays\":[\"5s\",\"5m\"],\"stretch\":0.2}` " +
				"or `{\"base\":\"1s\",\"cap\":\"1m\"}`",
			check: func(e *Endpoint) error {
				if e.Policy == nil {
					return nil
				}
				return e.Policy.Validate()
			},
			record: func(e *Endpoint) string {
				if e.Policy == nil {
					return ""
				}
				return schedule(*e.Policy)
			}},
		{Name: "max_per_second", Title: "max per second", Shown: 11, Since: "0.1.0",
			Flag: Flag{Name: "max-per-second",
				Help: "requests a second of all dispatchers together, such as 0.5; 0 for no limit"},
			Meaning: "requests a second of all dispatchers together. 0: no limit",
			Values:  fmt.Sprintf("%v to %v, or 0", MinMaxPerSecond, MaxMaxPerSecond),
			check: bounded("max_per_second", func(e *Endpoint) float64 { return e.MaxPerSecond },
				MinMaxPerSecond, MaxMaxPerSecond, "0 for no limit"),
			record: func(e *Endpoint) string {
				if e.MaxPerSecond <= 0 {
					return ""
				}
				return strconv.FormatFloat(e.MaxPerSecond, 'g', -1, 64)
			}},
		{Name: "ordering", Fixed: true, Title: "ordering", Shown: 10, Since: "0.1.0",
			Flag: Flag{Name: "ordering", Help: "fifo: one delivery at a time, in the order of events; " +
				"it cannot be changed later (default: no order)"},
			Meaning: "`fifo`: one delivery at a time, in the order of events, [at a price](delivery.md#order). Absent: no order",
			Values:  "`fifo`",
			check: func(e *Endpoint) error {
				if e.Ordering != "" && e.Ordering != FIFO {
					return &Wrong{"ordering", strconv.Quote(string(e.Ordering)),
						strconv.Quote(string(FIFO)) + ", or leave it out for none"}
				}
				return nil
			},
			early: func(e *Endpoint) error {
				if e.Ordering != "" && e.Ordering != FIFO {
					return &Wrong{"ordering", strconv.Quote(string(e.Ordering)), "fifo, or leave it out"}
				}
				return nil
			},
			record: func(e *Endpoint) string { return string(e.Ordering) }},
		{Name: "policies", Title: "policy for", Shown: 9, Since: "0.1.0",
			Flags: []Flag{{Name: "policy-for", Help: "policy for some event types only, TYPES=POLICY as in " +
				"'lab_result.*=urgent'; repeatable, the first that matches wins; '' removes all"}},
			Meaning: "policies for some types only; the first that matches wins, before `policy`",
			Values:  "`[{\"types\":[\"lab_result.*\"],\"policy\":\"urgent\"}]`",
			check:   func(e *Endpoint) error { return validatePolicies(e.Policies) }},
	}

	// What they may be stands in validateCredentials: it depends on each other.
	connectionSettings = []Setting{
		{Name: "headers", Own: true, Secret: true, Title: "headers", Shown: 13, Since: "0.1.0",
			Flags: []Flag{{Name: "header", Help: "header that requests carry, 'Name: value' or 'Name: @FILE'; repeatable; " +
				"the value is kept encrypted and never shown"}},
			Meaning: "names and values that requests carry. A change replaces all of them", Values: "an object"},
		{Name: "authorization", Own: true, Secret: true, Nullable: true, Title: "authorization", Shown: 14, Since: "0.1.0",
			Flags: []Flag{{Name: "authorization-file",
				Help: "file with the value of the Authorization header, such as: Bearer abc"}},
			Meaning: "the `Authorization` header",
			Values:  "`{\"bearer\":…}`, `{\"basic\":{\"username\":…,\"password\":…}}` or `{\"raw\":…}`"},
		{Name: "client_certificate", Own: true, Secret: true, Nullable: true, Title: "client cert", Shown: 15, Since: "0.1.0",
			Flags: []Flag{
				{Name: "client-cert", Help: "PEM file with the client certificate that connections present (mTLS), the leaf first"},
				{Name: "client-key", Help: "PEM file with the private key of --client-cert, unencrypted"}},
			Meaning: "what connections present (mTLS), both PEM", Values: "`{\"certificate\":…,\"key\":…}`"},
		{Name: "ca", Own: true, Title: "ca", Shown: 16, Since: "0.1.0",
			Flags: []Flag{{Name: "ca",
				Help: "PEM file with issuers of the receiver's certificate, trusted besides the system's"}},
			Meaning: "PEM: issuers of the receiver's certificate, trusted besides the system's. `\"\"`: none",
			record: func(e *Endpoint) string {
				if e.CA == "" {
					return ""
				}
				sum := sha256.Sum256([]byte(e.CA)) // of the PEM as it was given
				return hex.EncodeToString(sum[:])
			}},
		{Name: "oauth2", Own: true, Secret: true, Nullable: true, Title: "oauth2", Shown: 17, Since: "0.1.0",
			Flags: []Flag{
				{Name: "oauth2-token-url", Help: "token endpoint of OAuth 2.0 client credentials, https://"},
				{Name: "oauth2-client-id", Help: "client id for --oauth2-token-url"},
				{Name: "oauth2-client-secret-file", Help: "file with the client secret for --oauth2-token-url"},
				{Name: "oauth2-scopes", Help: "scopes to ask for, comma-separated"},
				{Name: "oauth2-audience", Help: "audience to ask for, where the token endpoint wants one"},
				{Name: "oauth2-auth", Help: "how the client names itself: basic (a header) or post (in the body)"}},
			Meaning: "client credentials. The last three are optional, `auth` is `basic` or `post`",
			Values:  "`{\"token_url\",\"client_id\",\"client_secret\",\"scopes\",\"audience\",\"auth\"}`"},
		{Name: "egress_proxy", Title: "proxy", Shown: 18, Since: "0.1.0",
			// WAYBILL_EGRESS_PROXY is the dispatchers', with a password perhaps.
			Flag: Flag{Name: "egress-proxy", Env: "WAYBILL_ENDPOINT_EGRESS_PROXY",
				Help: "HTTP proxy for this endpoint instead of the dispatchers', http[s]://host:port"},
			Meaning: "HTTP proxy instead of the dispatchers' `--egress-proxy`. `\"\"`: theirs", Values: "`http[s]://host:port`",
			record: func(e *Endpoint) string { return e.EgressProxy }},
	}
)

func timeout(e *Endpoint) time.Duration      { return e.Timeout }
func disableAfter(e *Endpoint) time.Duration { return e.DisableAfter }

// unchecked leaves a check to the API.
func unchecked(*Endpoint) error { return nil }

func positive(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return d.String()
}

func validatePatterns(e *Endpoint) error {
	for _, p := range e.Types {
		if err := subscription.Validate(p); err != nil {
			return err
		}
	}
	return nil
}
