package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/allinone"
	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

func ledgerBackup(s stdio) *cobra.Command {
	var t target
	var out format
	var to string
	c := &cobra.Command{
		Use: "backup", Short: "Copy the whole ledger away, while it runs",
		Long: `Copy the whole ledger away, while it runs. For the embedded engine --to is a directory,
which is made; for a server of yours it is a destination in ClickHouse's words, such
as S3('https://…/ledger', 'KEY', 'SECRET') or Disk('backups', 'ledger').
Streams and keys are backed up apart: see docs/backup.md.`,
		Example: "  waybill ledger backup --to /backups/ledger-2026-08-19\n" +
			"  waybill ledger backup --clickhouse clickhouse://backup:PASSWORD@ch:9000/waybill --to \"Disk('backups', " +
			"'ledger')\"",
		Args: process.NoArgs,
	}
	t.bind(c.Flags())
	out.bind(c.Flags())
	c.Flags().StringVar(&to, "to", "", "where to: a directory, or a destination in ClickHouse's words (required)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if to == "" {
			return missing("to", "/backups/ledger-2026-08-19")
		}
		if err := needFile("to", to); err != nil {
			return err
		}
		if err := backup(c.Context(), &t, to); err != nil {
			return err
		}
		if out == "json" {
			return printJSON(s.out, map[string]string{"to": to})
		}
		_, err := fmt.Fprintf(s.out, "the ledger is in %s\n", to)
		return err
	}
	return c
}

func backup(ctx context.Context, t *target, to string) error {
	db, err := t.openAs(roles.Backup)
	if err != nil {
		return err
	}
	defer db.Close()
	if strings.Contains(to, "(") {
		return db.Backup(ctx, to)
	}
	a, _, err := t.read()
	if err != nil || a.ClickHousePasswordsFile == "" || t.clickhouse != "" {
		return process.Usagef("--to %s: a directory is for the embedded engine; for a server of yours name a destination, "+
			"such as Disk('backups', 'ledger')", to)
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return process.Usagef("--to %s is there already; name a new directory", to)
	}
	return allinone.BackupLedger(ctx, db, filepath.Dir(filepath.Dir(a.ClickHousePasswordsFile)), to)
}

func ledgerRestore(s stdio) *cobra.Command {
	var out format
	var data, from string
	c := &cobra.Command{
		Use: "restore", Short: "Put a backup of the ledger into a data directory that nothing runs on",
		Long: `Put a backup that waybill ledger backup made into the embedded engine of a data
directory that nothing runs on. Records that are there are never replaced: move
DATA/clickhouse away first. At the next start the ledger sink reads what the backup
lacks from LEDGER; what that lacks too becomes a ledger.gap on record, and an alarm.
A server of yours restores with RESTORE DATABASE: see docs/backup.md.`,
		Example: "  waybill ledger restore --from /backups/ledger-2026-08-19 --data-dir ./waybill-data",
		Args:    process.NoArgs,
	}
	out.bind(c.Flags())
	bindDataDir(c.Flags(), &data, "data directory of waybill up, which must not run")
	c.Flags().StringVar(&from, "from", "", "directory that waybill ledger backup made (required)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if from == "" {
			return missing("from", "/backups/ledger-2026-08-19")
		}
		if info, err := os.Stat(from); err != nil || !info.IsDir() {
			return process.Usagef("--from %s is no directory; name one that waybill ledger backup made", from)
		}
		if _, err := os.Stat(filepath.Join(from, ".backup")); err != nil { // before a data directory is made for it
			return process.Usagef("--from %s holds no backup (it has no file .backup); name a directory that waybill ledger "+
				"backup made", from)
		}
		n, err := allinone.RestoreLedger(c.Context(), data, from, zerolog.Nop())
		if err != nil {
			return err
		}
		if out == "json" {
			return printJSON(s.out, map[string]uint64{"records": n})
		}
		_, err = fmt.Fprintf(s.out, "%s restored into %s; start waybill up there, and the ledger sink adds what LEDGER "+
			"still has\n",
			text.Count(n, "record is", "records are"), data)
		return err
	}
	return c
}
