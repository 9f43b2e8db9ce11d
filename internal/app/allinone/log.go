package allinone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/transparency"
)

// checkpointKeyFile is where the data directory has the key of the ledger's checkpoints.
var checkpointKeyFile = filepath.Join(keysDir, "checkpoint.key")

// openLog opens the transparency log over the ledger, and makes its key at the
// first start.
func (w *Waybill) openLog(ctx context.Context, nc *nats.Conn) (*transparency.Log, error) {
	s := w.o.Transparency
	if s.KeyFile == "" {
		s.KeyFile = w.data.join(checkpointKeyFile)
		if err := w.createCheckpointKey(ctx, s.KeyFile); err != nil {
			return nil, err
		}
	}
	if !checkpoint.Inline(s.KeyFile) {
		path, err := filepath.Abs(s.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("checkpoint key file %s: %w", s.KeyFile, err)
		}
		w.addresses.CheckpointKeyFile = path
	}
	o, err := s.Options()
	if err != nil {
		return nil, err
	}
	if w.o.Origin != "" && w.o.Origin != o.Keys.Origin() {
		return nil, process.Usagef("--origin %s: the checkpoint key is of origin %s; leave --origin out, or name a key "+
			"file of that origin with --checkpoint-key", w.o.Origin, o.Keys.Origin())
	}
	o.Store, o.NATS, o.Log, o.Registerer = w.ledger, nc, w.stageLog("ledger-log"), w.metrics
	log, err := transparency.New(o)
	if err != nil {
		return nil, err
	}
	w.health.AddNote("ledger-log", log.Note)
	w.keysOfLog = o.Keys
	return log, nil
}

// createCheckpointKey makes a key unless there is a file. It never makes one
// beside checkpoints of the same log: another's signature would follow theirs
// without a word.
func (w *Waybill) createCheckpointKey(ctx context.Context, path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // there, or opening it says what is wrong
	}
	signed, err := w.ledger.LatestCheckpoints(ctx, 1)
	if err != nil {
		return fmt.Errorf("the ledger: %w", err)
	}
	if len(signed) > 0 {
		return fmt.Errorf("checkpoint key file %s is missing, and the ledger has checkpoints that key %s signed: put the "+
			"file back, or name it with --checkpoint-key; if it is lost, make a new one with: waybill ledger key generate "+
			"--origin %s --out %s, and tell whoever verifies", path, signed[0].Key, signed[0].Origin, path)
	}
	origin := w.o.Origin
	if origin == "" {
		origin = "waybill.local/" + w.name
	}
	_, err = checkpoint.CreateFile(path, origin)
	return err
}

// Verifier is the public key of the ledger's checkpoints.
func (w *Waybill) Verifier() string { return w.keysOfLog.List()[0].Verifier }
