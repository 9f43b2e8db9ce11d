package operations_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/test/testkit"
	"github.com/waybill-dev/waybill/test/testkit/loopback"
)

// Stages are started while most of the NATS servers are away and nobody leads a
// stream: they wait, and work once there are leaders.
func TestStagesThatStartWithoutLeadersWaitForThem(t *testing.T) {
	t.Parallel()
	c := testkit.NATSCluster(t)
	dsn, keys := testkit.ClickHouse(t).DSN, filepath.Join(t.TempDir(), "secrets.key")
	key, err := sealed.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keys, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Servers[1].Kill()
	c.Servers[2].Kill()
	var programs []*program
	for _, name := range stages {
		address := loopback.Address(t)
		args := []string{"--nats-url", c.URL(), "--http", address, "--nats-wait", patience.String()}
		switch name {
		case "ledger-sink":
			args = append(args, "--clickhouse", dsn)
		case "dispatcher", "escalator", "watchdog":
			args = append(args, "--secrets-key-file", keys)
		}
		programs = append(programs, start(t, name, address, nil, args...))
	}
	c.Servers[1].Restart()
	c.Servers[2].Restart()
	for _, p := range programs {
		p.ready()
	}
}
