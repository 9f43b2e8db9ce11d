package watchdog

import (
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/health"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/streams"
)

// Severity of a finding.
type Severity string

// The severities. People are escalated to about both; doctor fails for Wrong.
const (
	Warning Severity = "warning"
	Wrong   Severity = "wrong"
)

// Code of a finding. Codes are stable: alerts, dashboards and records name them.
type Code string

// The codes. docs/watchdog.md says what each means.
const (
	PastDeadline    Code = "delivery_past_deadline"
	DeliveryOverdue Code = "delivery_overdue"
	NotEscalated    Code = "dead_letters_not_escalated"
	ConsumerStalled Code = "consumer_stalled"
	ConsumerMissing Code = "consumer_missing"
	SinkBehind      Code = "ledger_sink_behind"
	LedgerFilling   Code = "ledger_filling"
	MessagesMissing Code = "messages_missing"
	MessagesRemoved Code = "messages_removed"
	StreamRewound   Code = "stream_rewound"
	StreamsDrifted  Code = "streams_drifted"
	EscalatorAbsent Code = "escalator_absent"
	NobodyToTell    Code = "nobody_to_tell"
	RegistryUnread  Code = "registry_unreadable"
	ClockJumped     Code = "clock_jumped"
	ClockOffset     Code = "clock_offset"
	NATSUnreachable Code = "nats_unreachable"
	WatchdogBehind  Code = "watchdog_behind"
	WeakSync        Code = "sync_weaker_than_always"
	// What a cluster of NATS servers can lack while it goes on answering.
	StreamLeaderless Code = "stream_without_leader"
	ReplicaGone      Code = "replica_gone"
	NotAnswering     Code = health.NotAnswering
	// What is wrong with the registry's entries.
	EntryUnreadable Code = "registry_entry_unreadable"
)

// Finding is one thing that is not as it must be.
type Finding struct {
	Code     Code
	Severity Severity
	Subject  string // what it is about: a stream, a consumer. Empty: the whole
	Detail   string // for people: no payload, no secret
	Next     string // what to do
}

// Limits of what is taken for well.
type Limits struct {
	Stalled     time.Duration // a consumer that has something to do and does nothing
	SinkLag     time.Duration // age of the oldest record that ClickHouse does not have
	Overdue     time.Duration // an attempt is so long due, of a delivery without deadline
	Clock       time.Duration // jumps and differences
	Unreachable time.Duration // NATS
	Behind      time.Duration // the watchdog reads LEDGER
}

// DefaultLimits are wide enough for a restart of any one part.
func DefaultLimits() Limits {
	return Limits{Stalled: 2 * time.Minute, SinkLag: 2 * time.Minute, Overdue: 10 * time.Minute, Clock: 2 * time.Second,
		Unreachable: 30 * time.Second, Behind: time.Minute}
}

// filling is the part of a stream's limit from which on it is an alarm.
const filling = 0.8

// Judge says what is wrong with what was seen. Pure.
func Judge(s Snapshot, l Limits) []Finding {
	var out []Finding
	out = append(out, judgeSilence(s)...)
	out = append(out, judgeReplicas(s)...)
	out = append(out, judgeEntries(s)...)
	out = append(out, judgeDebts(s, l)...)
	for _, c := range s.Consumers {
		out = append(out, judgeConsumer(c, s.At, l)...)
	}
	for _, st := range s.Streams {
		out = append(out, judgeStream(st)...)
	}
	out = append(out, judgeClaims(s.Claims, s.At)...)
	out = append(out, judgeSink(s, l)...)
	for _, c := range s.Drift {
		out = append(out, Finding{StreamsDrifted, Wrong, c, "it is not as this version needs it", "waybill streams apply"})
	}
	out = append(out, judgePeople(s)...)
	return append(out, judgeClock(s, l)...)
}

func judgeDebts(s Snapshot, l Limits) (out []Finding) {
	d := s.Debts
	if d.PastDeadline > 0 {
		out = append(out, Finding{PastDeadline, Wrong, "", text.Count(d.PastDeadline,
			"delivery has no verdict though its attempts", "deliveries have no verdict though their attempts") +
			" should have ended; people are told of each",
			"see that dispatchers run: waybill delivery list --state pending"})
	}
	if d.Overdue > 0 {
		out = append(out, Finding{DeliveryOverdue, Wrong, "", fmt.Sprintf("%s for an attempt that was due more than %s "+
			"ago; the longest for %s", text.Count(d.Overdue, "delivery waits", "deliveries wait"), l.Overdue,
			d.OldestOverdue.Round(time.Second)),
			"see that the endpoints answer (one that keeps failing gets probes alone), and that dispatchers run and keep up: " +
				"waybill delivery list --state pending"})
	}
	if d.UntoldLate > 0 {
		out = append(out, Finding{NotEscalated, Wrong, "", fmt.Sprintf("of %s nobody was told in time",
			text.Count(d.UntoldLate, "dead letter or rejected event", "dead letters or rejected events")),
			"waybill escalation list --state open, then waybill escalation show says what each channel answered; mend it: " +
				"waybill channel test"})
	}
	if s.Behind > l.Behind {
		out = append(out, Finding{WatchdogBehind, Warning, "",
			fmt.Sprintf("the watchdog has read LEDGER only up to %s ago", s.Behind.Round(time.Second)),
			"give it processor time; until it is level, it tells of nothing"})
	}
	return out
}

func judgeConsumer(c Consumer, now time.Time, l Limits) []Finding {
	if c.Missing {
		return []Finding{{ConsumerMissing, Wrong, c.Name(), "it is not there: nobody takes what waits",
			"waybill streams apply"}}
	}
	waiting, kind := c.Pending, "not taken"
	oldest, last := c.OldestPending, c.LastTaken
	// What is handed back with a delay waits in RETRY by design.
	if waiting == 0 && c.Stream != streams.Retry && c.Redelivered > 0 {
		waiting, kind = uint64(c.Redelivered), "taken again and again"
		oldest, last = c.OldestUnsettled, c.LastSettled
	}
	if waiting == 0 || oldest.IsZero() || now.Sub(oldest) < l.Stalled || now.Sub(last) < l.Stalled {
		return nil
	}
	who := "somebody asks for work"
	if c.Asking == 0 {
		who = "nobody asks for work"
	}
	return []Finding{{ConsumerStalled, Wrong, c.Name(), fmt.Sprintf("%s %s, the oldest for %s; %s",
		text.Count(waiting, "message is", "messages are"), kind, now.Sub(oldest).Round(time.Second), who),
		"see that the stage behind it runs, and its log"}}
}

func judgeStream(s Stream) (out []Finding) {
	if s.Missing {
		return nil // the drift says so
	}
	if s.Deleted > 0 {
		out = append(out, Finding{MessagesMissing, Wrong, s.Name, fmt.Sprintf("%s gone (sequences %d to %d hold %d)",
			text.Count(s.Deleted, "message within it is", "messages within it are"), s.First, s.Last, s.Messages),
			"the disk lost them or somebody deleted them: check the disk and who may call JetStream's API, then restore"})
	}
	if s.Removed > 0 {
		out = append(out, Finding{MessagesRemoved, Wrong, s.Name,
			text.Count(s.Removed, "message was", "messages were") + " removed before their time",
			"somebody purged it or changed its limits: waybill streams check, and check who may call JetStream's API"})
	}
	if s.Rewound {
		out = append(out, Finding{StreamRewound, Wrong, s.Name,
			fmt.Sprintf("it ends at %d, before where it was seen to end, or was made anew", s.Last),
			"a power cut or a restore took its tail: events published in between must be published again"})
	}
	if s.MaxBytes > 0 && float64(s.Bytes) > filling*float64(s.MaxBytes) {
		out = append(out, Finding{LedgerFilling, Wrong, s.Name,
			fmt.Sprintf("%d %% of its room is used; once it is full, nothing is delivered", 100*s.Bytes/uint64(s.MaxBytes)),
			"see that the ledger-sink and ClickHouse run"})
	}
	return out
}

func judgeSink(s Snapshot, l Limits) []Finding {
	if s.Sink.Oldest.IsZero() || s.At.Sub(s.Sink.Oldest) < l.SinkLag {
		return nil
	}
	return []Finding{{SinkBehind, Wrong, "", fmt.Sprintf("ClickHouse lacks records from %s ago on, %d of them",
		s.At.Sub(s.Sink.Oldest).Round(time.Second), s.Sink.Lacking),
		"see that the ledger-sink and ClickHouse run, and their logs; nothing is lost meanwhile"}}
}

func judgePeople(s Snapshot) (out []Finding) {
	if s.Policies == 0 {
		out = append(out, Finding{NobodyToTell, Wrong, "", "no escalation policy names anybody: dead letters reach no person",
			"waybill channel create, then waybill escalation-policy create"})
	}
	if s.NoEscalator {
		out = append(out, Finding{EscalatorAbsent, Wrong, "", "no escalator runs; the watchdog tells people instead",
			"start one: escalator"})
	}
	return out
}

func judgeClock(s Snapshot, l Limits) (out []Finding) {
	if abs(s.Jump) > l.Clock {
		out = append(out, Finding{ClockJumped, Warning, s.Host,
			fmt.Sprintf("this machine's clock jumped by %s", s.Jump.Round(time.Millisecond)),
			"keep clocks with NTP, slewed; deadlines and signatures depend on them"})
	}
	if abs(s.Offset) > l.Clock {
		out = append(out, Finding{ClockOffset, Wrong, s.Host, fmt.Sprintf("this machine's clock and that of the NATS "+
			"server differ by %s", s.Offset.Round(time.Millisecond)),
			"keep clocks with NTP; deadlines and signatures depend on them"})
	}
	return out
}

func abs(d time.Duration) time.Duration { return max(d, -d) }
