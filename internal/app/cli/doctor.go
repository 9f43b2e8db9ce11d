package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
	"github.com/waybill-dev/waybill/internal/pipeline/watchdog"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// doctorBound covers everything but the reading of LEDGER.
	doctorBound = 90 * time.Second
	// checkBound is what each check beside those of the streams gets.
	checkBound = 20 * time.Second
	// monitorBound is what the NATS server's monitoring gets to answer.
	monitorBound = 3 * time.Second
	// readyBound is what /readyz gets: it asks ClickHouse, which may hang.
	readyBound = 15 * time.Second
	// maxReady bounds what is read of its answer.
	maxReady = 4096
)

type doctorFlags struct {
	target     target
	out        format
	partitions int
	monitor    string
	readFor    time.Duration
}

func doctorCommand(s stdio) *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use: "doctor", Short: "Look at a running deployment and say what is wrong",
		Long: `Look at a running deployment and say what is wrong, and what to do about it:
streams, registry, stages, lags, gaps, overdue deliveries, dead letters that nobody
was told of, whom to tell, clocks, durability, and, where ClickHouse can be asked as
the auditor, whether records could be changed. It changes nothing, and needs NATS
alone. Exit status 1 when something is wrong; a warning is not.
docs/watchdog.md explains each code.`,
		Example: `  waybill doctor
  waybill doctor --nats-url nats://nats.internal:4222 --nats-monitor http://nats.internal:8222 -o json`,
		Args: process.NoArgs,
	}
	f.target.bind(c.Flags())
	f.out.bind(c.Flags())
	c.Flags().IntVar(&f.partitions, "partitions", 0,
		"partitions of DELIVERIES and RETRY (default: as many as the server has, or 1)")
	c.Flags().StringVar(&f.monitor, "nats-monitor", "",
		"address of the NATS server's monitoring, to see how it syncs (default: as waybill up says)")
	c.Flags().DurationVar(&f.readFor, "read-for", time.Minute, "longest time to read LEDGER for what is owed")
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c.Context(), s) }
	return c
}

func (f *doctorFlags) run(ctx context.Context, s stdio) error {
	if err := f.check(); err != nil {
		return err
	}
	checks, err := f.examine(ctx)
	if err != nil {
		return err
	}
	if f.out == "json" {
		err = printJSON(s.out, checks)
	} else {
		err = printChecks(s, f.out, checks)
	}
	if err != nil {
		return err
	}
	wrong := 0
	for _, c := range checks {
		if c.State == watchdog.IsWrong {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %s wrong; what to do stands beside each", wrong,
			text.Count(len(checks), "check is", "checks are"))
	}
	return nil
}

func (f *doctorFlags) check() error {
	if f.partitions < 0 || f.partitions > 100 {
		return process.Usagef("--partitions %d: want 1 to 100", f.partitions)
	}
	if f.readFor <= 0 {
		return process.Usagef("--read-for %s: want more than 0s", f.readFor)
	}
	if u, err := url.Parse(f.monitor); f.monitor != "" &&
		(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return process.Usagef("--nats-monitor %q: want an address such as http://127.0.0.1:8222", f.monitor)
	}
	return f.out.check()
}

func (f *doctorFlags) examine(ctx context.Context) ([]watchdog.Check, error) {
	nc, js, err := f.target.connectNATS(ctx)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, doctorBound+f.readFor)
	defer cancel()
	sync, unseen := f.sync(ctx)
	checks := watchdog.Examine(ctx, watchdog.ExamineOptions{JS: js, Partitions: f.partitionsOf(ctx, js), Sync: sync,
		ReadFor: f.readFor})
	checks = append(checks, unseen...)
	onRecord := func(ctx context.Context) []watchdog.Check { return f.onRecord(ctx, js) }
	for _, look := range []func(context.Context) []watchdog.Check{f.readiness, f.custody, f.contents, onRecord} {
		bounded, cancel := context.WithTimeout(ctx, checkBound)
		checks = append(checks, look(bounded)...)
		cancel()
	}
	return checks, nil
}

// partitionsOf are those of the flag, or else as many as the server has. What
// does not answer now is said by each check that needs it.
func (f *doctorFlags) partitionsOf(ctx context.Context, js jetstream.JetStream) int {
	if f.partitions > 0 {
		return f.partitions
	}
	bounded, cancel := context.WithTimeout(ctx, monitorBound)
	defer cancel()
	n, err := streams.ChoosePartitions(bounded, js, 0)
	if err != nil {
		return 1
	}
	return n
}

// readiness asks the running waybill up whether it can work: it knows what the
// streams do not show, such as secrets that do not open.
func (f *doctorFlags) readiness(ctx context.Context) []watchdog.Check {
	a, _, err := f.target.read()
	if err != nil || f.target.natsURL != "" || a.HTTP == "" {
		return nil
	}
	c := watchdog.Check{Name: "waybill up", State: watchdog.OK, Detail: "it can work"}
	ctx, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	answer, err := getReady(ctx, "http://"+a.HTTP+"/readyz")
	if err != nil {
		answer = err.Error()
	}
	if answer != "" {
		c = watchdog.Check{Name: c.Name, State: watchdog.IsWrong, Code: "not_ready", Detail: answer,
			Next: "docs/operations.md, A program is not ready"}
	}
	return []watchdog.Check{c}
}

// getReady returns what is not ready.
func getReady(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReady))
	if err != nil || resp.StatusCode == http.StatusOK {
		return "", err
	}
	return strings.ReplaceAll(strings.TrimSpace(string(body)), "\n", "; "), nil
}

// custody asks ClickHouse, as an auditor, whether what was recorded could be
// changed. Without an address there is nothing to ask.
func (f *doctorFlags) custody(ctx context.Context) []watchdog.Check {
	const name = "ledger custody"
	db, err := f.target.openAs(roles.Auditor)
	if err != nil {
		return nil
	}
	defer db.Close()
	found, err := db.Weaknesses(ctx)
	switch {
	case errors.Is(err, ledger.ErrUnavailable):
		return []watchdog.Check{{Name: name, State: watchdog.IsWrong, Code: "ledger_not_seen",
			Detail: "ClickHouse does not answer: " + err.Error(),
			Next:   "see that ClickHouse runs, and its log; LEDGER keeps the records meanwhile, and deliveries go on"}}
	case err != nil:
		return []watchdog.Check{{Name: name, State: watchdog.Warned, Code: "ledger_not_seen", Detail: err.Error(),
			Next: "ask as the auditor: --clickhouse clickhouse://auditor:PASSWORD@host:9000/waybill"}}
	}
	if len(found) == 0 {
		return []watchdog.Check{{Name: name, State: watchdog.OK,
			Detail: "nobody but who must may change a record, and nobody did"}}
	}
	var out []watchdog.Check
	for _, w := range found {
		out = append(out, watchdog.Check{Name: name, State: watchdog.IsWrong, Code: watchdog.Code(w.Code), Detail: w.Detail,
			Next: w.Next})
	}
	return out
}

// sync asks how the NATS server makes what it stored safe; "" is not known.
func (f *doctorFlags) sync(ctx context.Context) (string, []watchdog.Check) {
	if f.monitor == "" {
		a, _, err := f.target.read()
		if err != nil || f.target.natsURL != "" {
			return "", nil // not started by waybill up
		}
		return a.Sync, nil
	}
	sync, err := askSync(ctx, f.monitor)
	if err != nil {
		return "", []watchdog.Check{{Name: "NATS monitoring", State: watchdog.IsWrong, Code: watchdog.NotAnswering,
			Detail: "it does not answer: " + err.Error(),
			Next:   "give the address where it does: --nats-monitor http://127.0.0.1:8222"}}
	}
	return sync, nil
}

func askSync(ctx context.Context, monitor string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, monitorBound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(monitor, "/")+"/jsz", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		Config struct {
			Always   bool          `json:"sync_always"`
			Interval time.Duration `json:"sync_interval"`
		} `json:"config"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answered %s, and not what NATS answers", monitor, resp.Status)
	}
	switch {
	case answer.Config.Always:
		return "always", nil
	case answer.Config.Interval > 0:
		return answer.Config.Interval.String(), nil
	}
	return "", nil
}

func printChecks(s stdio, out format, checks []watchdog.Check) error {
	t := table{header: []string{"CHECK", "STATE", "DETAIL"}, flow: true}
	for _, c := range checks {
		t.add(c.Name, string(c.State), c.Detail)
		if c.State != watchdog.OK {
			t.note(strings.TrimSpace(string(c.Code) + " → " + c.Next))
		}
	}
	return t.show(s, out, "nothing was looked at")
}
