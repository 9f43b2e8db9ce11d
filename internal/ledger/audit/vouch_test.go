package audit_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

func TestWhatEVENTSSaysOfARecord(t *testing.T) {
	made := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	stored := made.Add(time.Hour)
	record := func(change func(*audit.EventRecord)) audit.EventRecord {
		r := audit.EventRecord{Kind: "event.accepted", Tenant: "acme", EventID: "order-1", EventSeq: 7, StoredAt: stored,
			DataDigest: "ab", Epoch: made.UnixNano()}
		if change != nil {
			change(&r)
		}
		return r
	}
	held := audit.EventsHeld{Created: made, First: 1, Last: 10, FirstAt: made}
	trimmed := audit.EventsHeld{Created: made, First: 9, Last: 10, FirstAt: stored.Add(time.Minute)}
	message := &audit.HeldEvent{Tenant: "acme", EventID: "order-1", DataDigest: "ab", StoredAt: stored}
	other := func(change func(*audit.HeldEvent)) *audit.HeldEvent {
		m := *message
		change(&m)
		return &m
	}
	tests := []struct {
		name   string
		record audit.EventRecord
		held   audit.EventsHeld
		m      *audit.HeldEvent
		want   string
		beyond bool
	}{
		{"as it is on record", record(nil), held, message, "", false},
		{"nothing is there", record(nil), held, nil, audit.EventUnknown, false},
		{"behind the end", record(func(r *audit.EventRecord) { r.EventSeq = 11 }), held, nil, audit.EventUnknown, false},
		{"no position is on record", record(func(r *audit.EventRecord) { r.EventSeq = 0 }), held, nil, audit.EventUnknown,
			false},
		{"no time is on record", record(func(r *audit.EventRecord) { r.StoredAt = time.Unix(0, 0) }), held, message,
			audit.EventUnknown, false},
		{"another tenant's", record(nil), held, other(func(m *audit.HeldEvent) { m.Tenant = "b" }), audit.EventDiffers,
			false},
		{"another id", record(nil), held, other(func(m *audit.HeldEvent) { m.EventID = "b" }), audit.EventDiffers, false},
		{"other data", record(nil), held, other(func(m *audit.HeldEvent) { m.DataDigest = "b" }), audit.EventDiffers, false},
		{"stored at another time", record(nil), held, other(func(m *audit.HeldEvent) { m.StoredAt = stored.Add(1) }),
			audit.EventDiffers, false},
		{"rejected: what it is of may not be known", record(func(r *audit.EventRecord) {
			r.Kind, r.EventID,
				r.DataDigest = "event.rejected", "", ""
		}), held, message, "", false},
		{"older than EVENTS keeps", record(nil), trimmed, nil, "", true},
		{"stored after what EVENTS still has", record(func(r *audit.EventRecord) { r.StoredAt = stored.Add(time.Hour) }),
			trimmed, nil, audit.EventUnknown, false},
		{"older than EVENTS, which was made anew", record(nil),
			audit.EventsHeld{Created: stored.Add(time.Hour), First: 1, Last: 10}, nil, "", true},
		{"older than EVENTS, which is as old as LEDGER", record(func(r *audit.EventRecord) {
			r.StoredAt = made.Add(-time.Hour)
		}), held, nil, audit.EventUnknown, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, beyond := audit.VouchEvent(tt.record, tt.held, tt.m)
			got := ""
			if found != nil {
				got = found.What
			}
			if got != tt.want || beyond != tt.beyond {
				t.Errorf("got %q, %v; want %q, %v", got, beyond, tt.want, tt.beyond)
			}
		})
	}
}

func TestWhatCLAIMSSaysOfAnAttempt(t *testing.T) {
	made := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	whole, cut := audit.ClaimsHeld{Since: made, Whole: true}, audit.ClaimsHeld{Since: made}
	later := made.Add(time.Hour)
	tests := []struct {
		name    string
		record  audit.AttemptRecord
		held    audit.ClaimsHeld
		claimed bool
		found   bool
		beyond  bool
	}{
		{"claimed", audit.AttemptRecord{At: later}, whole, true, false, false},
		{"not claimed", audit.AttemptRecord{At: later}, whole, false, true, false},
		{"not claimed, and CLAIMS has forgotten older ones", audit.AttemptRecord{At: later}, cut, false, true, false},
		{"older than what CLAIMS has", audit.AttemptRecord{At: made.Add(time.Minute)}, cut, false, false, true},
		{"dated back, of a LEDGER that is no older than CLAIMS",
			audit.AttemptRecord{At: made.Add(-time.Hour), Epoch: made.UnixNano()}, whole, false, true, false},
		{"older than CLAIMS, which was made anew", audit.AttemptRecord{At: made.Add(-time.Hour),
			Epoch: made.Add(-48 * time.Hour).UnixNano()}, whole, false, false, true},
		{"unknown, put on record long after it began", audit.AttemptRecord{At: later, StartedAt: made.Add(-time.Hour),
			Outcome: "unknown"}, cut, false, false, true},
		{"unknown, and begun since", audit.AttemptRecord{At: later, StartedAt: later, Outcome: "unknown"}, cut, false, true,
			false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, beyond := audit.VouchAttempt(tt.record, tt.held, tt.claimed)
			if (found != nil) != tt.found || beyond != tt.beyond {
				t.Errorf("got %+v, %v", found, beyond)
			}
		})
	}
}
