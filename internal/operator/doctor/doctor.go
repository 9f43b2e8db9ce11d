// Package doctor looks at a running deployment once and says what is wrong: the
// streams and stages, as the watchdog sees them, the program itself, the NATS
// server's settings, and, where ClickHouse can be asked, the ledger. It changes nothing.
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/health"
	"github.com/waybill-dev/waybill/internal/ledger"
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

// Doctor looks at one deployment.
type Doctor struct {
	JS jetstream.JetStream
	// Stages looks at what goes through the streams, as the watchdog does. sync is how
	// the NATS server makes what it stored safe; "" is not known.
	Stages func(ctx context.Context, partitions int, sync string) []health.Check
	// Ledger is asked as the auditor; nil: ClickHouse is not known.
	Ledger *ledger.DB
	// Partitions of DELIVERIES and RETRY; 0: as many as the server has.
	Partitions int
	// Monitor is where the NATS server's monitoring answers. Optional: Sync is then
	// what is known.
	Monitor, Sync string
	// HTTP is where a running waybill up answers. Optional.
	HTTP string
	// ReadFor is how long Stages may read LEDGER.
	ReadFor time.Duration
}

// Examine makes every check. What does not answer is a finding of its own beside all others.
func (d *Doctor) Examine(ctx context.Context) []health.Check {
	ctx, cancel := context.WithTimeout(ctx, doctorBound+d.ReadFor)
	defer cancel()
	sync, unseen := d.sync(ctx)
	checks := d.Stages(ctx, d.partitions(ctx), sync)
	checks = append(checks, unseen...)
	for _, look := range []func(context.Context) []health.Check{d.readiness, d.custody, d.contents, d.onRecord} {
		bounded, cancel := context.WithTimeout(ctx, checkBound)
		checks = append(checks, look(bounded)...)
		cancel()
	}
	return checks
}

// partitions are those that were given, or else as many as the server has. What
// does not answer now is said by each check that needs it.
func (d *Doctor) partitions(ctx context.Context) int {
	if d.Partitions > 0 {
		return d.Partitions
	}
	bounded, cancel := context.WithTimeout(ctx, monitorBound)
	defer cancel()
	n, err := streams.ChoosePartitions(bounded, d.JS, 0)
	if err != nil {
		return 1
	}
	return n
}

// readiness asks the running waybill up whether it can work: it knows what the
// streams do not show, such as secrets that do not open.
func (d *Doctor) readiness(ctx context.Context) []health.Check {
	if d.HTTP == "" {
		return nil
	}
	c := health.Check{Name: "waybill up", State: health.OK, Detail: "it can work"}
	ctx, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	answer, err := getReady(ctx, "http://"+d.HTTP+"/readyz")
	if err != nil {
		answer = err.Error()
	}
	if answer != "" {
		c = health.Check{Name: c.Name, State: health.Wrong, Code: "not_ready", Detail: answer,
			Next: "docs/operations.md, A program is not ready"}
	}
	return []health.Check{c}
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
// changed. Without a ledger there is nothing to ask.
func (d *Doctor) custody(ctx context.Context) []health.Check {
	const name = "ledger custody"
	if d.Ledger == nil {
		return nil
	}
	found, err := d.Ledger.Weaknesses(ctx)
	switch {
	case errors.Is(err, ledger.ErrUnavailable):
		return []health.Check{{Name: name, State: health.Wrong, Code: "ledger_not_seen",
			Detail: "ClickHouse does not answer: " + err.Error(),
			Next:   "see that ClickHouse runs, and its log; LEDGER keeps the records meanwhile, and deliveries go on"}}
	case err != nil:
		return []health.Check{{Name: name, State: health.Warned, Code: "ledger_not_seen", Detail: err.Error(),
			Next: "ask as the auditor: --clickhouse clickhouse://auditor:PASSWORD@host:9000/waybill"}}
	}
	if len(found) == 0 {
		return []health.Check{{Name: name, State: health.OK,
			Detail: "nobody but who must may change a record, and nobody did"}}
	}
	var out []health.Check
	for _, w := range found {
		out = append(out, health.Check{Name: name, State: health.Wrong, Code: w.Code, Detail: w.Detail, Next: w.Next})
	}
	return out
}

// sync asks how the NATS server makes what it stored safe; "" is not known.
func (d *Doctor) sync(ctx context.Context) (string, []health.Check) {
	if d.Monitor == "" {
		return d.Sync, nil
	}
	sync, err := askSync(ctx, d.Monitor)
	if err != nil {
		return "", []health.Check{{Name: "NATS monitoring", State: health.Wrong, Code: health.NotAnswering,
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
