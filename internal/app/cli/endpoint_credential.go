package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
)

// credentialSettings are the flags of what requests carry and connections use.
type credentialSettings struct {
	headers                []string
	authorizationFile      string
	clientCert, clientKey  string
	ca                     string
	oauth2                 control.OAuth2Spec
	oauth2SecretFile       string
	egressProxy            string
	disableAfter           time.Duration
	remove                 []string
	readHeaders            map[string]string
	readAuthorization      *control.AuthorizationSpec
	readCertificate        *control.ClientCertificateSpec
	readCA                 string
	readOAuth2             *control.OAuth2Spec
	removeCA, removeProxy  bool
	removeAuth, removeCert bool
	removeOAuth2           bool
	removeHeaders          bool
}

func (c *credentialSettings) bind(f *pflag.FlagSet) {
	f.StringArrayVar(&c.headers, "header", nil, "header that requests carry, 'Name: value' or 'Name: @FILE'; "+
		"repeatable; the value is kept encrypted and never shown")
	f.StringVar(&c.authorizationFile, "authorization-file", "",
		"file with the value of the Authorization header, such as: Bearer abc")
	f.StringVar(&c.clientCert, "client-cert", "",
		"PEM file with the client certificate that connections present (mTLS), the leaf first")
	f.StringVar(&c.clientKey, "client-key", "", "PEM file with the private key of --client-cert, unencrypted")
	f.StringVar(&c.ca, "ca", "", "PEM file with issuers of the receiver's certificate, trusted besides the system's")
	f.StringVar(&c.oauth2.TokenURL, "oauth2-token-url", "", "token endpoint of OAuth 2.0 client credentials, https://")
	f.StringVar(&c.oauth2.ClientID, "oauth2-client-id", "", "client id for --oauth2-token-url")
	f.StringVar(&c.oauth2SecretFile, "oauth2-client-secret-file", "", "file with the client secret for --oauth2-token-url")
	f.StringSliceVar(&c.oauth2.Scopes, "oauth2-scopes", nil, "scopes to ask for, comma-separated")
	f.StringVar(&c.oauth2.Audience, "oauth2-audience", "", "audience to ask for, where the token endpoint wants one")
	f.StringVar(&c.oauth2.Auth, "oauth2-auth", registry.AuthBasic,
		"how the client names itself: basic (a header) or post (in the body)")
	f.StringVar(&c.egressProxy, "egress-proxy", "",
		"HTTP proxy for this endpoint instead of the dispatchers', http[s]://host:port")
	// WAYBILL_EGRESS_PROXY is the dispatchers', with a password perhaps.
	process.SetEnv(f, "egress-proxy", "WAYBILL_ENDPOINT_EGRESS_PROXY")
	f.DurationVar(&c.disableAfter, "disable-after", registry.DefaultDisableAfter,
		"disable the endpoint when no attempt succeeded for so long; 0s for never")
}

// bindRemove is for update.
func (c *credentialSettings) bindRemove(f *pflag.FlagSet) {
	f.StringSliceVar(&c.remove, "remove", nil, "remove these, comma-separated: headers, authorization, client-cert, "+
		"ca, oauth2, egress-proxy")
}

// read reads the files that the flags name.
func (c *credentialSettings) read() error {
	var err error
	if c.readHeaders, err = readHeaders(c.headers); err != nil {
		return err
	}
	if c.authorizationFile != "" {
		value, err := readFile("authorization-file", c.authorizationFile)
		if err != nil {
			return err
		}
		c.readAuthorization = &control.AuthorizationSpec{Raw: value}
	}
	if (c.clientCert == "") != (c.clientKey == "") {
		return process.Usagef("--client-cert and --client-key belong together; give both")
	}
	if c.clientCert != "" {
		c.readCertificate = &control.ClientCertificateSpec{}
		if c.readCertificate.Certificate, err = readFile("client-cert", c.clientCert); err != nil {
			return err
		}
		if c.readCertificate.Key, err = readFile("client-key", c.clientKey); err != nil {
			return err
		}
	}
	if c.ca != "" {
		if c.readCA, err = readFile("ca", c.ca); err != nil {
			return err
		}
	}
	if c.disableAfter < 0 {
		return process.Usagef("--disable-after %s: want 0s or more", c.disableAfter)
	}
	if err := c.readClient(); err != nil {
		return err
	}
	return c.readRemove()
}

func (c *credentialSettings) readClient() (err error) {
	o := c.oauth2
	if o.TokenURL == "" && o.ClientID == "" && c.oauth2SecretFile == "" {
		if len(o.Scopes) > 0 || o.Audience != "" {
			return process.Usagef("--oauth2-scopes and --oauth2-audience need --oauth2-token-url, --oauth2-client-id and " +
				"--oauth2-client-secret-file")
		}
		return nil
	}
	if o.TokenURL == "" || o.ClientID == "" || c.oauth2SecretFile == "" {
		return process.Usagef("--oauth2-token-url, --oauth2-client-id and --oauth2-client-secret-file belong together; " +
			"give all three")
	}
	if o.ClientSecret, err = readFile("oauth2-client-secret-file", c.oauth2SecretFile); err != nil {
		return err
	}
	c.readOAuth2 = &o
	return nil
}

func (c *credentialSettings) readRemove() error {
	for name, flag := range map[string]*bool{"headers": &c.removeHeaders, "authorization": &c.removeAuth,
		"client-cert": &c.removeCert,
		"ca":          &c.removeCA, "oauth2": &c.removeOAuth2, "egress-proxy": &c.removeProxy} {
		*flag = slices.Contains(c.remove, name)
	}
	for _, name := range c.remove {
		if !slices.Contains([]string{"headers", "authorization", "client-cert", "ca", "oauth2", "egress-proxy"}, name) {
			return process.Usagef("--remove %q: want headers, authorization, client-cert, ca, oauth2 or egress-proxy", name)
		}
	}
	return nil
}

// readHeaders never quotes a value in its errors.
func readHeaders(given []string) (map[string]string, error) {
	out := map[string]string{}
	for i, text := range given {
		name, value, ok := strings.Cut(text, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || value == "" {
			return nil, process.Usagef("--header number %d: want 'Name: value' or 'Name: @FILE'", i+1)
		}
		for have := range out {
			if strings.EqualFold(have, name) {
				return nil, process.Usagef("--header %s is given twice", name)
			}
		}
		value, err := readValue("header "+name, value)
		if err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, nil
}

func readFile(flag, path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", process.Usagef("--%s: %w; name a file that can be read", flag, err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", process.Usagef("--%s: %s is empty", flag, path)
	}
	return text, nil
}

func (c *credentialSettings) addTo(spec *control.EndpointSpec) {
	spec.Headers, spec.Authorization, spec.ClientCertificate = c.readHeaders, c.readAuthorization, c.readCertificate
	spec.CA, spec.OAuth2, spec.EgressProxy = c.readCA, c.readOAuth2, c.egressProxy
	spec.DisableAfter = (*control.Duration)(&c.disableAfter)
}

func (c *credentialSettings) addToPatch(f *pflag.FlagSet, p *control.EndpointPatch) {
	none := ""
	if f.Changed("header") || c.removeHeaders {
		p.Headers = &c.readHeaders
	}
	p.Authorization, p.ClearAuthorization = c.readAuthorization, c.removeAuth
	p.ClientCertificate, p.ClearClientCertificate = c.readCertificate, c.removeCert
	p.OAuth2, p.ClearOAuth2 = c.readOAuth2, c.removeOAuth2
	if c.removeCA {
		p.CA = &none
	} else if c.readCA != "" {
		p.CA = &c.readCA
	}
	if c.removeProxy {
		p.EgressProxy = &none
	} else if f.Changed("egress-proxy") {
		p.EgressProxy = &c.egressProxy
	}
	if f.Changed("disable-after") {
		p.DisableAfter = (*control.Duration)(&c.disableAfter)
	}
}

// addCredentials shows what an endpoint has of it, without what is secret.
func addCredentials(f *fields, e control.Endpoint) {
	f.add("headers", strings.Join(e.Headers, ", "))
	f.add("authorization", e.Authorization)
	if c := e.ClientCertificate; c != nil {
		f.add("client cert", certificateText(c.Certificate))
	}
	for _, c := range e.CA {
		f.add("ca", certificateText(c))
	}
	if o := e.OAuth2; o != nil {
		f.add("oauth2", fmt.Sprintf("client %s at %s", o.ClientID, o.TokenURL))
		f.add("oauth2 scopes", strings.Join(o.Scopes, " "))
	}
	f.add("proxy", e.EgressProxy)
	if e.DisableAfter > 0 {
		f.add("disable after", e.DisableAfter.String()+" without success")
	} else {
		f.add("disable after", "never")
	}
}

func certificateText(c control.Certificate) string {
	return fmt.Sprintf("%s, until %s, SHA-256 %s", c.Subject, moment(c.NotAfter), c.Fingerprint)
}
