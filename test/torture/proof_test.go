package torture_test

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/verify"
	"github.com/waybill-dev/waybill/test/testkit/invariants"
)

// provenEvents are exported and verified, chosen at random.
const provenEvents = 4

// checkProofs verifies the ledger with the key that signed it, as an auditor
// does, and some events' evidence with that key alone.
func (s *system) checkProofs(t *testing.T, h invariants.History) {
	t.Helper()
	began := time.Now()
	defer func() { t.Logf("proofs took %s", time.Since(began).Round(10*time.Millisecond)) }()
	keys, err := checkpoint.OpenKeys(s.checkpointKey)
	must(t, err)
	key := keys.List()[0].Verifier

	// It waits for a checkpoint over the event's records, so they come first.
	events := map[string]bool{}
	for _, row := range h.Ledger {
		if id := row.Record.EventID; id != "" {
			events[id] = true
		}
	}
	ids := slices.Sorted(maps.Keys(events))
	rnd := rand.New(rand.NewPCG(*options.seed, 99))
	for range min(provenEvents, len(ids)) {
		id, file := ids[rnd.IntN(len(ids))], filepath.Join(t.TempDir(), "evidence.json")
		if out, err := command(t, append([]string{"evidence", "export", id, "--tenant", tenant, "--out", file},
			s.where...)...); err != nil {
			t.Errorf("evidence of %s: %v\n%s", id, err, out)
			continue
		}
		if out, err := command(t, "evidence", "verify", file, "--key", key, "-o", "json"); err != nil ||
			!strings.Contains(out, `"proven": true`) {
			t.Errorf("evidence of %s: %v\n%s", id, err, out)
		}
	}

	out, err := command(t, append([]string{"ledger", "verify", "--key", key, "-o", "json"}, s.where...)...)
	var r verify.Report
	if e := json.Unmarshal([]byte(out), &r); e != nil || err != nil || !r.Good {
		t.Fatalf("ledger verify: %v %v\n%s", err, e, out)
	}
	if r.Ledger < uint64(len(h.Ledger)) || r.Checkpoints.Agreed == 0 || r.Checkpoints.Agreed != r.Checkpoints.Signed ||
		r.Stream == nil || r.Stream.Compared == 0 || r.Last == nil {
		t.Errorf("ledger verify shows less than it could: %s", out)
	}
}

// command runs a command of waybill, and returns what it prints.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "waybill"), args...).CombinedOutput()
	return string(out), err
}
