package evidence_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/evidence"
)

// TestAStrangersVerifierAgrees runs a verifier that was written from the
// documentation of the format alone, in another language.
func TestAStrangersVerifierAgrees(t *testing.T) {
	if _, err := os.ReadFile("verify.mjs"); err != nil { // read, so that the test cache knows of it
		t.Fatal(err)
	}
	script, err := filepath.Abs("verify.mjs")
	if err != nil {
		t.Fatal(err)
	}
	stranger := func(file string, key string) (string, error) {
		out, err := exec.Command("node", script, file, key).CombinedOutput()
		return string(out), err
	}
	s := start(t)
	s.stories()
	for _, args := range [][]string{{quoted}, {quoted, "--endpoint", endpoint}, {"unmatched"}, {"many"}} {
		if out, err := stranger(s.export(args[0], args[1:]...), s.key.Verifier); err != nil ||
			!strings.HasPrefix(out, "proven: ") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	b, err := os.ReadFile(s.export(quoted))
	s.must(err)
	f, err := evidence.Decode(b)
	s.must(err)
	tree, err := evidence.TreeOf(f.Checkpoint.Note)
	s.must(err)
	last := bytes.LastIndexByte(b[:len(b)-1], '\n') + 1
	reseal := func(head []byte) []byte {
		return fmt.Appendf(bytes.Clone(head), "\"sha256\":\"%x\"}\n", sha256.Sum256(head))
	}
	change := func(old, new string) []byte {
		t.Helper()
		if !bytes.Contains(b, []byte(old)) {
			t.Fatalf("the file has no %s", old)
		}
		return reseal(bytes.Replace(b[:last], []byte(old), []byte(new), 1))
	}
	// The second format, with what EVENTS said.
	f.Statement.Events = &evidence.Events{AskedAt: time.Now(), Findings: []string{"event_unknown: EVENTS ends at 1"}}
	second := filepath.Join(t.TempDir(), "second.json")
	s.must(os.WriteFile(second, f.Encode(), 0o600))
	if out, err := stranger(second, s.key.Verifier); err != nil || !strings.Contains(out, "proven: ") ||
		!strings.Contains(out, "EVENTS did not vouch for it: event_unknown") {
		t.Errorf("a file of the second format: %v\n%s", err, out)
	}
	bit := bytes.Clone(b)
	bit[last/2] ^= 1
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"a bit":          {bit, "step 1"},
		"a space":        {change(`,"seq"`, `, "seq"`), "step 2"},
		"the size":       {change(fmt.Sprintf(`\n%d\n`, tree.Size), fmt.Sprintf(`\n%d\n`, tree.Size+1)), "step 3"},
		"a sequence":     {change(`"seq":"`, `"seq":"1`), "step 5"},
		"another event":  {change(`"event_id":"e`, `"event_id":"f`), "step 6"},
		"another tenant": {change(`"tenant":"acme"`, `"tenant":"acne"`), "step 6"},
	} {
		file := filepath.Join(t.TempDir(), "changed.json")
		s.must(os.WriteFile(file, c.file, 0o600))
		if out, err := stranger(file, s.key.Verifier); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v, %s; want %s", name, err, out, c.want)
		}
		if code, out, _ := s.run("evidence", "verify", file, "--key", s.key.Verifier); code != 1 {
			t.Errorf("%s: ours exits %d\n%s", name, code, out)
		}
	}
}
