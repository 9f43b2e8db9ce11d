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

// backupPath is where the embedded engine writes a backup.
func backupPath(data, name string) string {
	return filepath.Join(roles.BackupsDir(filepath.Join(data, engineDir)), name)
}

// BackupLedger has the running embedded engine of a data directory make a backup,
// and moves it to a directory that is not there yet.
func BackupLedger(ctx context.Context, db *ledger.DB, data, to string) error {
	name := "ledger-" + time.Now().UTC().Format("20060102T150405Z")
	if err := db.Backup(ctx, "File('"+name+"')"); err != nil {
		return err
	}
	from := backupPath(data, name)
	// The engine makes it for everybody to read; nobody else may read the ledger itself.
	if err := os.Chmod(from, 0o700); err != nil {
		return fmt.Errorf("closing the backup to others: %w; it is in %s", err, from)
	}
	return moveDir(from, to)
}

// moveDir moves a directory, also to another file system.
func moveDir(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("--to %s: %w; the backup is in %s", to, err, from)
	}
	if os.Rename(from, to) == nil {
		return nil
	}
	if err := errors.Join(os.Mkdir(to, 0o700), os.CopyFS(to, os.DirFS(from))); err != nil {
		return fmt.Errorf("--to %s: %w; the backup is in %s", to, err, from)
	}
	return os.RemoveAll(from)
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
	place := backupPath(d.path, name)
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
