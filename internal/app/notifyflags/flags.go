// Package notifyflags is what the programs that tell people share: their flags, and
// the sender that these make.
package notifyflags

import (
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/redact"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/platform/version"
)

// Flags are those of a program that tells people. Bind adds them, Check reads
// them; what follows is valid after that.
type Flags struct {
	allow, nat64                []string
	name, link, caFile, keyFile string
	proxyFlags                  process.Proxy
	redaction                   process.Redaction

	policy egress.Policy
	proxy  *egress.Proxy
	roots  *x509.CertPool
	keys   *sealed.Keyring
	redact *redact.Redactor
}

// Bind adds the flags; program is what the program is called.
func (t *Flags) Bind(f *pflag.FlagSet, program string) {
	f.StringSliceVar(&t.allow, "egress-allow", nil,
		"addresses that may be called although they are not public: CIDRs, comma-separated")
	f.StringSliceVar(&t.nat64, "nat64-prefix", nil, "prefixes (IPv6 CIDR) of the NAT64 translators on the way out, "+
		"comma-separated: an address behind one is what the IPv4 address in it is")
	t.proxyFlags.Bind(f)
	t.redaction.BindPolicy(f)
	process.BindKeys(f, &t.keyFile, "one of the two is required")
	f.StringVar(&t.name, "name", "", "this "+program+
		"'s name on record, unique among all (default: host name and a random part)")
	f.StringVar(&t.link, "link", "", "address of an incident for messages; {id} stands for its id")
	f.StringVar(&t.caFile, "ca-file", "", "certificates (PEM) that servers are verified with, besides the system's")
}

// Check reads the flags, and says which is wrong.
func (t *Flags) Check() (err error) {
	if t.policy, err = egress.ParseAllow(t.allow); err != nil {
		return fmt.Errorf("--egress-allow: %w", err)
	}
	if t.policy, err = t.policy.WithNAT64(t.nat64); err != nil {
		return fmt.Errorf("--nat64-prefix: %w", err)
	}
	if t.proxy, err = t.proxyFlags.Parse(t.policy); err != nil {
		return err
	}
	if t.redact, err = t.redaction.Load(); err != nil {
		return err
	}
	if t.link != "" && !strings.Contains(t.link, "{id}") {
		return fmt.Errorf("--link %q: want {id} in it, where the incident's id goes", t.link)
	}
	if t.keys, err = process.LoadKeys(t.keyFile); err == nil && t.keys == nil {
		err = fmt.Errorf("--secrets-key-file is missing: without the keys no channel's secret can be read; give the file "+
			"that the channels were made with, or %s", sealed.EnvKeys)
	}
	if err != nil {
		return err
	}
	t.roots, err = process.RootCAs("ca-file", t.caFile)
	return err
}

// Sender sends as the flags say. Close it when it is no longer used.
func (t *Flags) Sender(nc *nats.Conn) *sender.Sender {
	return sender.New(sender.Options{Egress: t.policy, Proxy: t.proxy, ProxyNames: t.proxyFlags.Names, NC: nc,
		RootCAs: t.roots, Redact: t.redact, Software: version.Software})
}

// Keys open the channels' secrets.
func (t *Flags) Keys() *sealed.Keyring { return t.keys }

// Name is what the program is called on record.
func (t *Flags) Name() (string, error) {
	if t.name != "" {
		return t.name, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("host name: %w; give one with --name", err)
	}
	return ids.New(host+"-", time.Now()), nil
}

// Link makes the address of an incident for messages; nil: there is none.
func (t *Flags) Link() func(id string) string {
	if t.link == "" {
		return nil
	}
	return func(id string) string { return strings.ReplaceAll(t.link, "{id}", id) }
}
