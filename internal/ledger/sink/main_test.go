package sink_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/internal/ledger/transparency"
	"github.com/waybill-dev/waybill/test/testkit"
)

// sinkProcess makes this binary a sink: the value is "NATS-URL DSN KEY-FILE".
const sinkProcess = "WAYBILL_TEST_SINK"

func TestMain(m *testing.M) {
	if v := os.Getenv(sinkProcess); v != "" {
		if err := runSink(v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testkit.Main(m)
}

func runSink(v string) error {
	var url, dsn, keyFile string
	if _, err := fmt.Sscan(v, &url, &dsn, &keyFile); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return err
	}
	defer nc.Close()
	db, err := ledger.New(dsn)
	if err != nil {
		return err
	}
	keys, err := checkpoint.OpenKeys(keyFile)
	if err != nil {
		return err
	}
	tree, err := transparency.New(transparency.Options{Store: db, NATS: nc, Log: zerolog.New(os.Stderr), Keys: keys,
		Every: 50 * time.Millisecond, Quiet: 20 * time.Millisecond})
	if err != nil {
		return err
	}
	s, err := sink.New(sink.Options{NATS: nc, Ledger: db, Tree: tree, Log: zerolog.New(os.Stderr), BatchRecords: 50})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
