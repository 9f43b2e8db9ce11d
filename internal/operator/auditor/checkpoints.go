package auditor

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
)

// Checkpoint is a signed checkpoint with who vouches for it.
type Checkpoint struct {
	ledger.Checkpoint
	Signatures []Signature `json:"signatures"` // of witnesses and time stamping authorities
	Cosigned   string      `json:"-"`          // the note with what witnesses added to it
}

// Signature is one of a witness or of a time stamping authority.
type Signature struct {
	Kind   string    `json:"kind"`
	Signer string    `json:"signer"`
	At     time.Time `json:"at"`
}

// Count says how many signatures of a kind there are.
func (c Checkpoint) Count(kind string) int {
	n := 0
	for _, s := range c.Signatures {
		if s.Kind == kind {
			n++
		}
	}
	return n
}

// Checkpoints returns the latest checkpoints, the newest first.
func (a Auditor) Checkpoints(ctx context.Context, limit int) ([]Checkpoint, error) {
	all, err := a.db.LatestCheckpoints(ctx, limit)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	signatures, err := a.db.CheckpointSignatures(ctx, all[len(all)-1].Size, all[0].Size)
	if err != nil {
		return nil, err
	}
	of, lines := map[uint64][]Signature{}, map[uint64][]string{}
	for _, s := range signatures {
		of[s.Size] = append(of[s.Size], Signature{s.Kind, s.Signer, s.At})
		if s.Kind == ledger.WitnessSignature {
			lines[s.Size] = append(lines[s.Size], s.Signature)
		}
	}
	var list []Checkpoint
	for _, c := range all {
		cosigned := checkpoint.AddSignatures(c.Note, lines[c.Size])
		list = append(list, Checkpoint{c, append([]Signature{}, of[c.Size]...), cosigned})
	}
	return list, nil
}
