package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/app/cli"
	"github.com/waybill-dev/waybill/internal/app/process"
)

// run gives a command line to the program as main does.
func run(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = process.Execute(cli.New(strings.NewReader(stdin), &out, &errs), args, &errs)
	return code, out.String(), errs.String()
}

const (
	someEndpoint = "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"
	someURL      = "https://example.com/hooks"
)

// mistake is one way to use a command wrongly.
type mistake struct {
	name string
	args []string
	want string // part of the one line
}

//lint:long a table: one line for each way to be wrong
func TestWrongInputIsRefusedBeforeAnythingHappens(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return "@" + path
	}
	create := func(more ...string) []string {
		return append([]string{"endpoint", "create", "--url", someURL, "--types", "order.*"}, more...)
	}
	publish := func(more ...string) []string {
		return append([]string{"event", "publish", "--type", "order.paid", "--data", "{}"}, more...)
	}
	tests := []mistake{
		{"no command", []string{}, "waybill needs a command"},
		{"a command that does not exist", []string{"endpont"}, `did you mean "endpoint"?`},
		{"a group without a command", []string{"endpoint"}, "waybill endpoint needs a command"},
		{"a flag that does not exist", []string{"up", "--dta", "x"}, "unknown flag: --dta"},
		{"an argument too many", []string{"up", "now"}, `want no arguments, got 1: "now"`},
		{"up: sync", []string{"up", "--sync", "never"}, `--sync "never": want "always"`},
		{"up: sync below a millisecond", []string{"up", "--sync", "1ns"}, "--sync"},
		{"up: partitions", []string{"up", "--partitions", "-1"}, "--partitions -1: want 1 to 100"},
		{"up: drain", []string{"up", "--drain-timeout", "-1s"}, "--drain-timeout"},
		{"up: log level", []string{"up", "--log-level", "loud"}, "--log-level"},
		{"up: log format", []string{"up", "--log-format", "xml"}, "--log-format"},
		{"up: egress", []string{"up", "--egress-allow", "10.0.0.0/33"}, "--egress-allow"},
		{"up: http address", []string{"up", "--http", "8080"}, `--http "8080": want host:port`},
		{"up: nats address", []string{"up", "--nats", "127.0.0.1:x"}, "--nats"},
		{"up: clickhouse address", []string{"up", "--clickhouse-native", "127.0.0.1:99999"}, "--clickhouse-native"},
		{"up: clickhouse http address", []string{"up", "--clickhouse-http", ""}, "--clickhouse-http"},
		{"up: clickhouse DSN", []string{"up", "--clickhouse", "localhost:9000"}, "--clickhouse: ClickHouse DSN"},
		{"demo: sync", []string{"demo", "--sync", "never"}, "--sync"},
		{"create: no url", []string{"endpoint", "create", "--types", "a"}, "--url is missing; for example: --url https://"},
		{"create: no types", []string{"endpoint", "create", "--url", someURL}, "--types is missing"},
		{"create: url", []string{"endpoint", "create", "--url", "ftp://x", "--types", "a"}, "--url"},
		{"create: types", []string{"endpoint", "create", "--url", someURL, "--types", "a..b"}, "--types"},
		{"create: tenant", create("--tenant", "a b"), "--tenant"},
		{"create: scheme", create("--scheme", "v2"), `--scheme "v2": want v1, v1a or t,v1`},
		{"create: header", create("--signature-header", "a b"), "--signature-header"},
		{"create: timeout", create("--timeout", "1h"), "--timeout 1h0m0s: want 1ms to 30s"},
		{"create: max in flight", create("--max-in-flight", "0"), "--max-in-flight 0: want 1 to 1000"},
		{"create: deadline", create("--deliver-within", "-1s"), "--deliver-within"},
		{"create: policy name", create("--policy", "fast"), "--policy"},
		{"create: policy field", create("--policy", `{"max_attempt":3}`), "--policy"},
		{"create: policy file", create("--policy", "@/no/such/file"), "name a file that can be read"},
		{"create: policy in a file", create("--policy", write("policy", `{"delays":["x"]}`)), "--policy"},
		{"create: a header without a name", create("--header", "secret-value"), "--header number 1: want 'Name: value'"},
		{"create: a header twice", create("--header", "X-A: 1", "--header", "x-a: 2"), "--header x-a is given twice"},
		{"create: a header's file", create("--header", "X-A: @/no/such/file"), "name a file that can be read"},
		{"create: authorization file", create("--authorization-file", "/no/such/file"), "--authorization-file"},
		{"create: an empty authorization file", create("--authorization-file", write("empty", " \n")[1:]), "is empty"},
		{"create: a certificate without its key", create("--client-cert", "c.pem"),
			"--client-cert and --client-key belong together"},
		{"create: a certificate that is not there", create("--client-cert", "/no/such", "--client-key", "/no/such"),
			"--client-cert"},
		{"create: CA file", create("--ca", "/no/such/file"), "--ca"},
		{"create: half of OAuth 2.0", create("--oauth2-token-url", "https://id.example.com/t"),
			"belong together; give all three"},
		{"create: scopes alone", create("--oauth2-scopes", "a"), "need --oauth2-token-url"},
		{"create: disable after", create("--disable-after", "-1h"), "--disable-after -1h0m0s: want 0s or more"},
		{"update: remove what there is not", []string{"endpoint", "update", someEndpoint, "--remove", "everything"},
			`--remove "everything": want headers`},
		{"up: proxy", []string{"up", "--egress-proxy", "proxy.example.com:3128"}, "--egress-proxy"},
		{"up: proxy on a private address", []string{"up", "--egress-proxy", "http://10.0.0.1:3128"}, "--egress-allow"},
		{"create: secret file", create("--secret", "@/no/such/file"), "--secret"},
		{"create: output", create("-o", "yaml"), `--output "yaml": want table, wide or json`},
		{"channel: no kind", []string{"channel", "create", "desk"}, "--kind is missing; for example: --kind slack"},
		{"channel: kind", []string{"channel", "create", "desk", "--kind", "fax"}, `--kind "fax": want webhook, pagerduty`},
		{"channel: name", []string{"channel", "create", "a b", "--kind", "slack"}, `name: "a b"; want 1 to 64 letters`},
		{"channel: no name", []string{"channel", "create", "--kind", "slack"}, "want one name, got none"},
		{"channel: secret file", []string{"channel", "create", "desk", "--kind", "slack", "--secret", "@/no/such/file"},
			"--secret"},
		{"channel: output", []string{"channel", "list", "-o", "xml"}, `--output "xml"`},
		{"channel update: nothing", []string{"channel", "update", "desk"}, "nothing to change"},
		{"channel test: ca file", []string{"channel", "test", "desk", "--ca-file", "/no/such/file", "--nats-url",
			"nats://127.0.0.1:1"}, "--ca-file"},
		{"up: ca file", []string{"up", "--ca-file", "/no/such/file"}, "--ca-file"},
		{"escalation policy: no step", []string{"escalation-policy", "create", "p"},
			"--step is missing; for example: --step 0s:"},
		{"escalation policy: step", []string{"escalation-policy", "create", "p", "--step", "desk"},
			`--step "desk": want AFTER:CHANNEL`},
		{"escalation policy: step without a channel", []string{"escalation-policy", "create", "p", "--step", "0s:,"},
			"names no channel"},
		{"escalation policy: step in the past", []string{"escalation-policy", "create", "p", "--step", "-1s:desk"}, "--step"},
		{"escalation policy: no change", []string{"escalation-policy", "update", "p"},
			"nothing to change; name at least one setting"},
		{"escalation policy: change to a step without a channel",
			[]string{"escalation-policy", "update", "p", "--step", "0s:,"}, "names no channel"},
		{"escalation policy: name", []string{"escalation-policy", "create", "a/b", "--step", "0s:desk"}, "name:"},
		{"escalation: state", []string{"escalation", "list", "--state", "closed"},
			`--state "closed": want open, acknowledged or expired`},
		{"escalation: tenant", []string{"escalation", "list", "--tenant", "a.b"}, "--tenant"},
		{"escalation ack: nobody", []string{"escalation", "ack", "inc_1"}, "--by is missing; for example: --by ann@"},
		{"escalation show: no id", []string{"escalation", "show"}, "want one incident id, got none"},
		{"deadletter: resolution", []string{"deadletter", "list", "--resolution", "lost"}, `--resolution "lost": want open`},
		{"deadletter: limit", []string{"deadletter", "list", "--limit", "0"}, "--limit 0: want 1 to"},
		{"deadletter: since", []string{"deadletter", "list", "--since", "monday"}, `--since "monday"`},
		{"deadletter: endpoint", []string{"deadletter", "list", "--endpoint", "x"}, "is no endpoint id"},
		{"deadletter ack: nobody", []string{"deadletter", "ack", "evt-1"}, "--by is missing"},
		{"deadletter ack: event", []string{"deadletter", "ack", "a b", "--by", "ann"}, "event"},
		{"deadletter ack: endpoint", []string{"deadletter", "ack", "evt-1", "--by", "ann", "--endpoint", "x"},
			"is no endpoint id"},
		{"deadletter resolve: nobody", []string{"deadletter", "resolve", "evt-1", "--reason", "x"}, "--by is missing"},
		{"deadletter resolve: no reason", []string{"deadletter", "resolve", "evt-1", "--by", "ann"}, "--reason is missing"},
		{"list: tenant", []string{"endpoint", "list", "--tenant", "a.b"}, "--tenant"},
		{"show: no id", []string{"endpoint", "show"}, "want one endpoint id, got none"},
		{"show: two ids", []string{"endpoint", "show", "a", "b"}, "want one endpoint id, got 2: "},
		{"show: id", []string{"endpoint", "show", "ep_x"}, `"ep_x" is no endpoint id`},
		{"update: id", []string{"endpoint", "update", "x"}, "is no endpoint id"},
		{"update: nothing", []string{"endpoint", "update", someEndpoint}, "nothing to change"},
		{"update: timeout", []string{"endpoint", "update", someEndpoint, "--timeout", "0s"}, "--timeout"},
		{"enable: id", []string{"endpoint", "enable", "x"}, "is no endpoint id"},
		{"disable: id", []string{"endpoint", "disable", "x", "--reason", "y"}, "is no endpoint id"},
		{"disable: no reason", []string{"endpoint", "disable", someEndpoint}, "--reason is missing"},
		{"delete: id", []string{"endpoint", "delete", "x"}, "is no endpoint id"},
		{"rotate: id", []string{"endpoint", "rotate-secret", "x"}, "is no endpoint id"},
		{"rotate: overlap", []string{"endpoint", "rotate-secret", someEndpoint, "--overlap", "-1h"}, "--overlap"},
		{"test: id", []string{"endpoint", "test", "x"}, "is no endpoint id"},
		{"publish: no type", []string{"event", "publish", "--data", "{}"}, "--type is missing"},
		{"publish: no data", []string{"event", "publish", "--type", "a"}, "--data is missing"},
		{"publish: data", publish("--data", "{"), "--data is not one JSON value"},
		{"publish: data that closes the event", publish("--data", `1,"id":"x"`), "--data is not one JSON value"},
		{"publish: file", publish("--data", "@/no/such/file"), "name a file that can be read"},
		{"publish: type", publish("--type", "a..b"), "type"},
		{"publish: id", publish("--id", "a b"), "id"},
		{"publish: tenant", publish("--tenant", "*"), "--tenant"},
		{"publish: timestamp", publish("--timestamp", "yesterday"), "timestamp"},
		{"publish: deadline", publish("--deliver-by", "soon"), `--deliver-by "soon": want RFC 3339`},
		{"publish: deadline in the past", publish("--deliver-by", "2020-01-01T00:00:00Z"), "is in the past"},
		{"publish: half a subject", publish("--subject-type", "order"), "--subject-type and --subject-id"},
		{"publish: too large", publish("--data", write("large", `"`+strings.Repeat("x", 300<<10)+`"`)),
			"more than 262144 bytes"},
		{"publish: ndjson with a type", []string{"event", "publish", "--ndjson", "--data", "-", "--type", "a"},
			"--type does not go with --ndjson"},
		{"publish: ndjson without data", []string{"event", "publish", "--ndjson"}, "--data is missing"},
		{"publish: ndjson with a bad line", []string{"event", "publish", "--ndjson", "--data",
			write("lines", "{\"type\":\"a\",\"data\":1}\n\n{\"type\":\"a\"}\n")}, "line 3: data"},
		{"publish: empty ndjson", []string{"event", "publish", "--ndjson", "--data", "-"}, "holds no event"},
		{"event show: no id", []string{"event", "show"}, "want one event id"},
		{"event show: id", []string{"event", "show", "a b"}, "id"},
		{"list: state", []string{"delivery", "list", "--state", "dead"}, `--state "dead": want pending`},
		{"list: since", []string{"delivery", "list", "--since", "monday"}, `--since "monday": want RFC 3339`},
		{"list: until", []string{"delivery", "list", "--until", "-1h"}, "--until"},
		{"list: limit", []string{"delivery", "list", "--limit", "0"}, "--limit 0: want 1 to 100000"},
		{"list: endpoint", []string{"delivery", "list", "--endpoint", "x"}, "is no endpoint id"},
		{"list: event", []string{"delivery", "list", "--event", "a b"}, "id"},
		{"delivery show: endpoint", []string{"delivery", "show", "e1", "--endpoint", "x"}, "is no endpoint id"},
		{"delivery show: no id", []string{"delivery", "show"}, "want one event id"},
		{"wait: timeout", []string{"delivery", "wait", "e1", "--timeout", "0s"}, "--timeout 0s: want more than 0s"},
		{"wait: no id", []string{"delivery", "wait"}, "want one event id"},
		{"replay: no reason", []string{"replay", "event", "e1"}, "--reason is missing"},
		{"replay: no id", []string{"replay", "event", "--reason", "x"}, "want one event id"},
		{"replay: endpoint", []string{"replay", "event", "e1", "--reason", "x", "--endpoint", "y"}, "is no endpoint id"},
		{"streams: server", []string{"streams", "check", "--nats-url", "nats://jo:secret@%zz"},
			"--nats-url: not a list of URLs"},
		{"streams: replicas", []string{"streams", "apply", "--replicas", "2"}, "--replicas 2: want 1, 3 or 5"},
		{"streams: partitions", []string{"streams", "check", "--partitions", "101"}, "--partitions 101: want 1 to 100"},
		{"doctor: partitions", []string{"doctor", "--partitions", "101"}, "--partitions 101: want 1 to 100"},
		{"doctor: monitoring", []string{"doctor", "--nats-monitor", "127.0.0.1:8222"}, "--nats-monitor"},
		{"doctor: time", []string{"doctor", "--read-for", "0s"}, "--read-for 0s: want more than 0s"},
		{"doctor: output", []string{"doctor", "-o", "xml"}, "--output"},
		{"streams: output", []string{"streams", "show", "-o", "xml"}, "--output"},
	}
	tests = append(tests, auditMistakes(write)...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(dir)
			code, out, errs := run(t, "", tt.args...)
			if code != process.ExitUsage {
				t.Errorf("exit %d, want %d", code, process.ExitUsage)
			}
			if !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 || !strings.HasSuffix(errs, "--help\n") {
				t.Errorf("stderr %q; want one line with %q that ends in where the help is", errs, tt.want)
			}
			if out != "" {
				t.Errorf("stdout %q; want nothing", out)
			}
			if _, err := os.Stat(filepath.Join(dir, "waybill-data")); err == nil {
				t.Error("a data directory was made")
			}
		})
	}
}

func TestACommandWithoutADeploymentSaysWhatWasTriedAndWhatToDo(t *testing.T) {
	for _, args := range [][]string{
		{"endpoint", "list"},
		{"endpoint", "create", "--url", someURL, "--types", "a"},
		{"event", "publish", "--type", "a", "--data", "1"},
		{"delivery", "list"},
		{"replay", "event", "e1", "--reason", "x"},
		{"streams", "check"},
		{"doctor", "--read-for", "1s"},
	} {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			t.Chdir(t.TempDir())
			code, _, errs := run(t, "", args...)
			if code != process.ExitFailed || !strings.Contains(errs,
				"nothing runs on data directory ./waybill-data; start it with: waybill up --data-dir ./waybill-data") {
				t.Errorf("exit %d, %q", code, errs)
			}
			code, _, errs = run(t, "", append(args, "--addresses", "a.json")...)
			if code != process.ExitFailed || !strings.Contains(errs,
				"a.json is not there: is this running? waybill up --addresses a.json") {
				t.Errorf("exit %d, %q", code, errs)
			}
		})
	}
}

func TestAServerThatDoesNotAnswerIsNamed(t *testing.T) {
	code, _, errs := run(t, "", "endpoint", "list", "--nats-url", "nats://127.0.0.1:1")
	if code != process.ExitFailed || !strings.Contains(errs, "cannot connect to NATS at nats://127.0.0.1:1") {
		t.Errorf("exit %d, %q", code, errs)
	}
}
