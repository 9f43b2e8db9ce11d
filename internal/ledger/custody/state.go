// Package custody keeps what a legal hold covers and retires what is older than
// the retention. What it decides follows from the ledger's own records: which
// holds there are, and which months were retired.
package custody

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// Hold keeps every month that has a record in its scope.
type Hold struct {
	ID       string    `json:"id"` // hold_ + ULID
	Event    string    `json:"event,omitempty"`
	Subject  string    `json:"subject,omitempty"` // TYPE:ID, or ID
	Tenant   string    `json:"tenant,omitempty"`
	Endpoint string    `json:"endpoint,omitempty"`
	From     time.Time `json:"from,omitzero"`
	To       time.Time `json:"to,omitzero"`

	Idx      uint64    `json:"idx"` // of its own record
	AddedAt  time.Time `json:"added_at,omitzero"`
	Actor    string    `json:"actor"`
	Reason   string    `json:"reason"`
	Released time.Time `json:"released_at,omitzero"`
	By       string    `json:"released_by,omitempty"`
	Why      string    `json:"release_reason,omitempty"`
}

// Active says that nobody released it.
func (h Hold) Active() bool { return h.Released.IsZero() }

// Scope is what it covers.
func (h Hold) Scope() ledger.Scope {
	kind, id, both := strings.Cut(h.Subject, ":")
	if !both {
		kind, id = "", h.Subject
	}
	return ledger.Scope{EventID: h.Event, SubjectType: kind, SubjectID: id, Tenant: h.Tenant, EndpointID: h.Endpoint,
		From: h.From, To: h.To}
}

// Covers says it for people.
func (h Hold) Covers() string {
	var parts []string
	for _, p := range [][2]string{{"event", h.Event}, {"subject", h.Subject}, {"tenant", h.Tenant},
		{"endpoint", h.Endpoint}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	if !h.From.IsZero() {
		parts = append(parts, "from "+h.From.UTC().Format(time.RFC3339))
	}
	if !h.To.IsZero() {
		parts = append(parts, "to "+h.To.UTC().Format(time.RFC3339))
	}
	return strings.Join(parts, ", ")
}

func (h Hold) settings() map[string]string {
	out := map[string]string{"hold": h.ID}
	for k, v := range map[string]string{"event": h.Event, "subject": h.Subject, "tenant": h.Tenant, "endpoint": h.Endpoint,
		"from": stamp(h.From), "to": stamp(h.To)} {
		if v != "" {
			out[k] = v
		}
	}
	return out
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Retirement is a month that was put on record as retired. Its rows may still be
// there: whoever did it was interrupted, or is about to drop them.
type Retirement struct {
	ID     string            `json:"id"` // ret_ + ULID
	Month  uint32            `json:"month"`
	Ranges []record.IdxRange `json:"-"`
	Idx    uint64            `json:"idx"` // of its last record
	Parts  int               `json:"-"`
	Want   int               `json:"-"`
	Actor  string            `json:"actor"`
	Reason string            `json:"reason"`
	Kept   bool              `json:"kept"` // taken back
}

// State is what the ledger says.
type State struct {
	Holds       []Hold
	Retirements []Retirement
}

// Fold reads the state from the records, in the ledger's order.
func Fold(actions []ledger.Action) (State, error) {
	var s State
	for _, a := range actions {
		switch a.Action {
		case record.ActionHoldAdded:
			h := Hold{ID: a.Settings["hold"], Event: a.Settings["event"], Subject: a.Settings["subject"],
				Tenant:   a.Settings["tenant"],
				Endpoint: a.Settings["endpoint"], Idx: a.Idx, AddedAt: a.At, Actor: a.Actor, Reason: a.Reason}
			var err error
			for field, to := range map[string]*time.Time{"from": &h.From, "to": &h.To} {
				if v := a.Settings[field]; v != "" {
					if *to, err = time.Parse(time.RFC3339Nano, v); err != nil {
						return s, fmt.Errorf("record %d: %s: %w", a.Idx, field, err)
					}
				}
			}
			s.Holds = append(s.Holds, h)
		case record.ActionHoldReleased:
			if i := slices.IndexFunc(s.Holds, func(h Hold) bool { return h.ID == a.Settings["hold"] }); i >= 0 &&
				s.Holds[i].Active() {
				s.Holds[i].Released, s.Holds[i].By, s.Holds[i].Why = a.At, a.Actor, a.Reason
			}
		case record.ActionRetired:
			if err := s.retired(a); err != nil {
				return s, err
			}
		case record.ActionKept:
			if i := s.retirement(record.TakenBack(a.Settings)); i >= 0 {
				s.Retirements[i].Kept = true
			}
		}
	}
	return s, nil
}

func (s *State) retirement(id string) int {
	return slices.IndexFunc(s.Retirements, func(r Retirement) bool { return r.ID == id })
}

// retired takes one of the records that a retirement consists of.
func (s *State) retired(a ledger.Action) error {
	said, err := record.ReadRetirement(a.Settings)
	if err != nil {
		return fmt.Errorf("record %d: %w", a.Idx, err)
	}
	i := s.retirement(said.ID)
	if i < 0 {
		s.Retirements = append(s.Retirements, Retirement{ID: said.ID, Month: said.Month, Want: said.Parts, Actor: a.Actor,
			Reason: a.Reason})
		i = len(s.Retirements) - 1
	}
	r := &s.Retirements[i]
	r.Ranges, r.Idx, r.Parts = append(r.Ranges, said.Ranges...), a.Idx, r.Parts+1
	return nil
}

// Active are the holds that nobody released.
func (s State) Active() []Hold {
	return slices.DeleteFunc(slices.Clone(s.Holds), func(h Hold) bool { return !h.Active() })
}

// Complete says that all of its records are there, and none took it back.
func (r Retirement) Complete() bool { return !r.Kept && r.Parts == r.Want }

// MonthOf is the month that a time lies in.
func MonthOf(t time.Time) uint32 {
	t = t.UTC()
	return uint32(t.Year()*100 + int(t.Month()))
}

// Begin is when a month begins.
func Begin(month uint32) time.Time {
	return time.Date(int(month/100), time.Month(month%100), 1, 0, 0, 0, 0, time.UTC)
}

// Name is a month as people write it.
func Name(month uint32) string { return Begin(month).Format("2006-01") }
