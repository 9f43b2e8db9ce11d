package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/health"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// ExamineOptions say what to look at.
type ExamineOptions struct {
	JS         jetstream.JetStream
	Partitions int
	Limits     Limits // Optional: DefaultLimits
	// Sync is the NATS server's setting: "always", a duration, or "" when it is
	// not known.
	Sync string
	// ReadFor bounds the reading of LEDGER. Optional: a minute.
	ReadFor time.Duration
}

// electionPatience is how long doctor waits for a leader: an election takes some
// seconds and is no finding.
const electionPatience = 10 * time.Second

// Examine looks at a running deployment once. It needs no watchdog, and changes
// nothing. What does not answer is a finding of its own beside all others.
func Examine(ctx context.Context, o ExamineOptions) []health.Check {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.ReadFor == 0 {
		o.ReadFor = time.Minute
	}
	// What was seen before is read before what is there now is looked at: what a
	// stream has come to since is then no loss, however long the rest takes.
	marks := map[string]history{}
	before := newAsker(askBound, electionPatience)
	before.now(ctx, watchdogMarks, "", func(ctx context.Context) error {
		_, err := status(ctx, o.JS, streams.StatusMarks, &marks)
		return err
	})
	snapshot, err := Look(ctx, o.JS, LookOptions{Partitions: o.Partitions, Patience: electionPatience})
	if err != nil {
		return []health.Check{{Name: "JetStream", State: health.Wrong, Code: string(NATSUnreachable),
			Detail: "it does not answer: " + err.Error(),
			Next: "see that most of the NATS servers run and that their JetStream is on: their logs, and " +
				"docs/operations.md, A stream has no leader"}}
	}
	snapshot.recall(marks)
	snapshot.Host = hostname()
	snapshot.Policies = 1 // what cannot be read is said as such
	var unwatched bool
	var unreadable [2][]string
	ask := newAsker(listBound, electionPatience)
	ask.about(ctx, "the registry", streams.EndpointsStream, func(ctx context.Context) (err error) {
		snapshot.Endpoints, unreadable[0], err = countEndpoints(ctx, o.JS)
		return err
	})
	ask.about(ctx, policiesRead, streams.ChannelsStream, func(ctx context.Context) error {
		n, bad, err := countPolicies(ctx, o.JS)
		if err == nil {
			snapshot.Policies, unreadable[1] = n, bad
		}
		return err
	})
	ask.about(ctx, watchdogLease, "", func(ctx context.Context) (err error) {
		unwatched, err = absent(ctx, o.JS, streams.WatchdogLease)
		return err
	})
	silent, _ := ask.wait()
	silent = append(silent, before.silent...)
	snapshot.Unreadable = slices.Concat(unreadable[0], unreadable[1])
	more := registryFindings(silent)
	bounded, cancel := context.WithTimeout(ctx, o.ReadFor)
	defer cancel()
	if snapshot.silent(streams.Ledger) {
		cancel() // nothing to be read
	} else if snapshot.Debts, err = ReadOutstanding(bounded, o.JS, o.Limits); err != nil {
		more = append(more, Finding{WatchdogBehind, Warning, "", err.Error(), "run doctor again when there is less to do"})
	}
	lookAgain(ctx, o.JS, snapshot.Consumers)
	found := append(Judge(snapshot, o.Limits), more...)
	snapshot.Silent = append(snapshot.Silent, silent...)
	return append(checks(snapshot, found), stageChecks(snapshot, unwatched, o.Sync)...)
}

// registryFindings says what of the registry could not be read.
func registryFindings(silent []Silence) (out []Finding) {
	for _, q := range silent {
		f := Finding{NotAnswering, Wrong, q.What, "it does not answer: " + q.Err.Error(),
			"see that every NATS server runs, and their logs"}
		if q.Stream != "" {
			f.Code, f.Next = RegistryUnread, "waybill streams apply; then look at the NATS server's log"
		}
		out = append(out, f)
	}
	return out
}

func countEndpoints(ctx context.Context, js jetstream.JetStream) (n int, unreadable []string, err error) {
	s, err := registry.OpenStore(ctx, js)
	if err != nil {
		return 0, nil, err
	}
	if unreadable, err = s.Unreadable(ctx); err != nil {
		return 0, nil, err
	}
	all, err := s.List(ctx, "", false)
	return len(all), unreadable, err
}

func countPolicies(ctx context.Context, js jetstream.JetStream) (n int, unreadable []string, err error) {
	channels, bad, err := listed(ctx, js, channel.Registry())
	if err != nil {
		return 0, nil, err
	}
	policies, worse, err := listed(ctx, js, escalation.Policies())
	return reachable(policies, channelExists(channels)), append(bad, worse...), err
}

func listed[T any](ctx context.Context, js jetstream.JetStream, kind revision.Kind[T]) (all []T, unreadable []string,
	err error) {
	s, err := revision.Open(ctx, js, kind)
	if err != nil {
		return nil, nil, err
	}
	if unreadable, err = s.Unreadable(ctx); err != nil {
		return nil, nil, err
	}
	all, err = s.List(ctx)
	return all, unreadable, err
}

// ReadDebts reads LEDGER to its end, as the watchdog does, and says what is owed.
func ReadOutstanding(ctx context.Context, js jetstream.JetStream, l Limits) (Outstanding, error) {
	s, err := js.Stream(ctx, streams.Ledger)
	if err != nil {
		return Outstanding{}, fmt.Errorf("stream %s: %w", streams.Ledger, err)
	}
	now := time.Now()
	head := s.CachedInfo().State.LastSeq
	next, err := beginAt(ctx, js, s.CachedInfo())
	if err != nil {
		return Outstanding{}, err
	}
	owed := newObligations()
	survey := func() Outstanding { d, _ := owed.survey(true, l.Overdue, now); return d }
	if next > head {
		return survey(), nil
	}
	c, err := js.OrderedConsumer(ctx, streams.Ledger, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(next, 1), InactiveThreshold: time.Minute})
	if err != nil {
		return Outstanding{}, fmt.Errorf("reading %s: %w", streams.Ledger, err)
	}
	messages, err := c.Messages(jetstream.PullMaxMessages(readBatch))
	if err != nil {
		return Outstanding{}, fmt.Errorf("reading %s: %w", streams.Ledger, err)
	}
	defer messages.Stop()
	for next <= head {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) {
			return survey(), fmt.Errorf("LEDGER could be read only up to %d of %d in time; what follows is not known", next,
				head)
		}
		if err != nil {
			return Outstanding{}, fmt.Errorf("reading %s: %w", streams.Ledger, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return Outstanding{}, err
		}
		next = meta.Sequence.Stream + 1
		owed.takeMessage(m.Data(), meta.Sequence.Stream)
	}
	d := survey()
	if asked := owed.unsure(); len(asked) > 0 {
		ended, err := askLedger(ctx, js, asked)
		if err != nil {
			return d, fmt.Errorf("whether %s again had ended before is not settled yet: %w",
				text.Count(len(asked), "delivery that was stated", "deliveries that were stated"), err)
		}
		owed.answer(asked, ended)
		d = survey()
	}
	return d, nil
}

// checks turn findings into one line for each thing that is looked at.
func checks(s Snapshot, found []Finding) []health.Check {
	lag := "ClickHouse has every record"
	if s.Sink.Lacking > 0 {
		lag = fmt.Sprintf("ClickHouse lacks %s, the oldest of %s ago", text.Count(s.Sink.Lacking, "record", "records"),
			s.At.Sub(s.Sink.Oldest).Round(time.Millisecond))
	}
	ledger := []string{streams.Ledger}
	lines := []struct {
		name  string
		ok    string
		needs []string // what must answer for ok to be known; nil: everything that has a stream
		codes []Code
	}{
		{"answers", "everything that was asked answers", []string{}, []Code{NotAnswering}},
		{"replicas", replicas(s), []string{}, []Code{StreamLeaderless, ReplicaGone}},
		{"streams", "as this version needs them", nil, []Code{StreamsDrifted}},
		{"registry", text.Count(s.Endpoints, "endpoint", "endpoints"), []string{}, []Code{RegistryUnread, EntryUnreadable}},
		{"consumers", "each takes what there is", nil, []Code{ConsumerMissing, ConsumerStalled}},
		{"ledger-sink", lag, append(ledger, sinkPosition), []Code{SinkBehind, LedgerFilling}},
		{"completeness", held(s), append(watched(), watchdogMarks),
			[]Code{MessagesMissing, MessagesRemoved, StreamRewound, ClaimsForgotten}},
		{"deliveries", fmt.Sprintf("%d without a verdict, none of them late", s.Debts.Open), ledger,
			[]Code{PastDeadline, DeliveryOverdue, WatchdogBehind}},
		{"dead letters", text.Count(s.Debts.Untold, "waits", "wait") + " for people to be told, none too long", ledger,
			[]Code{NotEscalated}},
		{"people", fmt.Sprintf("escalation policies that name somebody: %d", s.Policies),
			[]string{streams.ChannelsStream, policiesRead}, []Code{NobodyToTell}},
		{"escalator", "one tells people", []string{escalatorLease}, []Code{EscalatorAbsent}},
		{"clock", "as the NATS server's", ledger, []Code{ClockOffset, ClockJumped}},
	}
	var out []health.Check
	for _, l := range lines {
		n := 0
		for _, f := range found {
			if slices.Contains(l.codes, f.Code) {
				out = append(out, checkOf(l.name, f))
				n++
			}
		}
		if n > 0 {
			continue
		}
		if unknown := s.unanswered(l.needs); unknown != "" {
			out = append(out, health.Check{Name: l.name, State: health.Warned, Code: string(NotAnswering),
				Detail: "not known: " + unknown, Next: "run doctor again when that answers"})
			continue
		}
		out = append(out, health.Check{Name: l.name, State: health.OK, Detail: l.ok})
	}
	return out
}

// unanswered says which of what is needed did not answer; "": all of it did. nil
// stands for every stream and consumer.
func (s Snapshot) unanswered(needs []string) string {
	for _, q := range s.Silent {
		if needs == nil && q.Stream != "" || slices.Contains(needs, q.What) || slices.Contains(needs, q.Stream) {
			return q.What + " does not answer"
		}
	}
	return ""
}

func (s Snapshot) silent(what string) bool { return s.unanswered([]string{what}) != "" }

func checkOf(name string, f Finding) health.Check {
	c := health.Check{Name: name, State: health.Wrong, Code: string(f.Code), Detail: f.Detail, Next: f.Next}
	if f.Severity == Warning {
		c.State = health.Warned
	}
	if f.Subject != "" {
		c.Detail = f.Subject + ": " + f.Detail
	}
	return c
}

func replicas(s Snapshot) string {
	if len(s.Replicas) == 0 {
		return "one NATS server holds each stream"
	}
	return "each stream has a leader, and its copies are level"
}

func held(s Snapshot) string {
	var parts []string
	for _, st := range s.Streams {
		parts = append(parts, fmt.Sprintf("%s holds %s without a gap", st.Name,
			text.Count(st.Messages, "message", "messages")))
	}
	return strings.Join(parts, "; ")
}

// stageChecks are about who is there at this moment.
func stageChecks(s Snapshot, unwatched bool, sync string) []health.Check {
	var idle []string
	for _, c := range s.Consumers {
		if c.idle() {
			idle = append(idle, c.Name())
		}
	}
	stages := health.Check{Name: "stages", State: health.OK,
		Detail: text.Count(len(s.Consumers), "consumer is", "consumers are") + " served"}
	if len(s.Consumers) == 0 {
		stages.State, stages.Detail, stages.Next = health.Wrong, "no consumer answers",
			"see that the NATS servers run, and their logs"
	}
	if len(idle) > 0 {
		stages.State, stages.Detail = health.Wrong, "nobody asks for work at "+strings.Join(idle, ", ")
		stages.Next = "start the stages behind them: fanout, dispatcher, escalator"
	}
	dog := health.Check{Name: "watchdog", State: health.OK, Detail: "one watches"}
	if s.silent(watchdogLease) {
		dog = health.Check{Name: "watchdog", State: health.Warned, Code: string(NotAnswering),
			Detail: "not known: " + watchdogLease + " does not answer", Next: "run doctor again when that answers"}
	}
	if unwatched {
		dog.State, dog.Detail, dog.Next = health.Wrong, "none runs: what falls silent is not noticed", "start one: watchdog"
	}
	return []health.Check{stages, dog, syncCheck(sync)}
}

func syncCheck(sync string) health.Check {
	c := health.Check{Name: "sync", State: health.OK, Detail: "the NATS server syncs before it acknowledges"}
	switch sync {
	case "always":
	case "":
		c.State, c.Code, c.Detail = health.Warned, string(WeakSync),
			"how the NATS server syncs is not known: its default loses what it acknowledged in the last two minutes "+
				"before a power cut"
		c.Next = "say where its monitoring answers: waybill doctor --nats-monitor http://127.0.0.1:8222"
	default:
		c.State, c.Code, c.Detail = health.Warned, string(WeakSync),
			"the NATS server syncs every "+sync+": a power cut loses what it acknowledged since"
		c.Next = "sync_interval: always in the server's jetstream block, or waybill up --sync always"
	}
	return c
}
