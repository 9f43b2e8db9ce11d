package allinone

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/internal/registry"
)

// ledgerDSNs are the addresses of ClickHouse for who makes the schema, who
// writes and who reads. Of a server that was already there all are one.
type ledgerDSNs struct{ owner, sink, reader string }

// startLedger brings up ClickHouse and its schema.
func (w *Waybill) startLedger(ctx context.Context) (err error) {
	if err := w.startEngine(ctx); err != nil {
		return err
	}
	owner, err := openLedger(ctx, w.dsn.owner)
	if err != nil {
		return fmt.Errorf("the ledger: %w", err)
	}
	if err := owner.Close(); err != nil {
		return fmt.Errorf("the ledger: %w", err)
	}
	for _, user := range []struct {
		db  **ledger.DB
		dsn string
	}{{&w.ledger, w.dsn.sink}, {&w.reader, w.dsn.reader}} {
		db, err := ledger.New(user.dsn)
		if err != nil {
			return fmt.Errorf("the ledger: %w", err)
		}
		*user.db = db
		w.cleanup.Push("ledger connections", 5*time.Second, func(context.Context) error { return db.Close() })
	}
	w.health.Add("ledger", w.reader.Ping)
	return nil
}

const (
	// ledgerPatience is how long a start waits for a ClickHouse that is starting too.
	ledgerPatience = 30 * time.Second
	ledgerPause    = 250 * time.Millisecond
)

func openLedger(ctx context.Context, dsn string) (*ledger.DB, error) {
	deadline := time.Now().Add(ledgerPatience)
	for {
		db, err := ledger.Open(ctx, dsn)
		if err == nil || !errors.Is(err, ledger.ErrUnavailable) || time.Now().After(deadline) {
			return db, err
		}
		select {
		case <-time.After(ledgerPause):
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

func (w *Waybill) startSink(ctx context.Context, _ *registry.View) error {
	nc, err := w.connect(ctx, "waybill-ledger-sink")
	if err != nil {
		return err
	}
	tree, err := w.openLog(ctx, nc)
	if err != nil {
		return err
	}
	sink, err := sink.New(sink.Options{NATS: nc, Ledger: w.ledger, Tree: tree, Name: w.name,
		LostEndpoints: w.ledger.LostEndpoints, Log: w.stageLog("ledger-sink"), Registerer: w.metrics})
	if err != nil {
		return err
	}
	w.health.Add("ledger-sink", func(context.Context) error { return sink.Ready() })
	w.work("ledger-sink", w.o.Drain+stopMargin, sink.Run)
	return nil
}
