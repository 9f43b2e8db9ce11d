// Package roles says who may do what with the ledger in ClickHouse, once: as SQL
// for a server, and as a users file for a server or the embedded engine.
package roles

import (
	"fmt"
	"slices"
	"strings"
)

// The names of the roles; each is also the name of its user.
const (
	// Migrator makes and changes the schema. It reads and writes no record.
	Migrator = "migrator"
	// Sink adds records and can change none.
	Sink = "sink"
	// Analyst reads the ledger, within limits.
	Analyst = "analyst"
	// Auditor reads the ledger and what ClickHouse knows about who did what.
	Auditor = "auditor"
	// Custodian drops months whose retention is over.
	Custodian = "custodian"
	// Backup copies the ledger away.
	Backup = "backup"
)

// Role is one of them.
type Role struct {
	Name    string
	Purpose string
	// Grants are what follows GRANT; %[1]s is the database.
	Grants []string
	// Limits bound each query; whoever has the role cannot lift them.
	Limits []Limit
}

// Limit is a setting and what a user may make of it.
type Limit struct {
	Setting string
	Value   string
	// Min and Max bound what a user may choose; both empty: nothing else than
	// Value. Zero means no limit to ClickHouse, so a limit without Min is none.
	Min, Max string
}

// views that a migration replaces. They are named one by one: whoever may drop
// a view of any name may put one in the place of the table of records.
func views() []string {
	return []string{"events", "attempts", "deliveries", "escalations", "dead_letters", "replays", "endpoint_history",
		"completeness",
		"audit_attempts", "audit_duplicates", "audit_failures", "audit_integrity", "audit_controls", "audit_changes",
		"audit_completeness"}
}

// sinkTables are those that the sink adds rows to.
func sinkTables() []string {
	return []string{"records", "tiles", "checkpoints", "checkpoint_signatures"}
}

// auditTables are what an auditor sees of ClickHouse itself: who asked what, who
// may do what, and whether something was changed or is about to be.
func auditTables() []string {
	return []string{"query_log", "session_log", "part_log", "mutations", "parts", "detached_parts", "tables", "columns",
		"databases",
		"users", "roles", "grants", "role_grants", "row_policies", "settings_profiles", "settings_profile_elements", "quotas",
		"processes",
		"settings", "server_settings", "merge_tree_settings", "backups", "disks", "errors"}
}

// All roles.
func All() []Role {
	return []Role{
		{Name: Migrator, Purpose: "makes and changes the schema: waybill ledger migrate", Grants: migrator(),
			Limits: logged()},
		{Name: Sink, Purpose: "the ledger sink: adds records, and can change, delete, detach or drop nothing", Grants: sink(),
			Limits: logged()},
		{Name: Analyst, Purpose: "people and programs that read the ledger, within limits", Grants: analyst(),
			Limits: reader("60", "2000000000", "1000000", "1000000000")},
		{Name: Auditor, Purpose: "reads the ledger, and what ClickHouse knows about who did what", Grants: auditor(),
			Limits: reader("7200", "8000000000", "", "")},
		{Name: Custodian, Purpose: "drops months whose retention is over: waybill ledger retire",
			Grants: []string{"SELECT ON %[1]s.*", "ALTER DELETE ON %[1]s.records"}, Limits: custodian()},
		{Name: Backup, Purpose: "copies the ledger away: waybill ledger backup",
			Grants: []string{"BACKUP, SELECT ON %[1]s.*"}, Limits: logged()},
	}
}

// Anonymous is user "default" of the embedded engine: whoever is on this machine
// may ask as an analyst, without a password. The library opens its ports as that
// user, which a user that is "readonly" cannot do; the grants alone say what it may.
func Anonymous() User {
	r, _ := Find(Analyst)
	r.Purpose = "whoever asks on this machine without a password: as an analyst"
	r.Limits = slices.DeleteFunc(r.Limits, func(l Limit) bool { return l.Setting == "readonly" })
	return User{Role: r, As: "default", Networks: Loopback(), More: []string{"GRANT SYSTEM LISTEN ON *.*"}}
}

// Find returns the role of that name.
func Find(name string) (Role, bool) {
	for _, r := range All() {
		if r.Name == name {
			return r, true
		}
	}
	return Role{}, false
}

// Names of all roles, for an error.
func Names() string {
	var names []string
	for _, r := range All() {
		names = append(names, r.Name)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

func migrator() []string {
	grants := []string{"CREATE DATABASE, CREATE TABLE, CREATE VIEW, SELECT ON %[1]s.*", "INSERT ON %[1]s.schema_versions",
		"TABLE ENGINE ON MergeTree",
		"ALTER ADD COLUMN, ALTER COMMENT COLUMN, ALTER MODIFY COMMENT, ALTER ADD INDEX ON %[1]s.*",
		"INSERT, DROP TABLE ON %[1]s._tmp_replace_*"}
	for _, v := range views() {
		// A view is replaced by making it under a temporary name and exchanging the two,
		// for which ClickHouse asks for INSERT too.
		grants = append(grants, "INSERT, DROP VIEW ON %[1]s."+v)
	}
	return grants
}

func sink() []string {
	grants := []string{"SELECT ON %[1]s.*"}
	for _, t := range sinkTables() {
		grants = append(grants, "INSERT ON %[1]s."+t)
	}
	return grants
}

// analyst may also ask what tables and columns there are, as many clients do:
// only what a user may read is listed.
func analyst() []string {
	return []string{"SELECT ON %[1]s.*", "SELECT ON information_schema.*", "SELECT ON INFORMATION_SCHEMA.*"}
}

func auditor() []string {
	grants := append(analyst(), "SHOW ACCESS ON *.*")
	for _, t := range auditTables() {
		grants = append(grants, "SELECT ON system."+t)
	}
	return grants
}

// logged makes sure that what a user does is in system.query_log, whole.
func logged() []Limit {
	return []Limit{{Setting: "log_queries", Value: "1"}, {Setting: "log_queries_probability", Value: "1"},
		{Setting: "log_queries_min_type", Value: "QUERY_START"}, {Setting: "log_queries_min_query_duration_ms", Value: "0"},
		{Setting: "log_queries_cut_to_length", Value: "100000"}, {Setting: "allow_introspection_functions", Value: "0"}}
}

// reader may set what concerns only its own query (clients do), but neither
// write nor take the server for itself.
func reader(seconds, memory, rows, bytes string) []Limit {
	limits := append(logged(),
		Limit{Setting: "readonly", Value: "2"}, Limit{Setting: "allow_ddl", Value: "0"},
		Limit{Setting: "max_execution_time", Value: seconds, Min: "1", Max: seconds},
		Limit{Setting: "timeout_overflow_mode", Value: "throw"}, // never half an answer
		Limit{Setting: "max_memory_usage", Value: memory, Min: "1", Max: memory},
		Limit{Setting: "max_memory_usage_for_user", Value: memory},
		Limit{Setting: "max_untracked_memory", Value: "4194304"},
		Limit{Setting: "max_concurrent_queries_for_user", Value: "20"},
		Limit{Setting: "max_temporary_data_on_disk_size_for_user", Value: "10000000000"},
		Limit{Setting: "result_overflow_mode", Value: "throw"})
	if rows != "" {
		limits = append(limits, Limit{Setting: "max_result_rows", Value: rows, Min: "1", Max: rows},
			Limit{Setting: "max_result_bytes", Value: bytes, Min: "1", Max: bytes})
	}
	return limits
}

func custodian() []Limit {
	return append(logged(), Limit{Setting: "enable_lightweight_delete", Value: "0"})
}

// Statements are a role's grants in a database.
func (r Role) Statements(database, to string) []string {
	var out []string
	for _, g := range r.Grants {
		s := "GRANT " + g
		if strings.Contains(g, "%[1]s") {
			s = "GRANT " + fmt.Sprintf(g, database)
		}
		if to != "" {
			s += " TO " + to
		}
		out = append(out, s)
	}
	return out
}
