package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/platform/text"
)

// What a receiver answered must steer no terminal, and stay what it is for programs.
func TestJSONEscapesWhatSteersATerminal(t *testing.T) {
	in := "a\x1b[31m\u009b2J\u202eb\u200bc\x7f"
	var b bytes.Buffer
	if err := printJSON(&b, map[string]string{"answer": in}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); text.Lines(got) != got || !strings.Contains(got, `\u202e`) {
		t.Errorf("printed: %+q", got)
	}
	var back map[string]string
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back["answer"] != in {
		t.Errorf("read back: %+q, %v", back["answer"], err)
	}
}
