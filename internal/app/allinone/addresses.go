package allinone

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/waybill-dev/waybill/internal/platform/wholefile"
)

// AddressesName is the file in the data directory by which commands find a
// running deployment.
const AddressesName = "addresses.json"

// Addresses of a running deployment. Each is "host:port", where a client on
// this machine reaches it, never with port 0.
type Addresses struct {
	HTTP             string `json:"http"`
	NATS             string `json:"nats"`
	ClickHouseNative string `json:"clickhouse_native"`
	ClickHouseHTTP   string `json:"clickhouse_http"`
	// Sync is when the embedded NATS server syncs: "always" or a duration. Empty:
	// the server is not ours.
	Sync string `json:"sync,omitempty"`
	// PID is the process that serves them.
	PID int `json:"pid"`
	// EgressAllow are the networks that the dispatcher may call besides public ones.
	EgressAllow []string `json:"egress_allow,omitempty"`
	// NAT64 are the prefixes of translators on its way out.
	NAT64 []string `json:"nat64_prefixes,omitempty"`
	// SecretsKeyFile has the keys that endpoints' secrets are encrypted with;
	// empty when they came from the environment.
	SecretsKeyFile string `json:"secrets_key_file,omitempty"`
	// CheckpointKeyFile has the keys that sign the ledger's checkpoints; empty when
	// they came from the environment.
	CheckpointKeyFile string `json:"checkpoint_key_file,omitempty"`
	// ClickHousePasswordsFile has the passwords of the embedded engine's users, for
	// whoever may read the data directory; empty when the server is not ours.
	ClickHousePasswordsFile string `json:"clickhouse_passwords_file,omitempty"`
	// NATSURL and ClickHouseDSN are those of servers that were already there
	// (--nats-url, --clickhouse). They may hold passwords, so they are kept in
	// the data directory's file alone.
	NATSURL       string `json:"nats_url,omitempty"`
	ClickHouseDSN string `json:"clickhouse_dsn,omitempty"`
}

// Public leaves out what only the data directory's file may hold.
func (a Addresses) Public() Addresses {
	a.NATSURL, a.ClickHouseDSN = "", ""
	return a
}

// ReadAddresses reads what WriteAddresses wrote.
func ReadAddresses(path string) (Addresses, error) {
	var a Addresses
	b, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("addresses file %s: %w; it is written by: waybill up --addresses FILE", path, err)
	}
	return a, nil
}

// WriteAddresses puts the file there whole: a reader sees all of it or none.
func WriteAddresses(path string, a Addresses) error {
	b, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	if err := wholefile.Replace(path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("addresses file %s: %w; choose another with --addresses", path, err)
	}
	return nil
}
