package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/ledger/engine"
)

// dying is the real engine behind a script that is killed the first times.
func dying(t *testing.T, times int) engine.Location {
	t.Helper()
	at, err := engine.Find(engine.SearchFromEnv(os.Getenv))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// A launcher is told by its name.
	script := filepath.Join(dir, filepath.Base(at.Binary))
	text := fmt.Sprintf("#!/bin/sh\necho x >>%[1]s/starts\nif [ $(wc -l <%[1]s/starts) -le %d ]; then kill -9 $$; "+
		"fi\nexec %s \"$@\"\n", dir, times, at.Binary)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	at.Binary = script
	return at
}

func TestAnEngineThatIsKilledWhileItStartsIsStartedAgain(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var exits []error
	e := start(t, engine.Options{Location: dying(t, 3), Logger: zerolog.New(&log),
		OnExit: func(err error) { exits = append(exits, err) }})
	if n := count(t, open(t, e.DSN("", "default")), "SELECT count() FROM system.one"); n != 1 {
		t.Error("it does not answer")
	}
	if len(exits) != 3 || e.Restarts() != 0 {
		t.Errorf("it died %d times during the start, %d after it: %v", len(exits), e.Restarts(), exits)
	}
	said := 0
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "died while it was starting") && strings.Contains(line, "signal: killed") &&
			strings.Contains(line, `"of":4`) {
			said++
		}
	}
	if said != 3 {
		t.Errorf("it was said %d times:\n%s", said, log.String())
	}
}

func TestAStartThatIsToldToEndIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(within(t, time.Minute))
	exits := 0
	_, err := engine.Start(ctx, engine.Options{Dir: t.TempDir(), Location: dying(t, 99),
		OnExit: func(error) { exits++; cancel() }})
	if err == nil || errors.Is(err, engine.ErrInUse) || exits != 1 {
		t.Errorf("%v, after %d starts", err, exits)
	}
}
