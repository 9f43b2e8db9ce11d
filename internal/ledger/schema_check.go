package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/waybill-dev/waybill/internal/ledger/verify"
)

// CheckDefinitions compares every table and view with what this version's
// migrations make, and looks for what hides or alters rows on the way to a
// reader: row policies, masking policies, filters in settings profiles. wrong is
// what can change an answer; notes are what should be known.
func (s *Verified) CheckDefinitions(ctx context.Context) (r verify.SchemaResult, wrong, notes []string, err error) {
	want, err := s.expected(ctx)
	if err != nil {
		return r, nil, nil, err
	}
	got, err := s.existing(ctx)
	if err != nil {
		return r, nil, nil, err
	}
	r.Objects = len(want)
	wrong, notes = compareDefinitions(want, got)
	for _, name := range viewsOf(want) {
		if got[name].query == want[name].query {
			w, err := s.compareViewColumns(ctx, name, want[name].query)
			if err != nil {
				return r, nil, nil, err
			}
			wrong = append(wrong, w...)
		}
	}
	for _, look := range policies() {
		found, err := s.strings(ctx, "reading "+look.what, strings.ReplaceAll(look.query, "{database}", s.Database()))
		switch code := codeOf(err); {
		case code == proto.ErrUnknownTable, code == proto.ErrUnknownIdentifier: // this server has no such thing
		case code == proto.ErrAccessDenied:
			r.Refused = append(r.Refused, look.what)
		case err != nil:
			return r, nil, nil, err
		}
		for _, f := range found {
			if look.note {
				notes = append(notes, f)
			} else {
				wrong = append(wrong, f)
			}
		}
	}
	return r, wrong, notes, nil
}

type policyLook struct {
	what, query string
	note        bool
}

func policies() []policyLook {
	return []policyLook{
		{"row policies", `SELECT concat('row policy ', name, ' lets some readers see only rows where ', ifNull(select_filter, '1'))
			FROM system.row_policies WHERE database IN ('{database}', '', '*')`, false},
		{"masking policies", `SELECT concat('masking policy ', name, ' alters what some readers see') FROM system.masking_policies`, false},
		{"settings profiles", `SELECT concat('setting ', ifNull(setting_name, ''), ' of ', coalesce(profile_name, user_name, role_name, ''), ' hides rows: ', ifNull(value, ''))
			FROM system.settings_profile_elements WHERE setting_name IN ('additional_table_filters', 'additional_result_filter') AND ifNull(value, '') NOT IN ('', '{}')`, false},
		{"mutations", `SELECT concat('ClickHouse remembers a change of table ', table, ' from ', toString(create_time, 'UTC'), ' UTC: ', substring(command, 1, 300))
			FROM system.mutations WHERE database = '{database}' AND table IN ('records', 'tiles', 'checkpoints', 'checkpoint_signatures') ORDER BY create_time LIMIT 20`, true},
	}
}

// expected is what the migrations make, formatted by the server itself, so that
// its version does not matter.
func (s *Verified) expected(ctx context.Context) (map[string]definition, error) {
	all, err := migrations(migrationFiles)
	if err != nil {
		return nil, err
	}
	statements := []string{createVersions}
	for _, m := range all {
		statements = append(statements, m.statements...)
	}
	formatted, err := s.strings(ctx, "formatting the migrations",
		"SELECT formatQuerySingleLine(s) FROM (SELECT arrayJoin(?) AS s)", statements)
	if err != nil {
		return nil, err
	}
	return define(formatted)
}

func (s *Verified) existing(ctx context.Context) (map[string]definition, error) {
	rows, err := s.conn.Query(ctx, "SELECT name, engine, create_table_query, as_select FROM system.tables WHERE "+
		"database = currentDatabase()")
	if err != nil {
		return nil, s.explain("reading definitions", err)
	}
	defer rows.Close()
	out := map[string]definition{}
	for rows.Next() {
		var name, engine, create, query string
		if err := rows.Scan(&name, &engine, &create, &query); err != nil {
			return nil, s.explain("reading definitions", err)
		}
		unqualify := strings.NewReplacer(s.Database()+".", "", "`"+s.Database()+"`.", "")
		if query != "" || strings.HasSuffix(engine, "View") {
			out[name] = definition{query: unqualify.Replace(query)}
			if engine != "View" {
				out[name] = definition{query: engine + " " + query}
			}
			continue
		}
		_, d, err := parseTable(strings.TrimPrefix(unqualify.Replace(create), "CREATE TABLE "))
		if err != nil {
			d = definition{engine: create}
		}
		out[name] = d
	}
	return out, s.explain("reading definitions", rows.Err())
}

func viewsOf(all map[string]definition) []string {
	var out []string
	for name, d := range all {
		if d.query != "" {
			out = append(out, name)
		}
	}
	return out
}

// compareViewColumns compares a view's columns with those of its query: types
// that were declared otherwise would convert what is seen.
func (s *Verified) compareViewColumns(ctx context.Context, name, query string) ([]string, error) {
	declared, err := s.strings(ctx, "reading columns", "SELECT concat(name, ' ', type) FROM system.columns WHERE "+
		"database = currentDatabase() AND table = ? ORDER BY position", name)
	if err != nil {
		return nil, err
	}
	rows, err := s.conn.Query(ctx, "SELECT * FROM ("+query+") LIMIT 0")
	var e *clickhouse.Exception
	if errors.As(err, &e) {
		switch proto.Error(e.Code) {
		case proto.ErrUnknownIdentifier, proto.ErrUnknownTable, proto.ErrNoCommonType: // what it reads is not there
			return []string{fmt.Sprintf("view %s cannot be read: %s", name, firstLine(e.Message))}, nil
		}
	}
	if err != nil {
		return nil, s.explain("reading the columns of view "+name, err)
	}
	defer rows.Close()
	var wrong []string
	types := rows.ColumnTypes()
	for i, c := range types {
		if real := c.Name() + " " + c.DatabaseTypeName(); i >= len(declared) || declared[i] != real {
			wrong = append(wrong, fmt.Sprintf("view %s: a column is declared otherwise than its query gives: %s", name, real))
		}
	}
	if len(declared) > len(types) {
		wrong = append(wrong, fmt.Sprintf("view %s declares more columns than its query gives", name))
	}
	return wrong, s.explain("reading the columns of view "+name, rows.Err())
}
