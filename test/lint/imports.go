package lint

import (
	"fmt"
	"slices"
	"strings"
)

// ImportRule says what the packages In may import. Exactly one of Only, Ours and
// Never is given.
type ImportRule struct {
	Name string
	Why  string
	// In and NotIn choose the importing packages, by pattern (see matches).
	In, NotIn []string
	// Only lists everything that they may import, Ours what of this module, Never
	// what they may not.
	Only, Ours, Never []string
	// Tests applies the rule to _test.go files too. Tests put real things
	// together, so most rules leave them alone.
	Tests bool
}

// The wings of the house, from the ground up. Each may import itself and what its
// rule lists; docs/house.md is the picture of it.
var (
	ground   = []string{"./internal/platform/...", "./streams", "./pkg/..."}
	domain   = append([]string{"./internal/domain/..."}, ground...)
	jet      = append([]string{"./internal/jetstream/..."}, ground...)
	memories = slices.Concat([]string{"./internal/events/...", "./internal/jetstream/..."}, domain)
	told     = append([]string{"./internal/registry/...", "./internal/notify/..."}, memories...)
	app      = []string{"./internal/app/...", "./cmd/...", "./bench/..."}

	// stages meet only on a stream.
	stages = []string{"ingest", "fanout", "dispatcher", "escalator", "watchdog"}
)

// ImportRules of the project: seven for the wings, then the walls.
func ImportRules() []ImportRule {
	rules := []ImportRule{
		{Name: "ground-knows-nothing", In: []string{"./internal/platform/...", "./streams"}, Ours: ground, Tests: true,
			Why: "what any service needs, and the topology as data: whatever they import, everybody imports"},
		{Name: "domain-is-rules", In: []string{"./internal/domain/..."}, Ours: domain,
			Why: "what the product speaks of: rules can be read and tested without a server"},
		{Name: "jetstream-knows-no-stage", In: []string{"./internal/jetstream/..."}, Ours: jet,
			Why: "a mechanism that serves every stage alike"},
		{Name: "memories-are-apart", In: []string{"./internal/events/..."}, Ours: memories,
			Why: "the events and their ids: everybody reads them, they read nobody"},
		{Name: "operator-below-surfaces", In: []string{"./internal/operator/..."},
			Ours: slices.Concat([]string{"./internal/operator/...", "./internal/ledger/..."}, told),
			Why:  "people ask and command; they do not reach into a stage, and each way to ask does the same"},
		{Name: "nobody-imports-wiring", In: []string{"./internal/..."}, NotIn: []string{"./internal/app/..."}, Never: app,
			Why: "commands, flags and signals start the rest: what is worth importing lives elsewhere"},
		{Name: "process-knows-no-stage", In: []string{"./internal/app/process"},
			Ours: append([]string{"./internal/app/process"}, ground...),
			Why:  "it is what every command shares: who tells nobody links no mail and no pager"},

		{Name: "envelope-is-plain", In: []string{"./pkg/..."}, Only: []string{"std", "./pkg/..."}, Tests: true,
			Why: "receivers and producers build on it: it must bring nothing with it"},
		{Name: "one-clickhouse-driver", In: []string{"any"}, NotIn: []string{"./internal/ledger/...", "./test/testkit",
			"./bench/..."}, Never: []string{"github.com/ClickHouse/..."},
			Why: "the schema, the inserts and the queries change together, in one place"},
		{Name: "server-is-embedded-once", In: []string{"any"}, NotIn: []string{"./internal/app/allinone", "./test/testkit"},
			Never: []string{"github.com/nats-io/nats-server/..."}, Tests: true,
			Why: "a stage is a client and must stay a small, separate program"},
		{Name: "purego-in-the-launcher", In: []string{"any"}, NotIn: []string{"./cmd/waybill-clickhouse"},
			Never: []string{"github.com/ebitengine/purego/...", "unsafe"}, Tests: true,
			Why: "whoever links purego is linked dynamically; every other binary is static, and memory-safe as far as Go is"},
		{Name: "testkit-in-tests", In: []string{"any"}, NotIn: []string{"./test/..."},
			Never: []string{"./test/...", "testing"},
			Why:   "it kills processes and panics freely; no product may carry it"},
		{Name: "pipeline-alone-in-tests", In: []string{"./test/pipeline"},
			Never: append([]string{"./internal/operator/api"}, app...), Tests: true,
			Why: "it tests the stages as they meet on the streams, not how a command starts them"},
	}
	for _, memory := range []string{"registry", "notify", "ledger"} {
		own := "./internal/" + memory + "/..."
		rules = append(rules, ImportRule{Name: "memories-are-apart", In: []string{own},
			Ours: append([]string{own}, memories...),
			Why:  "settings, people to tell and facts are kept apart: none of them waits for another"})
	}
	for _, stage := range stages {
		own := []string{"./internal/pipeline/" + stage, "./internal/pipeline/attempt/...", "./internal/pipeline/recorder"}
		// it is tested beside the escalator
		rules = append(rules, ImportRule{Name: "stages-meet-on-streams", In: own[:1], Ours: append(own, told...),
			Tests: stage != "watchdog",
			Why: "each runs alone, any number of times, and facts leave it by the LEDGER stream only: a call would be a " +
				"second, untested way"})
	}
	return append(rules, ImportRule{Name: "stages-meet-on-streams", In: []string{"./internal/pipeline/attempt/..."},
		Ours: append([]string{"./internal/pipeline/attempt/..."}, told...),
		Why:  "an attempt is one request: it knows no stage"},
		ImportRule{Name: "stages-meet-on-streams", In: []string{"./internal/pipeline/recorder"},
			Ours: append([]string{"./internal/pipeline/recorder"}, told...),
			Why:  "it serves whichever stage runs it, and knows none"})
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
		testing := g.Test && (i.Path == "testing" || strings.HasPrefix(i.Path, "./test/testkit"))
		switch {
		case self || testing:
		case len(r.Ours) > 0:
			if strings.HasPrefix(i.Path, "./") && !matchesAny(r.Ours, i.Path) {
				out = append(out, Violation{f.Path, i.Line, r.Name,
					fmt.Sprintf("%s must not import %s: %s", g.Package, i.Path, r.Why)})
			}
		case len(r.Only) > 0 && !matchesAny(r.Only, i.Path), len(r.Never) > 0 && matchesAny(r.Never, i.Path):
			out = append(out, Violation{f.Path, i.Line, r.Name,
				fmt.Sprintf("%s must not import %s: %s", g.Package, i.Path, r.Why)})
		}
	}
	return out
}
