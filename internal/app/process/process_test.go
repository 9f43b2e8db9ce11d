package process_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
)

func tree(ran *[]string, wait *time.Duration) *cobra.Command {
	root := &cobra.Command{Use: "waybill"}
	sub := &cobra.Command{Use: "send", RunE: func(*cobra.Command, []string) error {
		*ran = append(*ran, "send")
		return nil
	}}
	sub.Flags().DurationVar(wait, "max-wait", time.Second, "how long")
	fail := &cobra.Command{Use: "fail", RunE: func(*cobra.Command, []string) error { return errors.New("two\nlines") }}
	wrong := &cobra.Command{Use: "wrong", RunE: func(*cobra.Command,
		[]string) error {
		return process.Usagef("--x %d: too much", 9)
	}}
	root.AddCommand(sub, fail, wrong)
	return root
}

func TestExitStatusAndMessage(t *testing.T) {
	for _, c := range []struct {
		name, args, env string
		status          int
		stderr          string
		wait            time.Duration
	}{
		{"a command that works", "send", "", 0, "", time.Second},
		{"a flag is taken", "send --max-wait 3s", "", 0, "", 3 * time.Second},
		{"a flag is taken from the environment", "send", "4s", 0, "", 4 * time.Second},
		{"the command line wins over the environment", "send --max-wait 3s", "4s", 0, "", 3 * time.Second},
		{"a wrong flag is wrong use", "send --max-wait soon", "", 2, "max-wait", 0},
		{"a wrong environment variable is wrong use, by name", "send", "soon", 2, "WAYBILL_MAX_WAIT", 0},
		{"an unknown flag is wrong use", "send --colour", "", 2, "--colour", 0},
		{"an unknown command is wrong use, with a guess", "sned", "", 2, `did you mean "send"`, 0},
		{"no command is wrong use", "", "", 2, "needs a command", 0},
		{"an argument too many is wrong use", "send it", "", 2, "it", 0},
		{"a failure is one line and status 1", "fail", "", 1, "waybill: two lines\n", 0},
		{"a usage error of a command is status 2 and names its help", "wrong", "", 2,
			"--x 9: too much; see: waybill wrong --help", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ran []string
			var wait time.Duration
			var stderr bytes.Buffer
			if c.env != "" {
				t.Setenv("WAYBILL_MAX_WAIT", c.env)
			}
			status := process.Execute(tree(&ran, &wait), strings.Fields(c.args), &stderr)
			if status != c.status || !strings.Contains(stderr.String(), c.stderr) || strings.Count(stderr.String(), "\n") > 1 {
				t.Errorf("status %d, stderr %q", status, stderr.String())
			}
			if (len(ran) == 1) != (c.status == 0) || c.status == 0 && wait != c.wait {
				t.Errorf("ran %v with %s", ran, wait)
			}
		})
	}
}

func TestCleanupRunsEveryStepNewestFirst(t *testing.T) {
	var c process.Cleanup
	var order []string
	boom := errors.New("boom")
	for _, name := range []string{"first", "second", "third"} {
		c.Push(name, time.Second, func(context.Context) error {
			order = append(order, name)
			if name == "second" {
				return boom
			}
			return nil
		})
	}
	c.Push("slow", 10*time.Millisecond, func(ctx context.Context) error { <-ctx.Done(); return nil })
	if err := c.Run(zerolog.Nop()); !errors.Is(err, boom) || !strings.Contains(err.Error(), "second") {
		t.Errorf("%v", err)
	}
	if !slices.Equal(order, []string{"third", "second", "first"}) {
		t.Errorf("%v", order)
	}
	if err := c.Run(zerolog.Nop()); err != nil || len(order) != 3 {
		t.Errorf("a second run did something: %v, %v", order, err)
	}
}

func TestATakenPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = process.Listen("http", l.Addr().String())
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), "--http") {
		t.Errorf("%v", err)
	}
	if _, err := process.Listen("http", "nowhere"); err == nil || !strings.Contains(err.Error(), "--http") {
		t.Errorf("%v", err)
	}
}

func TestReadyMeansThatEveryCheckPasses(t *testing.T) {
	health, mux := &process.Health{}, http.NewServeMux()
	process.Routes(mux, health, process.NewMetrics())
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	down := errors.New("is away")
	health.Add("nats", func(context.Context) error { return nil })
	health.Add("clickhouse", func(context.Context) error { return down })
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "clickhouse: is away") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get("/healthz"); code != 200 {
		t.Errorf("alive, but %d", code)
	}
	down = nil
	if code, _ := get("/readyz"); code != 200 {
		t.Errorf("ready, but %d", code)
	}
	if code, body := get("/metrics"); code != 200 || !strings.Contains(body, "go_goroutines") {
		t.Errorf("%d", code)
	}
}

func TestLoggerSettingsAreChecked(t *testing.T) {
	var out bytes.Buffer
	log, err := process.NewLogger(&out, "json", "info")
	if err != nil {
		t.Fatal(err)
	}
	log.Info().Msg("hello")
	if s := out.String(); !strings.Contains(s, `"message":"hello"`) || !strings.Contains(s, `Z"`) {
		t.Errorf("%s", s)
	}
	for _, c := range [][2]string{{"xml", "info"}, {"json", "loud"}, {"json", ""}} {
		var usage *process.UsageError
		if _, err := process.NewLogger(&out, c[0], c[1]); !errors.As(err, &usage) {
			t.Errorf("%v gave %v", c, err)
		}
	}
}
