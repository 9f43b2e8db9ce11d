package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// Kinds of CheckpointSignature.
const (
	WitnessSignature   = "witness"
	TimestampSignature = "timestamp"
)

// CheckpointSignature is a row of checkpoint_signatures: what another said of a
// checkpoint.
type CheckpointSignature struct {
	Size      uint64    `ch:"size" json:"size"`
	At        time.Time `ch:"at" json:"at"`
	Kind      string    `ch:"kind" json:"kind"`
	Signer    string    `ch:"signer" json:"signer"`
	Signature string    `ch:"signature" json:"signature"`
}

// AppendCheckpointSignature stores a signature; the same one twice is stored once.
func (db *DB) AppendCheckpointSignature(ctx context.Context, s CheckpointSignature) error {
	sum := sha256.Sum256([]byte(s.Kind + "\n" + s.Signer + "\n" + s.Signature))
	_, err := db.appendOnce(ctx, "storing a checkpoint's signature",
		fmt.Sprintf("signature-%d-%s", s.Size, hex.EncodeToString(sum[:])),
		"INSERT INTO checkpoint_signatures (size, at, kind, signer, signature)", func(add func(...any) error) error {
			return add(s.Size, s.At.UTC(), s.Kind, s.Signer, s.Signature)
		})
	return err
}

// CheckpointSignatures returns those of checkpoints with first <= size <= last.
func (db *DB) CheckpointSignatures(ctx context.Context, first, last uint64) ([]CheckpointSignature, error) {
	var out []CheckpointSignature
	err := db.selectInto(ctx, "reading signatures", &out,
		"SELECT size, at, kind, signer, signature FROM checkpoint_signatures WHERE size >= ? AND size <= ? ORDER BY size, at",
		first, last)
	return out, err
}

// LastSignatureAt says when the last signature of a kind arrived; zero: never.
func (db *DB) LastSignatureAt(ctx context.Context, kind string) (time.Time, error) {
	var all []CheckpointSignature
	err := db.selectInto(ctx, "reading signatures", &all,
		"SELECT size, at, kind, signer, signature FROM checkpoint_signatures WHERE kind = ? ORDER BY at DESC LIMIT 1", kind)
	if err != nil || len(all) == 0 {
		return time.Time{}, err
	}
	return all[0].At, nil
}
