package allinone

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledgersink"
	"github.com/waybill-dev/waybill/internal/registry"
)

// startLedger brings up ClickHouse and its schema.
func (w *Waybill) startLedger(ctx context.Context) error {
	if err := w.startEngine(ctx); err != nil {
		return err
	}
	db, err := ledger.Open(ctx, w.dsn)
	if err != nil {
		return fmt.Errorf("the ledger: %w", err)
	}
	w.cleanup.Push("ledger connections", 5*time.Second, func(context.Context) error { return db.Close() })
	w.health.Add("ledger", db.Ping)
	w.ledger = db
	return nil
}

func (w *Waybill) startSink(ctx context.Context, _ *registry.View) error {
	nc, err := w.connect(ctx, "waybill-ledger-sink")
	if err != nil {
		return err
	}
	sink, err := ledgersink.New(ledgersink.Options{NATS: nc, Ledger: w.ledger, Name: w.name, Log: w.stageLog("ledger-sink"), Registerer: w.metrics})
	if err != nil {
		return err
	}
	w.health.Add("ledger-sink", func(context.Context) error { return sink.Ready() })
	w.work("ledger-sink", w.o.Drain+stopMargin, sink.Run)
	return nil
}
