package control_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

const topSecret = "hunter2-hunter2"

// everything is a spec with a secret in every place that has one.
func everything(ca *testkit.CA, client testkit.Pair) func(*control.EndpointSpec) {
	return func(e *control.EndpointSpec) {
		e.Headers = map[string]string{"X-Api-Key": topSecret, "X-Region": "eu-1"}
		e.OAuth2 = &control.OAuth2Spec{TokenURL: "https://id.example.com/token", ClientID: "waybill", ClientSecret: topSecret,
			Scopes: []string{"a"}}
		e.ClientCertificate = &control.ClientCertificateSpec{Certificate: client.Cert, Key: client.Key}
		e.CA, e.EgressProxy = ca.PEM, "http://proxy.example.com:3128"
	}
}

// refusal is a spec that is refused, and the field that the error names.
type refusal struct {
	field  string
	change func(*control.EndpointSpec)
}

func header(name, value string) func(*control.EndpointSpec) {
	return func(e *control.EndpointSpec) { e.Headers = map[string]string{name: value} }
}

func auth(a control.AuthorizationSpec) func(*control.EndpointSpec) {
	return func(e *control.EndpointSpec) { e.Authorization = &a }
}

func oauth(change func(*control.OAuth2Spec)) func(*control.EndpointSpec) {
	o := control.OAuth2Spec{TokenURL: "https://id.example.com/token", ClientID: "waybill", ClientSecret: topSecret}
	change(&o)
	return func(e *control.EndpointSpec) { e.OAuth2 = &o }
}

func plain(f func(*control.EndpointSpec)) func(*control.EndpointSpec) {
	return func(e *control.EndpointSpec) { f(e); e.URL = "http://hooks.example.com/in" }
}

func wrongHeaders() map[string]refusal {
	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprint("X-", i)] = "x"
	}
	return map[string]refusal{
		"a header without a name":           {"headers", header("", topSecret)},
		"a header's name with a space":      {"headers", header("X Key", topSecret)},
		"a header's name with a colon":      {"headers", header("X-Key:", topSecret)},
		"a header's name beyond ASCII":      {"headers", header("X-Schlüssel", topSecret)},
		"a header's name with a line break": {"headers", header("X-Key\r\nX", topSecret)},
		"a header without a value":          {"headers", header("X-Key", "")},
		"a value with a line break":         {"headers", header("X-Key", topSecret+"\r\nX-Other: 1")},
		"a value with a NUL":                {"headers", header("X-Key", topSecret+"\x00")},
		"a value beyond ASCII":              {"headers", header("X-Key", topSecret+"é")},
		"a value that ends in a space":      {"headers", header("X-Key", topSecret+" ")},
		"a value that is too long":          {"headers", header("X-Key", strings.Repeat(topSecret, 400))},
		"too many headers":                  {"headers", func(e *control.EndpointSpec) { e.Headers = many }},
		"a header given twice": {"headers",
			func(e *control.EndpointSpec) { e.Headers = map[string]string{"X-A": "1", "x-a": "2"} }},
		"the signature's own header": {"headers", func(e *control.EndpointSpec) {
			e.Scheme, e.Headers = "t,v1", map[string]string{"waybill-signature": "x"}
		}},
		"a header with a field of its own": {"headers", header("authorization", topSecret)},
		"two authorizations": {"authorization",
			auth(control.AuthorizationSpec{Bearer: topSecret, Raw: topSecret})},
		"an empty authorization": {"authorization", auth(control.AuthorizationSpec{})},
		"an authorization with a line break": {"authorization",
			auth(control.AuthorizationSpec{Bearer: topSecret + "\nX: 1"})},
		"a user with a colon": {"authorization",
			auth(control.AuthorizationSpec{Basic: &control.BasicAuth{Username: "a:b", Password: topSecret}})},
		"an authorization over plain HTTP": {"authorization", plain(auth(control.AuthorizationSpec{Bearer: topSecret}))},
		"an authorization beside OAuth 2.0": {"authorization", func(e *control.EndpointSpec) {
			oauth(func(*control.OAuth2Spec) {})(e)
			auth(control.AuthorizationSpec{Bearer: topSecret})(e)
		}},
	}
}

func wrongConnections(t *testing.T, now time.Time) map[string]refusal {
	ca := testkit.NewCA(t, "ours")
	good, other := ca.Client("good", now.Add(time.Hour)), ca.Client("other", now.Add(time.Hour))
	expired, server := ca.Client("x", now.Add(-time.Minute)), ca.Server(now.Add(time.Hour))
	cert := func(c, k string) func(*control.EndpointSpec) {
		return func(e *control.EndpointSpec) {
			e.ClientCertificate = &control.ClientCertificateSpec{Certificate: c, Key: k}
		}
	}
	return map[string]refusal{
		"a certificate and another's key": {"client_certificate", cert(good.Cert, other.Key)},
		"a certificate without a key":     {"client_certificate", cert(good.Cert, "")},
		"a key without a certificate":     {"client_certificate", cert("", good.Key)},
		"an empty certificate":            {"client_certificate", cert("", "")},
		"a certificate that is none":      {"client_certificate", cert(topSecret, topSecret)},
		"a certificate that has expired":  {"client_certificate", cert(expired.Cert, expired.Key)},
		"a server's certificate":          {"client_certificate", cert(server.Cert, server.Key)},
		"a certificate over plain HTTP":   {"client_certificate", plain(cert(good.Cert, good.Key))},
		"a CA that is none":               {"ca", func(e *control.EndpointSpec) { e.CA = "x" }},
		"a CA that is a private key":      {"ca", func(e *control.EndpointSpec) { e.CA = good.Key }},
		"a CA over plain HTTP":            {"ca", plain(func(e *control.EndpointSpec) { e.CA = ca.PEM })},
		"a token endpoint over plain HTTP": {"oauth2.token_url",
			oauth(func(o *control.OAuth2Spec) { o.TokenURL = "http://id.example.com/token" })},
		"a token endpoint on a private net": {"oauth2.token_url",
			oauth(func(o *control.OAuth2Spec) { o.TokenURL = "https://10.0.0.1/token" })},
		"no token endpoint": {"oauth2.token_url", oauth(func(o *control.OAuth2Spec) { o.TokenURL = "" })},
		"no client id":      {"oauth2.client_id", oauth(func(o *control.OAuth2Spec) { o.ClientID = "" })},
		"no client secret": {"oauth2.client_secret",
			oauth(func(o *control.OAuth2Spec) { o.ClientSecret = "" })},
		"a scope with a space": {"oauth2.scopes",
			oauth(func(o *control.OAuth2Spec) { o.Scopes = []string{"a b"} })},
		"an unknown client authentication": {"oauth2.auth", oauth(func(o *control.OAuth2Spec) { o.Auth = "jwt" })},
		"OAuth 2.0 over plain HTTP":        {"oauth2", plain(oauth(func(*control.OAuth2Spec) {}))},
		"a proxy without a port": {"egress_proxy",
			func(e *control.EndpointSpec) { e.EgressProxy = "http://proxy.example.com" }},
		"a proxy with a password": {"egress_proxy",
			func(e *control.EndpointSpec) { e.EgressProxy = "http://a:" + topSecret + "@proxy.example.com:1" }},
		"a proxy of another kind": {"egress_proxy",
			func(e *control.EndpointSpec) { e.EgressProxy = "socks5://proxy.example.com:1080" }},
		"a proxy on a private address": {"egress_proxy",
			func(e *control.EndpointSpec) { e.EgressProxy = "http://10.0.0.1:3128" }},
		"to be disabled at once": {"disable_after",
			func(e *control.EndpointSpec) { e.DisableAfter = ptr(control.Duration(time.Second)) }},
		"to be disabled in a year": {"disable_after",
			func(e *control.EndpointSpec) { e.DisableAfter = ptr(control.Duration(8760 * time.Hour)) }},
	}
}

func TestACredentialThatCannotWorkIsRefusedWithTheFieldToCorrectAndNeverQuoted(t *testing.T) {
	s := start(t, nil)
	s.now = time.Now()
	all := wrongHeaders()
	maps.Copy(all, wrongConnections(t, s.now))
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			spec := control.EndpointSpec{URL: "https://hooks.example.com/in", Types: []string{"a.*"}}
			c.change(&spec)
			_, err := s.CreateEndpoint(s.ctx, spec, actor)
			if e := failed(t, err, control.CodeInvalid, c.field); strings.Contains(e.Error(), topSecret) {
				t.Errorf("the error quotes the secret: %v", e)
			}
		})
	}
	for _, name := range []string{"Host", "connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
		"Proxy-Authorization", "Proxy-Connection",
		"Content-Length", "Content-Type", "Expect", "User-Agent", "Idempotency-Key", "webhook-id", "Webhook-Signature",
		"Waybill-Actor", "traceparent", "Date", "Via"} {
		spec := control.EndpointSpec{URL: "https://hooks.example.com/in", Types: []string{"a.*"}}
		header(name, "x")(&spec)
		_, err := s.CreateEndpoint(s.ctx, spec, actor)
		failed(t, err, control.CodeInvalid, "headers")
	}
	if list, err := s.Endpoints(s.ctx, control.EndpointFilter{Deleted: true}); err != nil || len(list) != 0 {
		t.Errorf("%d endpoints (%v) after refusals alone", len(list), err)
	}
}

// Whatever is secret is in no byte of the bucket, and in nothing that people
// are shown.
func TestNoSecretIsStoredInTheClearOrShown(t *testing.T) {
	s := start(t, nil)
	s.now = time.Now()
	ca := testkit.NewCA(t, "ours")
	client := ca.Client("good", s.now.Add(40*24*time.Hour))
	made := s.endpoint(everything(ca, client))
	bearer := patchOf(given{Authorization: &control.AuthorizationSpec{Bearer: topSecret}}, "oauth2", "authorization")
	if _, err := s.UpdateEndpoint(s.ctx, made.Endpoint.ID, bearer, actor, ""); err != nil {
		t.Fatal(err)
	}
	rotated, err := s.RotateSecret(s.ctx, made.Endpoint.ID, control.Rotation{}, actor)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := s.Endpoint(s.ctx, made.Endpoint.ID)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := s.nats.JetStream().KeyValue(s.ctx, streams.EndpointsBucket)
	if err != nil {
		t.Fatal(err)
	}
	history, err := kv.History(s.ctx, made.Endpoint.ID)
	if err != nil || len(history) != 3 {
		t.Fatalf("%d revisions, %v", len(history), err)
	}
	texts := []string{encode(t, shown), encode(t, made.Endpoint), fmt.Sprintf("%+v", shown)}
	for _, h := range history {
		texts = append(texts, string(h.Value()))
	}
	keyBody := strings.Split(client.Key, "\n")[1]
	for _, text := range texts {
		for _, secret := range []string{topSecret, made.Secret, made.Secret[6:], rotated.Secret[6:], keyBody, "PRIVATE KEY"} {
			if strings.Contains(text, secret) {
				t.Errorf("%.6s… is in %s", secret, text)
			}
		}
	}
	if fmt.Sprint(shown.Headers) != "[X-Api-Key X-Region]" || shown.Authorization != "Bearer" || shown.OAuth2 != nil ||
		len(shown.CA) != 1 ||
		shown.ClientCertificate.Subject != "CN=good" || shown.EgressProxy == "" || len(shown.Warnings) != 0 ||
		len(shown.Keys) != 2 {
		t.Errorf("shown %s", encode(t, shown))
	}
	s.now = s.now.Add(20 * 24 * time.Hour)
	shown, _ = s.Endpoint(s.ctx, made.Endpoint.ID)
	if len(shown.Warnings) != 1 || !strings.Contains(shown.Warnings[0], "in 19 days") &&
		!strings.Contains(shown.Warnings[0], "in 20 days") {
		t.Errorf("20 days before its end: %q", shown.Warnings)
	}
	s.now = s.now.Add(21 * 24 * time.Hour)
	if shown, _ = s.Endpoint(s.ctx, made.Endpoint.ID); len(shown.Warnings) != 1 ||
		!strings.Contains(shown.Warnings[0], "expired at") {
		t.Errorf("after its end: %q", shown.Warnings)
	}
	if _, err := s.DeleteEndpoint(s.ctx, made.Endpoint.ID, control.Stop{Reason: "", EndPending: true}, actor); err != nil {
		t.Fatal(err)
	}
	if stored, err := s.store.Get(s.ctx, made.Endpoint.ID); err != nil || len(stored.SealedUnder()) != 0 {
		t.Errorf("a deleted endpoint keeps %v (%v)", stored.SealedUnder(), err)
	}
}

// Whoever may change where an endpoint goes gets none of its credentials sent.
func TestCredentialsDoNotFollowAnEndpointToAnotherDestination(t *testing.T) {
	s := start(t, nil)
	s.now = time.Now()
	ca, evil := testkit.NewCA(t, "ours"), testkit.NewCA(t, "evil")
	client := ca.Client("good", s.now.Add(time.Hour))
	id := s.endpoint(everything(ca, client)).Endpoint.ID
	headers := map[string]string{"X-Api-Key": topSecret}
	oauth := &control.OAuth2Spec{TokenURL: "https://id.example.com/token", ClientID: "waybill", ClientSecret: topSecret}
	for name, c := range map[string]struct {
		field string
		patch control.EndpointPatch
	}{
		"another host": {"url", patchOf(given{URL: "https://evil.example.com/in"}, "url")},
		"another port": {"url", patchOf(given{URL: "https://hooks.example.com:8443/in"}, "url")},
		"headers given alone": {"url", patchOf(given{URL: "https://evil.example.com/in", Headers: headers}, "url",
			"headers")},
		"OAuth 2.0 given alone": {"url", patchOf(given{URL: "https://evil.example.com/in", OAuth2: oauth}, "url", "oauth2")},
		"another issuer":        {"ca", patchOf(given{CA: evil.PEM}, "ca")},
		"no issuer":             {"ca", patchOf(given{CA: ""}, "ca")},
	} {
		_, err := s.UpdateEndpoint(s.ctx, id, c.patch, actor, "")
		if e := failed(t, err, control.CodeInvalid, c.field); !strings.Contains(e.Error(), "https://hooks.example.com:443") {
			t.Errorf("%s: %v", name, e)
		}
	}
	for _, patch := range []control.EndpointPatch{
		patchOf(given{URL: "https://hooks.example.com/other?x=1"}, "url"),
		patchOf(given{EgressProxy: "http://other.example.com:1"}, "egress_proxy"), // it carries TLS, and reads nothing
		patchOf(given{URL: "https://new.example.com/in", Headers: headers, OAuth2: oauth}, "url", "headers", "oauth2"),
		patchOf(given{URL: "https://hooks.example.com/in", Headers: map[string]string{}}, "url", "headers", "oauth2"),
	} {
		if _, err := s.UpdateEndpoint(s.ctx, id, patch, actor, ""); err != nil {
			t.Error(err)
		}
		stored, err := s.store.Get(s.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stored.Open(s.keys); err != nil {
			t.Error(err)
		}
	}
	// Changed behind the API's back, in the registry itself, they do not open.
	id = s.endpoint(everything(ca, client)).Endpoint.ID
	stored, err := s.store.Update(s.ctx, id, "mallory", "updated", "",
		func(e *registry.Endpoint) error { e.URL = "https://evil.example.com/"; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stored.Open(s.keys); err == nil {
		t.Error("credentials open for another host")
	}
	// Nor do those of another endpoint.
	donor, err := s.store.Get(s.ctx, s.endpoint(everything(ca, client)).Endpoint.ID)
	if err != nil {
		t.Fatal(err)
	}
	taker, err := s.store.Get(s.ctx, s.endpoint(nil).Endpoint.ID)
	if err != nil {
		t.Fatal(err)
	}
	for name, steal := range map[string]func(*registry.Endpoint){
		"secrets":            func(e *registry.Endpoint) { e.Secrets = donor.Secrets },
		"headers":            func(e *registry.Endpoint) { e.Headers, e.CA = donor.Headers, donor.CA },
		"oauth2":             func(e *registry.Endpoint) { e.OAuth2, e.CA = donor.OAuth2, donor.CA },
		"client certificate": func(e *registry.Endpoint) { e.ClientCertificate = donor.ClientCertificate },
		"one under another's name": func(e *registry.Endpoint) {
			e.Headers = []registry.Header{{Name: "X-Other", Sealed: donor.Secrets[0].Sealed}}
		},
	} {
		e := taker
		steal(&e)
		if _, err := e.Open(s.keys); err == nil {
			t.Errorf("%s of another endpoint open", name)
		}
	}
}

func TestWithoutAKeyWhatSealsSaysSoAndEverythingElseWorks(t *testing.T) {
	s := start(t, nil)
	id := s.endpoint(nil).Endpoint.ID
	c, err := control.New(s.ctx, control.Options{NC: s.nats.Connect()})
	if err != nil {
		t.Fatal(err)
	}
	_, create := c.CreateEndpoint(s.ctx, control.EndpointSpec{URL: "https://a.example.com/", Types: []string{">"}}, actor)
	_, rotate := c.RotateSecret(s.ctx, id, control.Rotation{}, actor)
	_, reseal := c.Reseal(s.ctx, actor, "")
	_, header := c.UpdateEndpoint(s.ctx, id, patchOf(given{Headers: map[string]string{"X": "y"}}, "headers"), actor, "")
	for _, err := range []error{create, rotate, reseal, header} {
		if e := failed(t, err, control.CodeNoKey, ""); !strings.Contains(e.Error(), "--secrets-key-file") {
			t.Errorf("does not name the flag: %v", e)
		}
	}
	quicker := patchOf(given{Timeout: control.Duration(time.Second)}, "timeout")
	if _, err := c.UpdateEndpoint(s.ctx, id, quicker, actor, ""); err != nil {
		t.Error(err)
	}
	if e, err := c.Endpoint(s.ctx, id); err != nil || len(e.Keys) != 1 {
		t.Errorf("%+v (%v)", e, err)
	}
}

func TestNobodyMayActUnderTheNameOfWaybill(t *testing.T) {
	s := start(t, nil)
	id := s.endpoint(nil).Endpoint.ID
	for _, name := range []string{"waybill", "Waybill", " WAYBILL "} {
		_, err := s.DisableEndpoint(s.ctx, id, control.Stop{Reason: "x", EndPending: true}, name)
		failed(t, err, control.CodeInvalid, "actor")
	}
}

func TestCredentialsInJSONAreReadStrictly(t *testing.T) {
	for text, into := range map[string]any{
		`{"baerer":"x"}`:                 &control.AuthorizationSpec{},
		`{"cert":"x","key":"y"}`:         &control.ClientCertificateSpec{},
		`{"token_url":"x","secret":"y"}`: &control.OAuth2Spec{},
		`{"basic":{"user":"a"}}`:         &control.AuthorizationSpec{},
		`"Bearer x"`:                     &control.AuthorizationSpec{},
	} {
		if err := json.Unmarshal([]byte(text), into); err == nil {
			t.Errorf("%s was taken as %+v", text, into)
		}
	}
}
