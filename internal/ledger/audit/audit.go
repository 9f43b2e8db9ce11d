// Package audit shapes what the ledger says for people who must be convinced:
// the five questions of an audit, completeness, and the report that holds them
// all. It reads no database; every function here is a function of its input.
package audit

import (
	"fmt"
	"strings"
	"time"
)

// Promise is how soon a human must be told of what was not delivered.
const Promise = 5 * time.Minute

// Filter says what was asked about. A zero field does not narrow.
type Filter struct {
	EventID    string    `json:"event_id,omitempty"`
	Tenant     string    `json:"tenant,omitempty"`
	EndpointID string    `json:"endpoint_id,omitempty"`
	From       time.Time `json:"from,omitzero"` // From <= time < To
	To         time.Time `json:"to,omitzero"`
	// Settled is a time: what began behind it may have records on the way, so
	// what they would complete is no mismatch. Zero: everything is there.
	Settled time.Time `json:"settled_until,omitzero"`
}

// String says it for people.
func (f Filter) String() string {
	var parts []string
	if f.EventID != "" {
		parts = append(parts, "event "+f.EventID)
	}
	if f.Tenant != "" {
		parts = append(parts, "tenant "+f.Tenant)
	}
	if f.EndpointID != "" {
		parts = append(parts, "endpoint "+f.EndpointID)
	}
	switch {
	case !f.From.IsZero() && !f.To.IsZero():
		parts = append(parts, "from "+bound(f.From)+" to before "+bound(f.To))
	case !f.From.IsZero():
		parts = append(parts, "from "+bound(f.From)+" on")
	case !f.To.IsZero():
		parts = append(parts, "before "+bound(f.To))
	}
	if len(parts) == 0 {
		return "the whole ledger"
	}
	return strings.Join(parts, ", ")
}

// bound is the end of a period: a date, where it is a midnight.
func bound(t time.Time) string {
	if t.UTC().Equal(t.UTC().Truncate(24 * time.Hour)) {
		return t.UTC().Format(time.DateOnly)
	}
	return When(t)
}

// When writes a time as this package does everywhere: UTC, milliseconds.
func When(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000") + " UTC"
}

func whenPtr(t *time.Time) string {
	if t == nil {
		return ""
	}
	return When(*t)
}

// Took writes microseconds as people read a duration.
func Took(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d >= time.Minute || d <= -time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second || d <= -time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// Question is one that an auditor asks, with what its answer is worth.
type Question struct {
	Name  string `json:"name"` // the command
	Asked string `json:"asked"`
	View  string `json:"view"`
	// Proves and CannotProve are about every answer to it.
	Proves      []string `json:"proves"`
	CannotProve []string `json:"cannot_prove"`
}

// Answer is what the ledger says to a question.
type Answer[T any] struct {
	Question Question `json:"question"`
	Filter   Filter   `json:"filter"`
	// Notes say what the rows amount to; Warnings what a reader must not overlook.
	Notes    []string `json:"notes"`
	Warnings []string `json:"warnings"`
	Rows     []T      `json:"rows"`
	More     uint64   `json:"more"`  // rows that are not shown
	Query    string   `json:"query"` // that an analyst can repeat
}

// none keeps JSON free of null where a list is meant.
func none[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (a *Answer[T]) note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}

func (a *Answer[T]) warn(format string, args ...any) {
	a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...))
}

func answer[T any](name string, f Filter, rows []T, more uint64) *Answer[T] {
	q := questionOf(name)
	a := &Answer[T]{Question: q, Filter: f, Notes: []string{}, Warnings: []string{}, Rows: none(rows), More: more,
		Query: query(q.View, f)}
	if len(rows) == 0 && more == 0 {
		a.note("Nothing is on record: %s.", f)
	}
	return a
}

// query is what an analyst types to see every row of an answer.
func query(view string, f Filter) string {
	column := map[string]string{"audit_failures": "failed_at", "audit_duplicates": "first_at", "audit_controls": "day",
		"audit_completeness": "accepted_at"}[view]
	if column == "" {
		column = "at"
	}
	var c []string
	equal := func(name, value string) {
		if value != "" {
			c = append(c, name+" = "+quote(value))
		}
	}
	equal("event_id", f.EventID)
	equal("tenant", f.Tenant)
	equal("endpoint_id", f.EndpointID)
	layout := "2006-01-02 15:04:05.999999999"
	if column == "day" {
		layout = time.DateOnly
	}
	if !f.From.IsZero() {
		c = append(c, column+" >= '"+f.From.UTC().Format(layout)+"'")
	}
	if !f.To.IsZero() {
		op := " < '"
		if column == "day" && !f.To.UTC().Equal(f.To.UTC().Truncate(24*time.Hour)) {
			op = " <= '"
		}
		c = append(c, column+op+f.To.UTC().Format(layout)+"'")
	}
	if view == "audit_completeness" {
		c = append(c, "notEmpty(mismatches)")
	}
	if len(c) == 0 {
		return "SELECT * FROM " + view
	}
	return "SELECT * FROM " + view + " WHERE " + strings.Join(c, " AND ")
}

func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\x00", `\0`).Replace(s) + "'"
}
