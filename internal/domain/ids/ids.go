// Package ids makes the identifiers that Waybill assigns: a prefix that says
// what it names, and a ULID, so that ids sort by the time they were made.
package ids

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Prefixes.
const (
	Event    = "evt_"
	Endpoint = "ep_"
	Attempt  = "att_"
	Replay   = "rpl_"
)

// New returns prefix + ULID: the time in milliseconds and 80 random bits from
// the operating system, so that two processes never make the same one.
func New(prefix string, at time.Time) string {
	return prefix + ulid.MustNew(ulid.Timestamp(at), rand.Reader).String()
}

// Valid says whether id has the prefix and a well-formed ULID behind it.
func Valid(prefix, id string) bool {
	rest, ok := strings.CutPrefix(id, prefix)
	if !ok {
		return false
	}
	_, err := ulid.ParseStrict(rest)
	return err == nil
}

// Time is when an id was made; zero when it is none of that prefix.
func Time(prefix, id string) time.Time {
	rest, ok := strings.CutPrefix(id, prefix)
	if !ok {
		return time.Time{}
	}
	u, err := ulid.ParseStrict(rest)
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(u.Time())
}
