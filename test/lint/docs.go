package lint

import (
	"path"
	"regexp"
	"strings"
)

// Mention is something that a document names and that must exist.
type Mention struct {
	Line int
	Kind string // "path", "target" (of make) or "command" (of waybill)
	Text string
}

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// A path is told from other words with a slash by where it starts.
	repoPath = regexp.MustCompile(`^(\./)?((\.ci|cmd|deploy|docs|internal|pkg|streams|test|testdata|third_party)(/[\w.*<>-]+)*/?|[\w-]+\.(md|yaml|yml|mk|json)|Makefile|Dockerfile|\.editorconfig)$`)
	make1    = regexp.MustCompile(`(^|[\s;&(])make ((?:[A-Z_]+=\S+ )*)([a-z][a-z-]*)`)
	// A command begins a line, or follows a prompt, an operator, or the directory that it is in.
	waybill = regexp.MustCompile(`(^\s*|\$ |[;&|(]\s*|/|run --rm )waybill ((?:[^|;&#>\n\x60]|\\\n)+)`)
)

// Mentions finds what a Markdown text names: in code spans, in links, and as
// commands in fenced blocks.
func Mentions(text string) []Mention {
	var out []Mention
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			out = append(out, commands(i+1, line)...)
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
			if repoPath.MatchString(m[1]) {
				out = append(out, Mention{i + 1, "path", strings.TrimPrefix(m[1], "./")})
			} else {
				out = append(out, commands(i+1, m[1])...)
			}
		}
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target != "" && !strings.Contains(target, ":") {
				out = append(out, Mention{i + 1, "link", target})
			}
		}
	}
	return out
}

func commands(line int, code string) []Mention {
	var out []Mention
	for _, m := range make1.FindAllStringSubmatch(code, -1) {
		out = append(out, Mention{line, "target", m[3]})
	}
	for _, m := range waybill.FindAllStringSubmatch(code, -1) {
		out = append(out, Mention{line, "command", strings.TrimSpace(m[2])})
	}
	return out
}

var (
	targetLine  = regexp.MustCompile(`(?m)^([a-z][a-z-]*)\s*:[^=]`)
	includeLine = regexp.MustCompile(`(?m)^include (\S+)$`)
)

// Targets of the Makefile and of the files that it includes.
func Targets(files map[string]string) map[string]bool {
	out := map[string]bool{}
	queue := []string{"Makefile"}
	for len(queue) > 0 {
		text := files[queue[0]]
		queue = queue[1:]
		for _, m := range targetLine.FindAllStringSubmatch(text+"\n", -1) {
			out[m[1]] = true
		}
		for _, m := range includeLine.FindAllStringSubmatch(text, -1) {
			queue = append(queue, m[1])
		}
	}
	return out
}

// Resolve gives the path from the root that a document means by a link.
func Resolve(document, target string) string {
	return path.Join(path.Dir(document), target)
}
