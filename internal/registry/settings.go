package registry

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/retry"
)

// Settings are what goes on record of a revision besides what has a field of
// its own: enough to tell how its requests were made, and nothing secret.
func (e *Endpoint) Settings() map[string]string {
	s := map[string]string{}
	for _, setting := range settings {
		if setting.record == nil {
			continue
		}
		if v := setting.record(e); v != "" {
			s[setting.Name] = v
		}
	}
	var names []string
	for _, h := range e.Headers {
		names = append(names, h.Name)
	}
	if len(names) > 0 {
		s["headers"] = strings.Join(names, ", ")
	}
	if e.Authorization != nil {
		s["authorization"] = e.Authorization.Scheme
	}
	if c := e.ClientCertificate; c != nil {
		s["client_certificate"], s["client_certificate_until"] = c.Fingerprint, c.NotAfter.UTC().Format(time.RFC3339)
	}
	if e.OAuth2 != nil {
		s["oauth2_token_url"], s["oauth2_client_id"] = record.SafeURL(e.OAuth2.TokenURL), e.OAuth2.ClientID
	}
	for i, r := range e.Policies {
		s["policy_for_"+strconv.Itoa(i+1)] = strings.Join(r.Types, ", ") + ": " + schedule(r.Policy)
	}
	if keys := e.SealedUnder(); len(keys) > 0 {
		s["sealed_under"] = strings.Join(keys, ", ")
	}
	return s
}

// schedule is a policy as it goes on record: a built-in one by its name, any
// other whole, since its name, if it has one, says nothing of when attempts are made.
func schedule(p retry.Policy) string {
	if built, ok := retry.Preset(p.Name); ok && reflect.DeepEqual(built, p) {
		return p.Name
	}
	b, err := json.Marshal(p)
	if err != nil {
		return p.Name
	}
	return string(b)
}

// SealedUnder are the ids of the secrets keys that the endpoint's secrets need.
func (e *Endpoint) SealedUnder() []string {
	var ids []string
	add := func(id string) {
		for _, have := range ids {
			if have == id {
				return
			}
		}
		if id != "" {
			ids = append(ids, id)
		}
	}
	for _, s := range e.Secrets {
		add(s.Sealed.KeyID())
	}
	for _, h := range e.Headers {
		add(h.Sealed.KeyID())
	}
	if e.Authorization != nil {
		add(e.Authorization.Sealed.KeyID())
	}
	if e.ClientCertificate != nil {
		add(e.ClientCertificate.Key.KeyID())
	}
	if e.OAuth2 != nil {
		add(e.OAuth2.Secret.KeyID())
	}
	return ids
}
