package process

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
)

// BindKeys adds --secrets-key-file. usage says what is the case without it.
func BindKeys(f *pflag.FlagSet, path *string, without string) {
	f.StringVar(path, "secrets-key-file", "", "file with the keys that endpoints' and channels' secrets are encrypted "+
		"with; "+sealed.EnvKeys+" holds the keys themselves ("+without+")")
}

// LoadKeys opens the keyring of --secrets-key-file, or of the environment. It
// returns nil when there is neither.
func LoadKeys(path string) (*sealed.Keyring, error) {
	text := os.Getenv(sealed.EnvKeys)
	switch {
	case path != "" && text != "":
		return nil, Usagef("--secrets-key-file and %s are both set; keep one of them", sealed.EnvKeys)
	case path != "":
		return sealed.Open(path)
	case text != "":
		ring, err := sealed.Parse(text)
		if err != nil {
			return nil, Usagef("%s: %w", sealed.EnvKeys, err)
		}
		return ring, nil
	}
	return nil, nil
}

// Proxy are the flags of a proxy for what leaves for receivers and channels.
type Proxy struct {
	url   string
	Names bool
}

// Bind adds the flags.
func (p *Proxy) Bind(f *pflag.FlagSet) {
	f.StringVar(&p.url, "egress-proxy", "", "HTTP proxy for requests to receivers, token endpoints and channels, "+
		"http[s]://[user:password@]host:port; it is asked for tunnels (CONNECT)")
	f.BoolVar(&p.Names, "egress-proxy-names", false,
		"give the proxy host names instead of checked addresses: for one that filters by name")
}

// Parse reads them; nil: no proxy. One that policy does not allow is refused.
func (p *Proxy) Parse(policy egress.Policy) (*egress.Proxy, error) {
	if p.url == "" {
		return nil, nil
	}
	proxy, err := egress.ParseProxy(p.url, true)
	if err == nil {
		err = policy.CheckURL(proxy.Safe())
	}
	if err != nil {
		return nil, Usagef("--egress-proxy: %w", err)
	}
	return &proxy, nil
}
