package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/platform/redact"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

const redactExample = "waybill redact test --input answer.txt --redaction-policy redaction.json"

func redactCommand(s stdio) *cobra.Command {
	return group("redact", "Try what of receivers' answers goes on record", "  "+redactExample, redactTest(s))
}

// maxRedactInput bounds what is read: an excerpt is made of far less.
const maxRedactInput = 1 << 20

// redactResult is what a text looks like on record.
type redactResult struct {
	Kept    string         `json:"kept"`
	Removed []redactPiece  `json:"removed"`
	Counts  map[string]int `json:"counts"`
	Digest  string         `json:"policy_digest,omitempty"`
}

// redactPiece says where something was, and never what it was.
type redactPiece struct {
	Kind  redact.Kind `json:"kind"`
	What  string      `json:"what"`
	Start int         `json:"start"`
	Bytes int         `json:"bytes"`
}

func redactTest(s stdio) *cobra.Command {
	var flags process.Redaction
	var out format
	var input string
	c := &cobra.Command{
		Use: "test", Short: "Show what a policy keeps of a text, and what it removes",
		Long: `Show what would be kept of a text that a receiver answers, and what would be
removed from it: where it was, what it looks like, never the thing itself. It
reads standard input, or a file. Nothing is sent anywhere.`,
		Example: "  " + redactExample + "\n  curl -s https://example.com/hooks | waybill redact test -o json",
		Args:    process.NoArgs,
	}
	out.bind(c.Flags())
	flags.Bind(c.Flags())
	c.Flags().StringVar(&input, "input", "-", "file to read; -: standard input")
	c.RunE = func(*cobra.Command, []string) error {
		if err := out.check(); err != nil {
			return err
		}
		policy, err := flags.Load()
		if err != nil {
			return err
		}
		text, err := readInput(s.in, "input", input, maxRedactInput)
		if err != nil {
			return err
		}
		kept, found := policy.Clean(text, redact.Known{})
		if most := policy.Excerpt(""); len(kept) > most {
			kept = kept[:most]
		}
		r := redactResult{Kept: string(kept), Removed: []redactPiece{}, Counts: map[string]int{}, Digest: policy.Digest()}
		for _, f := range found {
			r.Removed = append(r.Removed, redactPiece{f.Kind, f.What, f.Start, f.End - f.Start})
			r.Counts[string(f.Kind)]++
		}
		return printRedacted(s, out, r)
	}
	return c
}

// readInput reads a file, or standard input for "-".
func readInput(in io.Reader, flag, path string, most int64) ([]byte, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, process.Usagef("--%s: %w; name a file that can be read, or - for standard input", flag, err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, fmt.Errorf("reading --%s %s: %w", flag, path, err)
	}
	if int64(len(b)) > most {
		return nil, process.Usagef("--%s %s: more than %d bytes; give a part of it", flag, path, most)
	}
	return b, nil
}

func printRedacted(s stdio, out format, r redactResult) error {
	if out == "json" {
		return printJSON(s.out, r)
	}
	if _, err := fmt.Fprintf(s.out, "%s\n\n", text.Lines(strings.TrimSuffix(r.Kept, "\n"))); err != nil {
		return err
	}
	t := table{header: []string{"REMOVED", "LOOKS LIKE", "AT BYTE", "BYTES"}}
	for _, p := range r.Removed {
		t.add(string(p.Kind), p.What, strconv.Itoa(p.Start), strconv.Itoa(p.Bytes))
	}
	return t.show(s, out, "nothing was removed")
}
