package control

import (
	"context"
	"errors"

	"github.com/waybill-dev/waybill/internal/domain/record"
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
	said := record.LedgerKeyRotated(r.Origin, r.Key, r.Before)
	said.At, said.Actor, said.Reason = c.o.Now().UTC(), r.Actor, r.Reason
	return c.putOnRecord(ctx, said)
}
