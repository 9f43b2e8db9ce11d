package control

import (
	"context"
	"errors"

	"github.com/waybill-dev/waybill/internal/record"
)

// LedgerKeyRotation says that another key signs the ledger's checkpoints: its
// verifier key, and that of the one before.
type LedgerKeyRotation struct {
	Origin, Key, Before string
	Actor, Reason       string
}

// RecordLedgerKey puts on record that a new key of the ledger's log was made.
// The key before signs the checkpoint over this record, and so vouches for it.
func (c *Control) RecordLedgerKey(ctx context.Context, r LedgerKeyRotation) error {
	if err := errors.Join(checkActor(r.Actor), checkReason(r.Reason, false)); err != nil {
		return rejected(err)
	}
	return c.putOnRecord(ctx, record.Record{ID: string(record.OperatorAction) + "/ledger.key_rotated/" + r.Key, Kind: record.OperatorAction,
		At: c.o.Now().UTC(), Tenant: allTenants, Actor: r.Actor, Action: "ledger.key_rotated", Reason: r.Reason,
		Settings: map[string]string{"origin": r.Origin, "key": r.Key, "before": r.Before}})
}
