package lint_test

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/cli"
	"github.com/waybill-dev/waybill/test/lint"
)

const root = "../.."

func TestWhatTheDocumentsNameExists(t *testing.T) {
	files, err := lint.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range files {
		texts[f.Path] = f.Text
	}
	tree := cli.New(strings.NewReader(""), io.Discard, io.Discard)
	targets := lint.Targets(texts)
	seen := map[string]int{}
	for name, text := range texts {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, m := range lint.Mentions(text) {
			seen[m.Kind]++
			if err := exists(name, m, targets, tree); err != nil {
				t.Errorf("%s:%d: %v", name, m.Line, err)
			}
		}
	}
	for _, kind := range []string{"path", "target", "command"} {
		if seen[kind] == 0 {
			t.Errorf("no document names a %s: the check saw nothing", kind)
		}
	}
}

func exists(document string, m lint.Mention, targets map[string]bool, tree *cobra.Command) error {
	switch m.Kind {
	case "target":
		if !targets[m.Text] {
			return fmt.Errorf("make %s is not a target", m.Text)
		}
	case "command":
		return commandExists(tree, m.Text)
	case "link":
		return fileExists(lint.Resolve(document, m.Text))
	default:
		// A document beside the files that it speaks of may name them from there.
		if fileExists(lint.Resolve(document, m.Text)) != nil {
			return fileExists(m.Text)
		}
	}
	return nil
}

// fileExists takes wildcards. What a build makes is not in the tree.
func fileExists(name string) error {
	if strings.ContainsAny(name, "<>") {
		return nil // a pattern for people, such as testdata/<case>.json
	}
	found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(name)))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: %w", name, os.ErrNotExist)
	}
	return err
}

// commandExists checks a command line: its subcommands and the names of its flags.
func commandExists(tree *cobra.Command, line string) error {
	c := tree
	for _, word := range strings.Fields(line) {
		word = strings.TrimRight(strings.Trim(word, `'"()`), ".,;:")
		name, isFlag := strings.CutPrefix(word, "--")
		switch {
		case c == tree && word == "help": // cobra adds it when a command line is run
		case word == "\\" || word == "…" || word == "...":
		case isFlag:
			name, _, _ = strings.Cut(name, "=")
			if name != "help" && name != "version" && name != "" && c.Flag(strings.TrimRight(name, ".,:")) == nil {
				return fmt.Errorf("%s has no flag --%s", c.CommandPath(), name)
			}
		case c.HasSubCommands() && !strings.HasPrefix(word, "-"):
			sub, _, err := c.Find([]string{word})
			if err != nil || sub == c {
				return fmt.Errorf("%s has no command %q", c.CommandPath(), word)
			}
			c = sub
		}
	}
	return nil
}

func TestMentionsAreFoundWhereADocumentMakesThem(t *testing.T) {
	text := strings.Join([]string{
		"See `internal/jetstream/stage` and [the engine](engine.md#users), not `text/plain`; run `make test-race` or " +
			"`waybill up --data x`.",
		"Words like make sure or waybill are none, `--database waybill --query x` is none; " +
			"[elsewhere](https://example.com/a) is none.",
		"```sh",
		"make FUZZTIME=1m fuzz && bin/waybill event publish --type a.b   # make haste",
		"```",
	}, "\n")
	want := []string{"path internal/jetstream/stage", "target test-race", "command up --data x", "link engine.md",
		"target fuzz", "target haste", "command event publish --type a.b"}
	var got []string
	for _, m := range lint.Mentions(text) {
		got = append(got, m.Kind+" "+m.Text)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestADocumentThatNamesWhatDoesNotExistIsFound(t *testing.T) {
	tree := cli.New(strings.NewReader(""), io.Discard, io.Discard)
	targets := map[string]bool{"test": true}
	for text, good := range map[string]bool{
		"`internal/jetstream/stage`":                 true,
		"`internal/nowhere`":                         false,
		"`internal/jetstream/stage/*.go`":            true,
		"`internal/jetstream/stage/*.rs`":            false,
		"[here](engine.md)":                          true,
		"[here](nowhere.md)":                         false,
		"`make test`":                                true,
		"`make coffee`":                              false,
		"`waybill up --data x`":                      true,
		"`waybill down`":                             false,
		"`waybill up --speed 3`":                     false,
		"`waybill streams apply --replicas 3`":       true,
		"`waybill streams mend`":                     false,
		"`waybill event publish --type a.b -o json`": true,
	} {
		mentions := lint.Mentions(text)
		if len(mentions) != 1 {
			t.Errorf("%s: %d mentions, want 1", text, len(mentions))
			continue
		}
		if err := exists("docs/x.md", mentions[0], targets, tree); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
