package allinone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
)

// BackupName is how a new backup of the embedded engine is called.
func BackupName(at time.Time) string { return "ledger-" + at.UTC().Format("20060102T150405Z") }

// BackupPath is where the embedded engine wrote a backup.
func BackupPath(data, name string) string {
	return filepath.Join(roles.BackupsDir(filepath.Join(data, engineDir)), name)
}

// RestoreLedger puts a backup into the embedded engine of a data directory that
// nothing runs on, and returns how many records it has.
func RestoreLedger(ctx context.Context, data, from string, log zerolog.Logger) (records uint64, err error) {
	d, err := openDataDir(data, log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	passwords, err := ensurePasswords(d.join(passwordsFile))
	if err != nil {
		return 0, err
	}
	const name = "restoring"
	place := BackupPath(d.path, name)
	if err := errors.Join(os.RemoveAll(place), os.MkdirAll(filepath.Dir(place), 0o700)); err != nil {
		return 0, dataDirError(d.path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(place)) }()
	if err := os.CopyFS(place, os.DirFS(from)); err != nil {
		return 0, fmt.Errorf("backup %s: %w; name a directory that waybill ledger backup made with --from", from, err)
	}
	e, err := engine.Start(ctx, roleOptions(engine.Options{Dir: d.join(engineDir), Logger: log}, passwords))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.Stop(context.WithoutCancel(ctx))) }()
	db, err := ledger.New(EngineDSN(e.NativeAddr(), Owner, passwords[Owner]))
	if err != nil {
		return 0, err
	}
	defer db.Close()
	if err := db.Restore(ctx, "File('"+name+"')"); err != nil {
		return 0, err
	}
	p, err := db.Position(ctx)
	return p.Next, err
}
