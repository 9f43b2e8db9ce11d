package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
)

// credentialSettings are the flags of what requests carry and connections use.
type credentialSettings struct {
	headers               []string
	authorizationFile     string
	clientCert, clientKey string
	ca                    string
	oauth2                control.OAuth2Spec
	oauth2SecretFile      string
	remove                []string
	readHeaders           map[string]string
	readAuthorization     *control.AuthorizationSpec
	readCertificate       *control.ClientCertificateSpec
	readCA                string
	readOAuth2            *control.OAuth2Spec
}

func (c *credentialSettings) bind(f *pflag.FlagSet) {
	f.StringArrayVar(&c.headers, "header", nil, registry.FlagHelp("header"))
	f.StringSliceVar(&c.oauth2.Scopes, "oauth2-scopes", nil, registry.FlagHelp("oauth2-scopes"))
	c.oauth2.Auth = registry.AuthBasic
	for flag, to := range map[string]*string{
		"authorization-file": &c.authorizationFile, "client-cert": &c.clientCert, "client-key": &c.clientKey, "ca": &c.ca,
		"oauth2-token-url": &c.oauth2.TokenURL, "oauth2-client-id": &c.oauth2.ClientID,
		"oauth2-client-secret-file": &c.oauth2SecretFile,
		"oauth2-audience":           &c.oauth2.Audience, "oauth2-auth": &c.oauth2.Auth} {
		f.StringVar(to, flag, *to, registry.FlagHelp(flag))
	}
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

// removable are what --remove takes, and the settings that they are.
var removable = map[string]string{"headers": "headers", "authorization": "authorization",
	"client-cert": "client_certificate", "ca": "ca", "oauth2": "oauth2", "egress-proxy": "egress_proxy"}

func (c *credentialSettings) readRemove() error {
	for _, name := range c.remove {
		if removable[name] == "" {
			return process.Usagef("--remove %q: want headers, authorization, client-cert, ca, oauth2 or egress-proxy", name)
		}
	}
	return nil
}

func (c *credentialSettings) removes(setting string) bool {
	return slices.ContainsFunc(c.remove, func(name string) bool { return removable[name] == setting })
}

// names says whether the flags set or remove a setting.
func (c *credentialSettings) names(setting string) bool {
	given := map[string]bool{"headers": len(c.headers) > 0, "authorization": c.readAuthorization != nil,
		"client_certificate": c.readCertificate != nil, "ca": c.readCA != "", "oauth2": c.readOAuth2 != nil}
	return given[setting] || c.removes(setting)
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

// addTo sets what was read; what is removed goes before what is given.
func (c *credentialSettings) addTo(spec *control.EndpointSpec) {
	spec.Headers, spec.Authorization, spec.ClientCertificate = c.readHeaders, c.readAuthorization, c.readCertificate
	spec.OAuth2 = c.readOAuth2
	if !c.removes("ca") {
		spec.CA = c.readCA
	}
	if c.removes("egress_proxy") {
		spec.EgressProxy = ""
	}
}

func addClientCertificate(f *fields, e control.Endpoint) {
	if c := e.ClientCertificate; c != nil {
		f.add("client cert", certificateText(c.Certificate))
	}
}

func addCA(f *fields, e control.Endpoint) {
	for _, c := range e.CA {
		f.add("ca", certificateText(c))
	}
}

func addOAuth2(f *fields, e control.Endpoint) {
	if o := e.OAuth2; o != nil {
		f.add("oauth2", fmt.Sprintf("client %s at %s", o.ClientID, o.TokenURL))
		f.add("oauth2 scopes", strings.Join(o.Scopes, " "))
	}
}

func addDisableAfter(f *fields, e control.Endpoint) {
	if e.DisableAfter > 0 {
		f.add("disable after", e.DisableAfter.String()+" without success")
	} else {
		f.add("disable after", "never")
	}
}

func certificateText(c control.Certificate) string {
	return fmt.Sprintf("%s, until %s, SHA-256 %s", c.Subject, moment(c.NotAfter), c.Fingerprint)
}
