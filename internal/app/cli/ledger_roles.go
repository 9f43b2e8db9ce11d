package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/allinone"
	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
)

func ledgerCommand(s stdio) *cobra.Command {
	return group("ledger", "Look after the ledger: verify it, its checkpoints and keys, its schema, who may do what, "+
		"retention and backup",
		"  waybill ledger verify --key ledger.pub\n  waybill ledger dsn --role analyst\n  waybill ledger retire --before "+
			"2019-01",
		ledgerVerify(s), ledgerCheckpoint(s), ledgerKeyCommand(s), ledgerMigrate(s), ledgerRoles(s), ledgerDSN(s),
		ledgerRetire(s), ledgerBackup(s), ledgerRestore(s))
}

func ledgerRoles(s stdio) *cobra.Command {
	var out format
	var sql, xml bool
	var database string
	c := &cobra.Command{
		Use: "roles", Short: "Say who may do what with the ledger in ClickHouse",
		Long: `Say who may do what with the ledger in ClickHouse, and print it as SQL for a server
(--print-sql) or as a users file for one (--print-xml). The embedded engine of
waybill up has these users by itself. docs/custody.md says more.`,
		Example: "  waybill ledger roles\n  waybill ledger roles --print-sql > roles.sql",
		Args:    process.NoArgs,
	}
	out.bind(c.Flags())
	c.Flags().BoolVar(&sql, "print-sql", false, "print SQL that makes the users on a server")
	c.Flags().BoolVar(&xml, "print-xml", false,
		"print a users file for a server, whose passwords come from its environment")
	c.Flags().StringVar(&database, "database", ledger.DefaultDatabase, "database of the ledger")
	c.RunE = func(*cobra.Command, []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if sql && xml {
			return process.Usagef("--print-sql and --print-xml: want one of them")
		}
		if _, err := ledger.New("clickhouse://localhost/" + database); err != nil {
			return process.Usagef("--database %q: want letters, digits and underscores", database)
		}
		return printRoles(s, out, database, sql, xml)
	}
	return c
}

func printRoles(s stdio, out format, database string, sql, xml bool) error {
	switch {
	case sql:
		_, err := fmt.Fprint(s.out, roles.SQL(database))
		return err
	case xml:
		_, err := fmt.Fprint(s.out, roles.DeployXML(database))
		return err
	case out == "json":
		type role struct {
			Role    string   `json:"role"`
			Purpose string   `json:"purpose"`
			Grants  []string `json:"grants"`
		}
		list := []role{}
		for _, r := range roles.All() {
			list = append(list, role{r.Name, r.Purpose, r.Statements(database, r.Name)})
		}
		return printJSON(s.out, list)
	}
	t := table{header: []string{"ROLE", "PURPOSE"}, flow: true}
	for _, r := range roles.All() {
		t.add(r.Name, r.Purpose)
	}
	return t.show(s, out, "")
}

func ledgerDSN(s stdio) *cobra.Command {
	var t target
	var out format
	var role string
	var overHTTP bool
	c := &cobra.Command{
		Use: "dsn", Short: "Print the address of the embedded ClickHouse for a role, with its password",
		Long: `Print the address of the embedded ClickHouse for a role, with its password: for
whoever may read the data directory. Without a role's password, any program on this
machine asks as an analyst, as user "default".`,
		Example: "  waybill ledger dsn --role analyst\n  waybill ledger dsn --role auditor --http",
		Args:    process.NoArgs,
	}
	t.bind(c.Flags())
	out.bind(c.Flags())
	c.Flags().StringVar(&role, "role", roles.Analyst, roles.Names())
	c.Flags().BoolVar(&overHTTP, "http", false, "the address of the HTTP interface instead")
	c.RunE = func(*cobra.Command, []string) error {
		if err := firstError(out.check(), checkRole(role)); err != nil {
			return err
		}
		native, web, err := t.roleAddresses(role)
		if err != nil {
			return err
		}
		switch {
		case out == "json":
			return printJSON(s.out, map[string]string{"role": role, "dsn": native, "http": web})
		case overHTTP:
			native = web
		}
		_, err = fmt.Fprintln(s.out, native)
		return err
	}
	return c
}

func checkRole(role string) error {
	if _, ok := roles.Find(role); !ok {
		return process.Usagef("--role %q: want %s", role, roles.Names())
	}
	return nil
}

// roleAddresses are those of the running waybill up's own engine.
func (t *target) roleAddresses(role string) (native, web string, err error) {
	a, _, err := t.read()
	if err != nil {
		return "", "", err
	}
	if a.ClickHousePasswordsFile == "" {
		return "", "", errors.New("this deployment uses a ClickHouse server of yours: make its users with: waybill ledger " +
			"roles --print-sql")
	}
	passwords, err := allinone.ReadPasswords(a.ClickHousePasswordsFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", "", fmt.Errorf("the passwords are in %s, which you cannot read (%w); run this as the user that runs "+
			"waybill up", a.ClickHousePasswordsFile, err)
	}
	if err != nil {
		return "", "", err
	}
	u := url.URL{Scheme: "http", User: url.UserPassword(role, passwords[role]), Host: a.ClickHouseHTTP, Path: "/",
		RawQuery: "database=" + ledger.DefaultDatabase}
	return allinone.EngineDSN(a.ClickHouseNative, role, passwords[role]), u.String(), nil
}

// dsnFor is ClickHouse's address for who has a role: that of --clickhouse, or
// the running waybill up's own.
func (t *target) dsnFor(role string) (string, error) {
	if t.clickhouse != "" {
		return t.clickhouse, nil
	}
	a, _, err := t.read()
	if err != nil {
		return "", err
	}
	if a.ClickHouseDSN != "" {
		return a.ClickHouseDSN, nil
	}
	native, _, err := t.roleAddresses(role)
	return native, err
}

// openAs connects to ClickHouse as who has a role; the caller closes.
func (t *target) openAs(role string) (*ledger.DB, error) {
	dsn, err := t.dsnFor(role)
	if err != nil {
		return nil, err
	}
	db, err := ledger.New(dsn)
	if err != nil {
		return nil, process.Usagef("--clickhouse: %w", err)
	}
	return db, nil
}

func ledgerMigrate(s stdio) *cobra.Command {
	var out format
	var dsn string
	c := &cobra.Command{
		Use: "migrate", Short: "Make or update the ledger's schema in ClickHouse",
		Long: `Make or update the ledger's schema in ClickHouse, as a user who may: the sink's own
user may not, so that nobody who gets its password can change a record. It can be
run again, and does nothing when the schema is up to date. waybill up does this by
itself.`,
		Example: "  waybill ledger migrate --clickhouse clickhouse://migrator:PASSWORD@ch.internal:9000/waybill",
		Args:    process.NoArgs,
	}
	out.bind(c.Flags())
	c.Flags().StringVar(&dsn, "clickhouse", "", "ClickHouse DSN of a user who may change the schema, "+
		"clickhouse://user:password@host:9000/database (required)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if dsn == "" {
			return missing("clickhouse", "clickhouse://migrator:PASSWORD@ch.internal:9000/waybill")
		}
		return migrate(c.Context(), s, out, dsn)
	}
	return c
}

func migrate(ctx context.Context, s stdio, out format, dsn string) error {
	db, err := ledger.New(dsn)
	if err != nil {
		return process.Usagef("--clickhouse: %w", err)
	}
	defer db.Close()
	before, err := db.Schema(ctx)
	if err != nil && !errors.Is(err, ledger.ErrNoSchema) {
		return err
	}
	if err := db.Migrate(ctx); err != nil {
		return err
	}
	after, err := db.Schema(ctx)
	if err != nil {
		return err
	}
	if out == "json" {
		return printJSON(s.out, map[string]int{"from": before.Applied, "to": after.Applied})
	}
	what := fmt.Sprintf("brought from version %d to %d", before.Applied, after.Applied)
	if before.Applied == after.Applied {
		what = fmt.Sprintf("is at version %d already", after.Applied)
	}
	_, err = fmt.Fprintf(s.out, "schema of database %s %s\n", db.Database(), what)
	return err
}
