package lint

import (
	"slices"
	"strings"
	"testing"
)

// root of the repository, from this directory.
const root = "../.."

func TestTheTreeKeepsTheRules(t *testing.T) {
	files, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range check(files) {
		t.Error(v)
	}
	goFiles := 0
	for _, f := range files {
		if f.Go != nil {
			goFiles++
		}
	}
	if goFiles < 100 {
		t.Errorf("only %d Go files were read: the rules did not see the tree", goFiles)
	}
}

func check(files []File) []Violation {
	var out []Violation
	for _, f := range files {
		for _, r := range ImportRules() {
			out = append(out, r.Check(f)...)
		}
		for _, r := range Rules() {
			for _, found := range r.Check(f) {
				out = append(out, Violation{f.Path, found.Line, r.Name, found.What + ": " + r.Why})
			}
		}
	}
	return out
}

// A package that was renamed would leave its rule behind, checking nothing.
func TestEveryRuleNamesPackagesThatExist(t *testing.T) {
	files, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ImportRules() {
		for _, p := range slices.Concat(r.In, r.NotIn, r.Only, r.Never) {
			exists := slices.ContainsFunc(files, func(f File) bool { return f.Go != nil && matches(p, f.Go.Package) })
			if strings.HasPrefix(p, "./") && !exists {
				t.Errorf("rule %s names %s, which does not exist", r.Name, p)
			}
		}
	}
}

//lint:long one table
func TestEachRuleFindsWhatBreaksItAndNothingElse(t *testing.T) {
	long := func(lines int) string { return strings.Repeat("\n", lines) }
	cases := []struct {
		name, path, text string
		want             string // the rule; empty: none
	}{
		{"the envelope imports a library", "pkg/envelope/a.go", "package envelope\nimport _ \"github.com/oklog/ulid/v2\"",
			"envelope-is-plain"},
		{"a test of the envelope imports a library", "pkg/envelope/a_test.go",
			"package envelope\nimport _ \"github.com/oklog/ulid/v2\"", "envelope-is-plain"},
		{"the envelope imports the standard library", "pkg/envelope/a.go", "package envelope\nimport _ \"net/http\"", ""},
		{"an external test imports what it tests", "pkg/envelope/a_test.go",
			"package envelope_test\nimport (\n_ \"testing\"\n_ \"" + Module + "/pkg/envelope\"\n)", ""},
		{"streams imports internal", "streams/a.go", "package streams\nimport _ \"" + Module + "/internal/domain/ids\"",
			"ground-knows-nothing"},
		{"a leaf imports a stage's loop", "internal/domain/retry/a.go",
			"package retry\nimport _ \"" + Module + "/internal/jetstream/stage\"", "domain-is-rules"},
		{"a leaf imports another", "internal/domain/retry/a.go",
			"package retry\nimport _ \"" + Module + "/internal/domain/ids\"", ""},
		{"the loop imports a leaf", "internal/jetstream/stage/a.go",
			"package stage\nimport _ \"" + Module + "/internal/domain/ids\"", "jetstream-knows-no-stage"},
		{"a stage imports another", "internal/pipeline/fanout/a.go",
			"package fanout\nimport _ \"" + Module + "/internal/pipeline/dispatcher\"", "stages-meet-on-streams"},
		{"a stage's test imports control", "internal/pipeline/fanout/a_test.go",
			"package fanout\nimport _ \"" + Module + "/internal/operator/control\"", "stages-meet-on-streams"},
		{"the watchdog imports a stage", "internal/pipeline/watchdog/a.go",
			"package watchdog\nimport _ \"" + Module + "/internal/pipeline/dispatcher\"", "stages-meet-on-streams"},
		{"a stage imports the watchdog", "internal/pipeline/fanout/a.go",
			"package fanout\nimport _ \"" + Module + "/internal/pipeline/watchdog\"", "stages-meet-on-streams"},
		{"a stage imports the loop", "internal/pipeline/fanout/a.go",
			"package fanout\nimport _ \"" + Module + "/internal/jetstream/stage\"", ""},
		{"control imports a stage", "internal/operator/control/a.go",
			"package control\nimport _ \"" + Module + "/internal/pipeline/ingest\"", "operator-below-surfaces"},
		{"the registry imports the ledger", "internal/registry/a.go",
			"package registry\nimport _ \"" + Module + "/internal/ledger\"", "memories-are-apart"},
		{"the ledger imports who tells people", "internal/ledger/audit/a.go",
			"package audit\nimport _ \"" + Module + "/internal/notify/channel\"", "memories-are-apart"},
		{"process imports a stage", "internal/app/process/a.go",
			"package process\nimport _ \"" + Module + "/internal/pipeline/ingest\"", "process-knows-no-stage"},
		{"control imports the driver", "internal/operator/control/a.go",
			"package control\nimport _ \"github.com/ClickHouse/clickhouse-go/v2\"", "one-clickhouse-driver"},
		{"the ledger imports the driver", "internal/ledger/a.go",
			"package ledger\nimport _ \"github.com/ClickHouse/clickhouse-go/v2\"", ""},
		{"a stage other than the sink imports the ledger", "internal/pipeline/dispatcher/a.go",
			"package dispatcher\nimport _ \"" + Module + "/internal/ledger\"", "stages-meet-on-streams"},
		{"a stage embeds a server", "internal/pipeline/ingest/a.go",
			"package ingest\nimport _ \"github.com/nats-io/nats-server/v2/server\"", "server-is-embedded-once"},
		{"a stage links purego", "internal/pipeline/ingest/a.go", "package ingest\nimport _ \"github.com/ebitengine/purego\"",
			"purego-in-the-launcher"},
		{"a package uses unsafe", "internal/domain/ids/a.go", "package ids\nimport _ \"unsafe\"", "purego-in-the-launcher"},
		{"the product imports testkit", "internal/domain/record/a.go",
			"package record\nimport _ \"" + Module + "/test/testkit\"", "testkit-in-tests"},
		{"the product imports testing", "internal/domain/record/a.go", "package record\nimport _ \"testing\"",
			"testkit-in-tests"},
		{"a test imports testkit", "internal/domain/record/a_test.go",
			"package record\nimport _ \"" + Module + "/test/testkit\"", ""},
		{"a package imports a command", "internal/domain/record/a.go",
			"package record\nimport _ \"" + Module + "/cmd/waybill/x\"", "nobody-imports-wiring"},
		{"the API reaches for flags", "internal/operator/api/a.go",
			"package api\nimport _ \"" + Module + "/internal/app/process\"", "nobody-imports-wiring"},
		{"a stage's command imports process", "cmd/ingest/a.go",
			"package main\nimport _ \"" + Module + "/internal/app/process\"", ""},
		{"the pipeline's test starts a command", "test/pipeline/a_test.go",
			"package pipeline\nimport _ \"" + Module + "/internal/app/process\"", "pipeline-alone-in-tests"},

		{"a log line's name is written in place", "internal/registry/a.go",
			"package registry\nfunc f() { log.Warn().Int(\"n\", 1).Msg(\"registry.lost: look\" + why) }", "log-events-have-a-name"},
		{"a log line has a constant", "internal/registry/a.go",
			"package registry\nfunc f() { log.Warn().Msg(logevent.RegistryLost + \": look\") }", ""},
		{"a log line is a sentence", "internal/registry/a.go",
			"package registry\nfunc f() { log.Warn().Msg(\"the engine is back\") }", ""},
		{"a line is long", "internal/domain/record/a.go", "package record\n// " + strings.Repeat("long ", 30) + "\n",
			"short-lines"},
		{"a text is long", "internal/domain/record/a.go", "package record\nconst s = \"" +
			strings.Repeat("long ", 30) + "\"\n", ""},
		{"a query is long", "internal/domain/record/a.go", "package record\nconst s = `\n" +
			strings.Repeat("long ", 30) + "`\n", ""},
		{"a package is called util", "internal/util/a.go", "package util", "package-names"},
		{"a function init", "internal/domain/record/a.go", "package record\nfunc init() {}", "no-init"},
		{"a method init", "internal/domain/record/a.go", "package record\ntype t int\nfunc (t) init() {}", ""},
		{"a test sleeps", "internal/domain/record/a_test.go", "package record\nimport \"time\"\nfunc f() { time.Sleep(1) }",
			"no-sleep-in-tests"},
		{"a harness sleeps", "test/testkit/a.go", "package testkit\nimport \"time\"\nfunc f() { time.Sleep(1) }",
			"no-sleep-in-tests"},
		{"a test speaks of sleep", "internal/domain/record/a_test.go",
			"package record\n// time.Sleep is not used.\nconst s = `time.Sleep(1)`", ""},
		{"a test skips itself", "internal/domain/record/a_test.go",
			"package record\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Skip() }", "no-skipped-tests"},
		{"a test asks whether it should be short", "internal/domain/record/a_test.go",
			"package record\nimport \"testing\"\nvar _ = testing.Short()", "no-skipped-tests"},
		{"a test skips a line of its input", "internal/domain/record/a_test.go",
			"package record\nfunc f(scanner interface{ Skip() }) { scanner.Skip() }", ""},
		{"a stage acknowledges", "internal/pipeline/fanout/a.go", "package fanout\nimport " +
			"\"github.com/nats-io/nats.go/jetstream\"\nfunc f(m jetstream.Msg) { _ = m.Ack() }", "one-settler"},
		{"a stage says it is in progress", "internal/pipeline/fanout/a.go",
			"package fanout\nimport \"github.com/nats-io/nats.go/jetstream\"\nfunc f(m jetstream.Msg) { _ = m.InProgress() }",
			"one-settler"},
		{"the loop acknowledges", "internal/jetstream/stage/a.go",
			"package stage\nimport \"github.com/nats-io/nats.go/jetstream\"\nfunc f(m jetstream.Msg) { _ = m.Ack() }", ""},
		{"a channel of publish acknowledgements", "internal/pipeline/fanout/a.go",
			"package fanout\nimport \"github.com/nats-io/nats.go/jetstream\"\nfunc f(m jetstream.PubAckFuture) { <-m.Ok() }",
			""},
		{"a wildcard subject", "internal/pipeline/fanout/a.go", "package fanout\nconst s = \"events.>\"", "one-speller"},
		{"the start of a subject", "internal/pipeline/fanout/a.go",
			"package fanout\nfunc f(s string) string { return \"deliveries.\" + s }", "one-speller"},
		{"a format of a subject", "internal/pipeline/fanout/a.go", "package fanout\nconst s = `ledger.%s.%s`", "one-speller"},
		{"a whole subject", "internal/pipeline/fanout/a.go", "package fanout\nconst s = \"claims.0.ep_1\"", "one-speller"},
		{"a kind of record", "internal/pipeline/fanout/a.go", "package fanout\nconst s = \"ledger.gap\"", ""},
		{"a sentence", "internal/pipeline/fanout/a.go", "package fanout\nconst s = \"events. They are kept\"", ""},
		{"a marker in a document", "docs/a.md", "Later: " + "TO" + "DO", "no-markers"},
		{"a name for a temporary file", "a.sh", "mktemp XX" + "XXXX", ""},
		{"a registry's host in a lock file", "a/package-lock.json", "https://registry" + ".npmjs.org/x", "no-registry-hosts"},
		{"a registry's host in an image", "compose.yaml", "image: docker" + ".io/library/nats:1", "no-registry-hosts"},
		{"a long file", "internal/domain/record/a.go", "package record\n" + long(400), "short-files"},
		{"a long file with a reason", "internal/domain/record/a.go", "//lint:long one table\npackage record\n" + long(400),
			""},
		{"a long file with an excuse but no reason", "internal/domain/record/a.go",
			"//lint:long \npackage record\n" + long(400), "short-files"},
		{"a long document", "docs/a.md", long(4000), ""},
		{"a long function", "internal/domain/record/a.go", "package record\nfunc f() {" + long(100) + "}", "short-functions"},
		{"a long function with a reason", "internal/domain/record/a.go",
			"package record\n\n//lint:long one switch\nfunc f() {" + long(100) + "}", ""},
		{"a generated file", "internal/domain/record/a.go",
			"// Code generated by x. DO NOT EDIT.\npackage record\n" + long(500), ""},
	}
	found := map[string]bool{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse(c.path, c.text)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range check([]File{f}) {
				got = append(got, v.Rule)
				found[v.Rule] = true
			}
			if c.want == "" && len(got) > 0 || c.want != "" && !slices.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
	for _, r := range ImportRules() {
		if !found[r.Name] {
			t.Errorf("no case breaks rule %s", r.Name)
		}
	}
	for _, r := range Rules() {
		if !found[r.Name] {
			t.Errorf("no case breaks rule %s", r.Name)
		}
	}
}
