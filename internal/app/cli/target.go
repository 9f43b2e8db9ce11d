package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/allinone"
	"github.com/waybill-dev/waybill/internal/app/process"
)

const (
	defaultData = "./waybill-data"
	// connectPatience is how long a command tries to reach a server: long
	// enough for one that restarts, short enough for a person.
	connectPatience = 3 * time.Second
)

// target says where the deployment runs that a command talks to.
type target struct {
	natsURL, natsCreds string
	clickhouse         string
	data, addresses    string
	egressAllow        []string
	nat64              []string
	proxy              process.Proxy     // channels that are tested are reached through it
	redaction          process.Redaction // what of their words goes on record
	caFile             string            // verifies the servers of channels that are tested
	secretsKeyFile     string
	needsKeys          bool // of the running waybill up, unless the flag says which
}

// bindKeys is for commands that seal a secret.
func (t *target) bindKeys(f *pflag.FlagSet) {
	t.needsKeys = true
	process.BindKeys(f, &t.secretsKeyFile, "default: that of the running waybill up")
}

// bindEgress is for commands that check an endpoint's URL.
func (t *target) bindEgress(f *pflag.FlagSet) {
	f.StringSliceVar(&t.egressAllow, "egress-allow", nil,
		"networks (CIDR) that the dispatchers may call (default: those of the running waybill up)")
	f.StringSliceVar(&t.nat64, "nat64-prefix", nil, "prefixes (IPv6 CIDR) of the dispatchers' NAT64 translators "+
		"(default: those of the running waybill up)")
}

// bind adds the flags.
func (t *target) bind(f *pflag.FlagSet) {
	f.StringVar(&t.natsURL, "nats-url", "", "NATS servers of the deployment, comma-separated (default: those of the "+
		"running waybill up)")
	f.StringVar(&t.natsCreds, "nats-creds", "", "NATS credentials file")
	f.StringVar(&t.clickhouse, "clickhouse", "", "ClickHouse DSN of the deployment, "+
		"clickhouse://user:password@host:9000 (default: that of the running waybill up)")
	bindDataDir(f, &t.data, "data directory of the running waybill up")
	f.StringVar(&t.addresses, "addresses", "", "addresses file of the running waybill up, instead of its data directory")
	for _, name := range connection {
		if err := f.SetAnnotation(name, connectionAnnotation, nil); err != nil {
			panic(err) // it was added above
		}
	}
}

// found is where the servers are.
type found struct {
	natsURL, clickhouse string
	how                 string // for errors: where the addresses come from
	egressAllow         []string
	nat64               []string
	secretsKeyFile      string // of the running waybill up
}

// find decides what to connect to; nothing is connected yet.
func (t *target) find() (found, error) {
	out := found{natsURL: t.natsURL, clickhouse: t.clickhouse, how: "--nats-url", egressAllow: t.egressAllow,
		nat64: t.nat64}
	if out.natsURL != "" && out.clickhouse != "" && t.secretsKeyFile != "" {
		return out, nil
	}
	a, how, err := t.read()
	if err != nil {
		// Half of the answer is enough for commands that need only that half.
		if out.natsURL != "" || out.clickhouse != "" {
			return out, nil
		}
		return out, err
	}
	if out.natsURL == "" { // else it is from the flag
		out.how = how
	}
	if len(out.nat64) == 0 {
		out.nat64 = a.NAT64
	}
	if len(out.egressAllow) == 0 {
		out.egressAllow = a.EgressAllow
	}
	if t.natsURL == "" || t.natsURL == a.NATSURL { // else it is another deployment's
		out.secretsKeyFile = a.SecretsKeyFile
	}
	if out.natsURL == "" {
		out.natsURL = first(a.NATSURL, prefixed("nats://", a.NATS))
	}
	if out.clickhouse == "" {
		out.clickhouse = first(a.ClickHouseDSN, anonymousDSN(a.ClickHouseNative))
	}
	return out, nil
}

func (t *target) read() (allinone.Addresses, string, error) {
	if t.addresses != "" {
		a, err := allinone.ReadAddresses(t.addresses)
		if errors.Is(err, fs.ErrNotExist) {
			return a, "", fmt.Errorf("addresses file %s is not there: is this running? waybill up --addresses %s", t.addresses,
				t.addresses)
		}
		return a, "addresses file " + t.addresses, err
	}
	if err := checkDataDir(t.data); err != nil {
		return allinone.Addresses{}, "", err
	}
	path := filepath.Join(t.data, allinone.AddressesName)
	if !allinone.Running(t.data) {
		return allinone.Addresses{}, "", fmt.Errorf("nothing runs on data directory %s; start it with: waybill up --%s "+
			"%s; or say where it runs with --%s, --addresses, or --nats-url and --clickhouse", t.data, dataDir, t.data, dataDir)
	}
	a, err := allinone.ReadAddresses(path)
	if errors.Is(err, fs.ErrNotExist) {
		return a, "", fmt.Errorf("waybill up on %s is starting or stopping; try again in a moment", t.data)
	}
	return a, path, err
}

// connectNATS opens the connection; the caller closes it.
// withStreams says whether the streams of the ledger's own deployment can be asked
// too. A ClickHouse that was named alone may be another one's than what runs here.
func (t *target) withStreams() (bool, error) {
	at, err := t.find()
	return at.natsURL != "" && (t.natsURL != "" || t.clickhouse == ""), err
}

func (t *target) connectNATS(ctx context.Context) (*nats.Conn, jetstream.JetStream, error) {
	at, err := t.find()
	if err != nil {
		return nil, nil, err
	}
	if at.natsURL == "" {
		return nil, nil, errors.New("no NATS server is known; say where it is with --nats-url")
	}
	nc, err := process.ConnectNATS(ctx, at.natsURL, "waybill-cli", t.natsCreds, connectPatience, zerolog.Nop())
	if err != nil {
		return nil, nil, fmt.Errorf("%w (the address is from %s)", err, at.how)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, js, nil
}

// anonymousDSN is the embedded engine for whoever asks on this machine: to read.
func anonymousDSN(address string) string {
	if address == "" {
		return ""
	}
	return allinone.EngineDSN(address, "", "")
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
