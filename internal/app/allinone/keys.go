package allinone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/registry"
)

// keysFile is where the data directory has its keys.
var keysFile = filepath.Join(keysDir, "secrets.key")

// openKeys opens the keys that endpoints' secrets are sealed with, and makes
// them at the first start. It never makes new ones beside endpoints that need
// others: what they keep would be lost in silence.
func (w *Waybill) openKeys(ctx context.Context, view *registry.View) (err error) {
	path := w.o.SecretsKeyFile
	if w.keys, err = process.LoadKeys(path); err != nil {
		return err
	}
	if w.keys == nil {
		path = w.data.join(keysFile)
		if err := createKeys(path, view); err != nil {
			return err
		}
		if w.keys, err = sealed.Open(path); err != nil {
			return err
		}
	}
	if path != "" {
		if w.addresses.SecretsKeyFile, err = filepath.Abs(path); err != nil {
			return fmt.Errorf("secrets key file %s: %w", path, err)
		}
	}
	return w.sealPlain(ctx, view)
}

func createKeys(path string, view *registry.View) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // there, or opening it says what is wrong
	}
	for _, e := range view.All() {
		if id := e.SealedUnder(); len(id) > 0 {
			return fmt.Errorf("secrets key file %s is missing, and endpoint %s is sealed under key %s: put the file back, or "+
				"name it with --secrets-key-file; if it is lost, make a new one with: waybill key generate --secrets-key-file "+
				"%s, and replace every endpoint's secret with: waybill endpoint rotate-secret --overlap 0s", path, e.ID, id[0],
				path)
		}
	}
	_, err := sealed.CreateFile(path)
	return err
}

// sealPlain seals what versions before sealing stored in the clear.
func (w *Waybill) sealPlain(ctx context.Context, view *registry.View) error {
	store, err := registry.OpenStore(ctx, w.js)
	if err != nil {
		return err
	}
	for _, e := range view.All() {
		if !e.HasPlain() {
			continue
		}
		_, err := store.Reseal(ctx, w.keys, e.ID, registry.ActorWaybill,
			"an older version had stored its secret in the clear")
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			w.log.Error().Err(err).Str("endpoint_id", e.ID).Msg(logevent.SecretsNotSealed)
			continue
		}
		w.log.Warn().Str("endpoint_id", e.ID).Msg(logevent.SecretsSealed) // it had been in the clear
	}
	return nil
}

// watchKeys reports endpoints whose secrets do not open. They are no reason not
// to start: how else could their secrets be replaced?
func (w *Waybill) watchKeys() {
	if err := w.checkKeys(context.Background()); err != nil {
		w.log.Error().Err(err).Msg(logevent.SecretsDoNotOpen)
	}
	w.health.Add("secrets", w.checkKeys)
}
