package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTheDemoEndsWithEvidenceThatHolds(t *testing.T) {
	t.Parallel()
	code, out, errs := waybill(t, "", append([]string{"demo", "--once"}, everyPort()...)...)
	if code != 0 {
		t.Fatalf("exit %d, %s", code, errs)
	}
	for _, want := range []string{
		"healthy    17         0             -                     17        17 of 17 good  17 of 17 equal",
		"flaky      17         0             -                     51        51 of 51 good  51 of 51 equal",
		"rejecting  0          17            permanently_rejected  17        17 of 17 good  17 of 17 equal",
		"hanging    0          17            endpoint_unreachable  34        34 of 34 good  34 of 34 equal",
		"The evidence for one delivery",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("missing %q in:\n%s", want, out)
		}
	}
	// The program is named as it was called; here that is a long path of the test's.
	out = strings.ReplaceAll(out, filepath.Join(programs, "waybill"), "bin/waybill")
	for line := range strings.Lines(out) {
		// A command to paste is one line, as long as the path of its data directory makes it.
		if len([]rune(line)) > 101 && !strings.Contains(line, "curl") && !strings.Contains(line, "--data-dir") {
			t.Errorf("a line is wider than 100 columns: %q", line)
		}
	}
}
