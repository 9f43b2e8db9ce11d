package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/problem"
)

// query is a request's parameters, each given once at most.
type query struct {
	values url.Values
	err    *problem.Problem // the first thing that is wrong
}

// parameters reads the query and refuses what is not in allowed: a misspelt
// filter would show the wrong things.
func parameters(r *http.Request, allowed ...string) query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{err: problem.New(http.StatusBadRequest, "malformed", "the query cannot be read: "+err.Error())}
	}
	for name, v := range values {
		if !slices.Contains(allowed, name) {
			known := "there is none here"
			if len(allowed) > 0 {
				known = "there are " + strings.Join(allowed, ", ")
			}
			return query{err: problem.New(http.StatusBadRequest, "unknown_parameter",
				fmt.Sprintf("unknown parameter %.64q; %s", name, known)).Of(fmt.Sprintf("%.64s", name))}
		}
		if len(v) > 1 {
			return query{err: problem.New(http.StatusBadRequest, "invalid", name+" is given more than once").Of(name)}
		}
	}
	return query{values: values}
}

func (q *query) text(name string) string { return q.values.Get(name) }

func (q *query) wrong(name, format string, args ...any) {
	if q.err == nil {
		q.err = problem.New(http.StatusUnprocessableEntity, "invalid", name+": "+fmt.Sprintf(format, args...)).Of(name)
	}
}

// number is 0 when the parameter is not given.
func (q *query) number(name string, most int) int {
	s := q.values.Get(name)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		q.wrong(name, "%.20q; want 1 to %d", s, most)
	}
	return n
}

func (q *query) flag(name string) bool {
	switch s := q.values.Get(name); s {
	case "", "false":
		return false
	case "true":
		return true
	default:
		q.wrong(name, "%.20q; want true or false", s)
		return false
	}
}

func (q *query) time(name string) time.Time {
	s := q.values.Get(name)
	if s == "" {
		return time.Time{}
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(s)); err != nil {
		q.wrong(name, "%.40q is not an RFC 3339 time, like 2026-08-19T14:32:07Z", s)
	}
	return t
}

func (q *query) failed() error {
	if q.err == nil {
		return nil
	}
	return q.err
}
