package allinone

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/audit/outside"
	"github.com/waybill-dev/waybill/internal/ledger/transparency"
	"github.com/waybill-dev/waybill/internal/operator/api"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/operator/history"
	"github.com/waybill-dev/waybill/internal/pipeline/ingest"
	"github.com/waybill-dev/waybill/internal/platform/problem"
	"github.com/waybill-dev/waybill/internal/registry"
)

// startAPI begins to accept: the last to start, the first to stop.
func (w *Waybill) startAPI(ctx context.Context, _ *registry.View) error {
	nc, err := w.connect(ctx, "waybill-ingest")
	if err != nil {
		return err
	}
	in, err := ingest.New(ingest.Options{NC: nc, IDs: w.ids, Metrics: w.metrics, Tracer: w.tracer, DrainTimeout: w.o.Drain,
		Log: w.stageLog("ingest")})
	if err != nil {
		return err
	}
	w.health.Add("ingest", in.Ready)
	w.work("ingest", w.o.Drain+stopMargin, in.Run)
	select {
	case <-in.Listening():
	case <-ctx.Done():
		return fmt.Errorf("listening to producers: %w", context.Cause(ctx))
	}
	nc, err = w.connect(ctx, "waybill-api")
	if err != nil {
		return err
	}
	events, err := outside.OpenEvents(nc, w.js)
	if err != nil {
		return err
	}
	c, err := control.New(ctx, control.Options{NC: nc, Egress: w.egress, Proxy: w.proxy, ProxyNames: w.o.EgressProxy.Names,
		Keys: w.keys, RootCAs: w.o.RootCAs, Redact: w.redact, Ledger: history.New(w.reader).Asking(events)})
	if err != nil {
		return err
	}
	w.control = c
	mux := http.NewServeMux()
	in.Routes(mux)
	api.New(c).Routes(mux)
	(&transparency.Server{Store: w.ledger, Origin: w.keysOfLog.Origin(), Log: w.log}).Routes(mux)
	process.Routes(mux, &w.health, w.metrics)
	mux.HandleFunc("/", problem.NotFound)
	w.work("http", serveBound+time.Second, func(ctx context.Context) error {
		return process.ServeUntil(ctx, w.listener, mux, serveBound)
	})
	return nil
}

// serveBound is how long requests in hand get to be answered at a stop.
const serveBound = 8 * time.Second
