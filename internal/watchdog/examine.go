package watchdog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/channel"
	"github.com/waybill-dev/waybill/internal/counted"
	"github.com/waybill-dev/waybill/internal/escalation"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/internal/revision"
	"github.com/waybill-dev/waybill/streams"
)

// State of a check.
type State string

// The states.
const (
	OK      State = "ok"
	Warned  State = "warning"
	IsWrong State = "wrong"
)

// Check is one line of what doctor says.
type Check struct {
	Name   string `json:"check"`
	State  State  `json:"state"`
	Code   Code   `json:"code,omitempty"` // of the finding
	Detail string `json:"detail"`
	Next   string `json:"next,omitempty"` // what to do
}

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

// Examine looks at a running deployment once. It needs no watchdog, and changes
// nothing.
func Examine(ctx context.Context, o ExamineOptions) ([]Check, error) {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.ReadFor == 0 {
		o.ReadFor = time.Minute
	}
	// What was seen before is read before what is there now is looked at: what a
	// stream has come to since is then no loss, however long the rest takes.
	marks := map[string]history{}
	if _, err := status(ctx, o.JS, streams.StatusMarks, &marks); err != nil {
		return nil, err
	}
	sight, err := Look(ctx, o.JS, o.Partitions)
	if err != nil {
		return nil, err
	}
	sight.recall(marks)
	sight.Host = hostname()
	var more []Finding
	if sight.Endpoints, err = countEndpoints(ctx, o.JS); err != nil {
		more = append(more, Finding{RegistryUnread, Wrong, "", err.Error(), "waybill streams apply; then look at the NATS server's log"})
	}
	if sight.Policies, err = countPolicies(ctx, o.JS); err != nil {
		more = append(more, Finding{RegistryUnread, Wrong, "channels and policies", err.Error(), "waybill streams apply; then look at the NATS server's log"})
		sight.Policies = 1
	}
	bounded, cancel := context.WithTimeout(ctx, o.ReadFor)
	defer cancel()
	if sight.Debts, err = ReadDebts(bounded, o.JS, o.Limits); err != nil {
		more = append(more, Finding{WatchdogBehind, Warning, "", err.Error(), "run doctor again when there is less to do"})
	}
	unwatched, err := absent(ctx, o.JS, streams.WatchdogLease)
	if err != nil {
		return nil, err
	}
	if err := lookAgain(ctx, o.JS, sight.Consumers); err != nil {
		return nil, err
	}
	found := append(Judge(sight, o.Limits), more...)
	return append(checks(sight, found), stageChecks(sight, unwatched, o.Sync)...), nil
}

func countEndpoints(ctx context.Context, js jetstream.JetStream) (int, error) {
	s, err := registry.OpenStore(ctx, js)
	if err != nil {
		return 0, err
	}
	all, err := s.List(ctx, "", false)
	return len(all), err
}

func countPolicies(ctx context.Context, js jetstream.JetStream) (int, error) {
	cs, err := revision.Open(ctx, js, channel.Registry())
	if err != nil {
		return 0, err
	}
	channels, err := cs.List(ctx)
	if err != nil {
		return 0, err
	}
	ps, err := revision.Open(ctx, js, escalation.Policies())
	if err != nil {
		return 0, err
	}
	policies, err := ps.List(ctx)
	return reachable(policies, channelExists(channels)), err
}

// ReadDebts reads LEDGER to its end, as the watchdog does, and says what is owed.
func ReadDebts(ctx context.Context, js jetstream.JetStream, l Limits) (Debts, error) {
	s, err := js.Stream(ctx, streams.Ledger)
	if err != nil {
		return Debts{}, fmt.Errorf("stream %s: %w", streams.Ledger, err)
	}
	now := time.Now()
	head := s.CachedInfo().State.LastSeq
	next, err := beginAt(ctx, js, s.CachedInfo())
	if err != nil {
		return Debts{}, err
	}
	owed := newObligations()
	survey := func() Debts { d, _ := owed.survey(true, l.Overdue, now); return d }
	if next > head {
		return survey(), nil
	}
	c, err := js.OrderedConsumer(ctx, streams.Ledger, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(next, 1), InactiveThreshold: time.Minute})
	if err != nil {
		return Debts{}, fmt.Errorf("reading %s: %w", streams.Ledger, err)
	}
	messages, err := c.Messages(jetstream.PullMaxMessages(readBatch))
	if err != nil {
		return Debts{}, fmt.Errorf("reading %s: %w", streams.Ledger, err)
	}
	defer messages.Stop()
	for next <= head {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) {
			return survey(), fmt.Errorf("LEDGER could be read only up to %d of %d in time; what follows is not known", next, head)
		}
		if err != nil {
			return Debts{}, fmt.Errorf("reading %s: %w", streams.Ledger, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return Debts{}, err
		}
		next = meta.Sequence.Stream + 1
		owed.takeMessage(m.Data(), meta.Sequence.Stream)
	}
	d := survey()
	if asked := owed.unsure(); len(asked) > 0 {
		ended, err := askLedger(ctx, js, asked)
		if err != nil {
			return d, fmt.Errorf("whether %s again had ended before is not settled yet: %w", counted.Of(len(asked), "delivery that was stated", "deliveries that were stated"), err)
		}
		owed.answer(asked, ended)
		d = survey()
	}
	return d, nil
}

// checks turn findings into one line for each thing that is looked at.
func checks(s Sight, found []Finding) []Check {
	lag := "ClickHouse has every record"
	if s.Sink.Lacking > 0 {
		lag = fmt.Sprintf("ClickHouse lacks %s, the oldest of %s ago", counted.Of(s.Sink.Lacking, "record", "records"), s.At.Sub(s.Sink.Oldest).Round(time.Millisecond))
	}
	lines := []struct {
		name  string
		ok    string
		codes []Code
	}{
		{"streams", "as this version needs them", []Code{StreamsDrifted}},
		{"registry", counted.Of(s.Endpoints, "endpoint", "endpoints"), []Code{RegistryUnread}},
		{"consumers", "each takes what there is", []Code{ConsumerMissing, ConsumerStalled}},
		{"ledger-sink", lag, []Code{SinkBehind, LedgerFilling}},
		{"completeness", held(s), []Code{MessagesMissing, MessagesRemoved, StreamRewound, ClaimsForgotten}},
		{"deliveries", fmt.Sprintf("%d without a verdict, none of them late", s.Debts.Open), []Code{PastDeadline, DeliveryOverdue, WatchdogBehind}},
		{"dead letters", counted.Of(s.Debts.Untold, "waits", "wait") + " for people to be told, none too long", []Code{NotEscalated}},
		{"people", fmt.Sprintf("escalation policies that name somebody: %d", s.Policies), []Code{NobodyToTell}},
		{"escalator", "one tells people", []Code{EscalatorAbsent}},
		{"clock", "as the NATS server's", []Code{ClockOffset, ClockJumped}},
	}
	var out []Check
	for _, l := range lines {
		n := 0
		for _, f := range found {
			for _, c := range l.codes {
				if f.Code == c {
					out = append(out, checkOf(l.name, f))
					n++
				}
			}
		}
		if n == 0 {
			out = append(out, Check{Name: l.name, State: OK, Detail: l.ok})
		}
	}
	return out
}

func checkOf(name string, f Finding) Check {
	c := Check{Name: name, State: IsWrong, Code: f.Code, Detail: f.Detail, Next: f.Next}
	if f.Severity == Warning {
		c.State = Warned
	}
	if f.Subject != "" {
		c.Detail = f.Subject + ": " + f.Detail
	}
	return c
}

func held(s Sight) string {
	var parts []string
	for _, st := range s.Streams {
		parts = append(parts, fmt.Sprintf("%s holds %s without a gap", st.Name, counted.Of(st.Messages, "message", "messages")))
	}
	return strings.Join(parts, "; ")
}

// stageChecks are about who is there at this moment.
func stageChecks(s Sight, unwatched bool, sync string) []Check {
	var idle []string
	for _, c := range s.Consumers {
		if c.idle() {
			idle = append(idle, c.Name())
		}
	}
	stages := Check{Name: "stages", State: OK, Detail: counted.Of(len(s.Consumers), "consumer is", "consumers are") + " served"}
	if len(idle) > 0 {
		stages.State, stages.Detail = IsWrong, "nobody asks for work at "+strings.Join(idle, ", ")
		stages.Next = "start the stages behind them: fanout, dispatcher, escalator"
	}
	dog := Check{Name: "watchdog", State: OK, Detail: "one watches"}
	if unwatched {
		dog.State, dog.Detail, dog.Next = IsWrong, "none runs: what falls silent is not noticed", "start one: watchdog"
	}
	return []Check{stages, dog, syncCheck(sync)}
}

func syncCheck(sync string) Check {
	c := Check{Name: "sync", State: OK, Detail: "the NATS server syncs before it acknowledges"}
	switch sync {
	case "always":
	case "":
		c.State, c.Code, c.Detail = Warned, WeakSync, "how the NATS server syncs is not known: its default loses what it acknowledged in the last two minutes before a power cut"
		c.Next = "say where its monitoring answers: waybill doctor --nats-monitor http://127.0.0.1:8222"
	default:
		c.State, c.Code, c.Detail = Warned, WeakSync, "the NATS server syncs every "+sync+": a power cut loses what it acknowledged since"
		c.Next = "sync_interval: always in the server's jetstream block, or waybill up --sync always"
	}
	return c
}
