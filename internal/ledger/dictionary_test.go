package ledger_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/test/testkit"
)

var update = flag.Bool("update", false, "write docs/dictionary.generated.md anew")

func TestTheDictionaryIsMadeOfTheSchemaAndNamesEachColumnsMeaning(t *testing.T) {
	_, conn, _ := open(t)
	dictionaryPath := testkit.Path(t, "docs/dictionary.generated.md")
	tables, err := conn.Query(t.Context(), "SELECT name, engine, comment FROM system.tables WHERE database = "+
		"currentDatabase() ORDER BY engine = 'View', name")
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	var b strings.Builder
	b.WriteString("# Data dictionary\n\nEvery table and view of the ledger, made from the schema by `make docs`. " +
		"How to ask: [queries](queries.md); what each kind of record holds: [schema](schema.md).\n")
	for tables.Next() {
		var name, engine, meaning string
		if err := tables.Scan(&name, &engine, &meaning); err != nil {
			t.Fatal(err)
		}
		if meaning == "" {
			t.Errorf("%s has no comment; say in its migration what it is: ALTER TABLE %s MODIFY COMMENT '…'", name, name)
		}
		what := "Table"
		if engine == "View" {
			what = "View"
		}
		fmt.Fprintf(&b, "\n## %s `%s`\n\n%s.\n\n| Column | Type | Meaning |\n| --- | --- | --- |\n", what, name, meaning)
		rows, err := conn.Query(t.Context(), "SELECT name, type, default_kind, comment FROM system.columns WHERE database "+
			"= currentDatabase() AND table = $1 ORDER BY position", name)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var column, typ, kind, comment string
			if err := rows.Scan(&column, &typ, &kind, &comment); err != nil {
				t.Fatal(err)
			}
			if comment == "" {
				t.Errorf("%s.%s has no comment; say in its migration what it means: ALTER TABLE %s COMMENT COLUMN %s '…'", name,
					column, name, column)
			}
			if kind == "ALIAS" {
				comment += ". Derived from `body` when it is read"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", column, strings.ReplaceAll(typ, "|", `\|`),
				strings.ReplaceAll(comment, "|", `\|`))
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := tables.Err(); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(dictionaryPath, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(dictionaryPath)
	if err != nil || string(have) != b.String() {
		t.Errorf("docs/dictionary.generated.md is stale (%v); write it anew with: make docs", err)
	}
}
