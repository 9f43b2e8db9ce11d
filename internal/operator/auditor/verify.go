package auditor

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/verify"
	"github.com/waybill-dev/waybill/internal/ledger/verify/outside"
)

// Verify holds the ledger against its tree, its signed checkpoints and the
// definitions of its tables, and with js also against what LEDGER and CHECKPOINTS
// still know. It sets the options that say what the ledger is.
func (a Auditor) Verify(ctx context.Context, js jetstream.JetStream, o verify.Options) (none verify.Report, err error) {
	if js != nil {
		published, kept, err := outside.Checkpoints(ctx, js)
		if err != nil {
			return none, err
		}
		o.Outside = append(o.Outside, published...)
		o.Stream, o.Kept = &outside.Ledger{JS: js}, kept
	}
	o.Name = a.db.Database()
	if err := a.db.CheckSchema(ctx); err != nil {
		return none, err
	}
	source := &ledger.Verified{DB: a.db}
	schema, wrong, notes, err := source.CheckDefinitions(ctx)
	if err != nil {
		return none, err
	}
	r, err := verify.Run(ctx, source, o)
	if err != nil {
		return r, err
	}
	r.Columns = source.StoredColumns()
	r.AddSchema(schema, wrong, notes)
	return r, nil
}
