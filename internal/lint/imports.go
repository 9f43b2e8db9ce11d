package lint

import (
	"fmt"
	"slices"
	"strings"
)

// ImportRule says what the packages In may import. Exactly one of Only and
// Never is given.
type ImportRule struct {
	Name string
	Why  string
	// In and NotIn choose the importing packages, by pattern (see matches).
	In, NotIn []string
	// Only lists everything that they may import, Never what they may not.
	Only, Never []string
	// Tests applies the rule to _test.go files too. Tests put real things
	// together, so most rules leave them alone.
	Tests bool
}

var (
	// stages meet only on a stream.
	stages = []string{"./internal/ingest", "./internal/fanout", "./internal/dispatcher", "./internal/escalator", "./internal/ledgersink"}
	// surfaces are what people and programs call; wiring is what starts them.
	surfaces = []string{"./internal/api", "./internal/cli"}
	wiring   = []string{"./internal/process", "./internal/teller", "./internal/allinone", "./cmd/..."}
	// leaves are pure: values and functions that any package may use.
	leaves = []string{"./internal/budget", "./internal/counted", "./internal/egress", "./internal/ids", "./internal/outcome", "./internal/paper", "./internal/problem",
		"./internal/redact", "./internal/retry", "./internal/subscription", "./internal/text", "./internal/version"}
)

// ImportRules of the project.
func ImportRules() []ImportRule {
	rules := []ImportRule{
		{Name: "envelope-is-plain", In: []string{"./pkg/..."}, Only: []string{"std", "./pkg/..."}, Tests: true,
			Why: "receivers and producers build on it: it must bring nothing with it"},
		{Name: "streams-is-a-leaf", In: []string{"./streams"}, Only: []string{"std", "./pkg/envelope", "github.com/nats-io/nats.go/..."},
			Why: "it is the contract of all stages: what it imports, each of them imports"},
		{Name: "leaves-are-leaves", In: leaves, Only: append([]string{"std", "./pkg/envelope", "golang.org/x/...", "github.com/oklog/ulid/v2"}, leaves...), Tests: true,
			Why: "rules that are pure functions can be tested without a server and read without the rest"},
		{Name: "loop-knows-no-stage", In: []string{"./internal/stage"}, Never: []string{"./internal/...", "./cmd/..."},
			Why: "the consume loop serves all stages alike"},
		{Name: "control-below-surfaces", In: []string{"./internal/control"}, Never: slices.Concat(surfaces, wiring, stages),
			Why: "what operators can do is decided once; the API and the command line only ask"},
		{Name: "process-knows-no-stage", In: []string{"./internal/process"}, Never: slices.Concat(stages, surfaces, []string{"./internal/control", "./internal/ledger/...", "./internal/allinone"}),
			Why: "it is what every command shares, whatever it runs"},
		{Name: "one-clickhouse-driver", In: []string{"any"}, NotIn: []string{"./internal/ledger/...", "./internal/testkit"}, Never: []string{"github.com/ClickHouse/..."},
			Why: "the schema, the inserts and the queries change together, in one place"},
		{Name: "ledger-behind-few-doors", In: []string{"any"}, Never: []string{"./internal/ledger"},
			NotIn: []string{"./internal/ledger/...", "./internal/ledgersink", "./internal/transparency", "./internal/history", "./internal/testkit", "./internal/cli", "./internal/allinone", "./cmd/...", "./test/..."},
			Why:   "stages write to the LEDGER stream; only the sink carries it on, and the log beside it proves it; what operators ask goes through history"},
		{Name: "server-is-embedded-once", In: []string{"any"}, NotIn: []string{"./internal/allinone", "./internal/testkit"}, Never: []string{"github.com/nats-io/nats-server/..."}, Tests: true,
			Why: "a stage is a client and must stay a small, separate program"},
		{Name: "purego-in-the-launcher", In: []string{"any"}, NotIn: []string{"./cmd/waybill-clickhouse"}, Never: []string{"github.com/ebitengine/purego/...", "unsafe"}, Tests: true,
			Why: "whoever links purego is linked dynamically; every other binary is static, and memory-safe as far as Go is"},
		{Name: "testkit-in-tests", In: []string{"any"}, NotIn: []string{"./internal/testkit/...", "./test/..."}, Never: []string{"./internal/testkit/...", "testing"},
			Why: "it kills processes and panics freely; no product may carry it"},
		{Name: "nobody-imports-commands", In: []string{"any"}, NotIn: []string{"./cmd/..."}, Never: []string{"./cmd/..."}, Tests: true,
			Why: "a command is flags, signals and one call; what is worth importing lives elsewhere"},
		{Name: "nobody-imports-wiring", In: []string{"any"}, NotIn: slices.Concat([]string{"./internal/cli", "./test/..."}, wiring), Never: []string{"./internal/allinone", "./internal/process"},
			Why: "stages and surfaces are given what they need; they do not reach for flags, loggers or signals"},
		{Name: "pipeline-alone-in-tests", In: []string{"./test/pipeline"}, Never: slices.Concat(surfaces, wiring), Tests: true,
			Why: "it tests the stages as they meet on the streams, not how a command starts them"},
	}
	rules = append(rules, ImportRule{
		Name: "watchdog-shares-nothing", In: []string{"./internal/watchdog"}, Never: slices.Concat(stages, surfaces, wiring, []string{"./internal/control", "./internal/ledger"}),
		Why: "what it watches may be broken: it must not break with it",
	})
	for _, stage := range stages {
		others := slices.DeleteFunc(slices.Clone(stages), func(s string) bool { return s == stage })
		rules = append(rules, ImportRule{
			Name: "stages-meet-on-streams", In: []string{stage}, Never: slices.Concat(others, surfaces, wiring, []string{"./internal/control", "./internal/watchdog"}), Tests: true,
			Why: "each runs alone, any number of times: a call from one to another would be a second, untested way",
		})
	}
	return rules
}

// Check applies the rule to one file.
func (r ImportRule) Check(f File) []Violation {
	g := f.Go
	if g == nil || g.Test && !r.Tests || !matchesAny(r.In, g.Package) || matchesAny(r.NotIn, g.Package) {
		return nil
	}
	var out []Violation
	for _, i := range g.Imports {
		self := i.Path == g.Package // an external test package imports what it tests
		testing := g.Test && (i.Path == "testing" || strings.HasPrefix(i.Path, "./internal/testkit"))
		switch {
		case self || testing:
		case len(r.Only) > 0 && !matchesAny(r.Only, i.Path), len(r.Never) > 0 && matchesAny(r.Never, i.Path):
			out = append(out, Violation{f.Path, i.Line, r.Name, fmt.Sprintf("%s must not import %s: %s", g.Package, i.Path, r.Why)})
		}
	}
	return out
}
