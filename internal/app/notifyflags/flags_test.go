package notifyflags_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/notifyflags"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/test/testkit"
)

func keyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets.key")
	if _, err := sealed.CreateFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func parse(t *testing.T, args ...string) (*notifyflags.Flags, error) {
	t.Helper()
	var flags notifyflags.Flags
	f := pflag.NewFlagSet("escalator", pflag.ContinueOnError)
	flags.Bind(f, "escalator")
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &flags, flags.Check()
}

func TestTheSenderIsAsTheFlagsSay(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	proxy := testkit.NewProxy(t)
	flags, err := parse(t, "--secrets-key-file", keyFile(t), "--egress-allow", "127.0.0.0/8", "--egress-proxy", proxy.URL,
		"--name", "here", "--link", "http://waybill/{id}")
	if err != nil {
		t.Fatal(err)
	}
	s := flags.Sender(nil)
	defer s.Close()
	if r := s.Send(t.Context(), channel.Channel{Kind: channel.Slack, Secret: channel.Secret(server.URL)},
		channel.Message{ID: "m-1", Action: channel.Test}); !r.Told() {
		t.Errorf("%+v", r)
	}
	if asked := strings.Join(proxy.Asked(), " "); asked != "CONNECT "+strings.TrimPrefix(server.URL, "http://") {
		t.Errorf("the proxy was asked %q", asked)
	}
	if name, err := flags.Name(); err != nil || name != "here" || flags.Link()("inc_1") != "http://waybill/inc_1" ||
		flags.Keys() == nil {
		t.Errorf("%q, %v, %q, %v", name, err, flags.Link()("inc_1"), flags.Keys())
	}
}

func TestWithoutFlagsTheNameIsUniqueAndNothingPrivateIsCalled(t *testing.T) {
	flags, err := parse(t, "--secrets-key-file", keyFile(t))
	if err != nil {
		t.Fatal(err)
	}
	one, err := flags.Name()
	if err != nil {
		t.Fatal(err)
	}
	if two, err := flags.Name(); err != nil || one == two || flags.Link() != nil {
		t.Errorf("%q and %q, %v; link %v", one, two, err, flags.Link() != nil)
	}
	s := flags.Sender(nil)
	defer s.Close()
	if r := s.Send(t.Context(), channel.Channel{Kind: channel.Slack, Secret: "http://127.0.0.1:1/"},
		channel.Message{ID: "m-1"}); r.Outcome != "address_blocked" {
		t.Errorf("%+v", r)
	}
}

func TestAWrongFlagIsNamed(t *testing.T) {
	key := keyFile(t)
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"a network that is none": {[]string{"--secrets-key-file", key, "--egress-allow", "x"}, "--egress-allow"},
		"a proxy that is none": {[]string{"--secrets-key-file", key, "--egress-proxy", "socks5://x:1"},
			"--egress-proxy"},
		"a proxy that may not be called": {[]string{"--secrets-key-file", key, "--egress-proxy", "http://127.0.0.1:3128"},
			"--egress-proxy"},
		"a link without the id":        {[]string{"--secrets-key-file", key, "--link", "http://waybill/"}, "{id}"},
		"no keys":                      {nil, "--secrets-key-file is missing"},
		"a key file that is not there": {[]string{"--secrets-key-file", "/no/such/file"}, "waybill key generate"},
		"a policy that is none": {[]string{"--secrets-key-file", key, "--redaction-policy", key},
			"--redaction-policy"},
		"certificates that are not": {[]string{"--secrets-key-file", key, "--ca-file", key}, "--ca-file"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(t, c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want it to say %q", err, c.says)
			}
		})
	}
}

// What a channel's server says goes on record, so the policy is that of the dispatchers.
func TestTheSenderKeepsWhatThePolicyLets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("no room for TKT-4711"))
	}))
	defer server.Close()
	policy := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(policy, []byte(`{"patterns":[{"kind":"ticket","pattern":"TKT-\\d+"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, more := range map[string][]string{"no room for TKT-4711": nil,
		"no room for [ticket]": {"--redaction-policy", policy}} {
		flags, err := parse(t, append([]string{"--secrets-key-file", keyFile(t), "--egress-allow", "127.0.0.0/8"},
			more...)...)
		if err != nil {
			t.Fatal(err)
		}
		s := flags.Sender(nil)
		defer s.Close()
		r := s.Send(t.Context(), channel.Channel{Kind: channel.Slack, Secret: channel.Secret(server.URL)},
			channel.Message{ID: "m-1", Action: channel.Test})
		if !strings.Contains(r.Error, want) {
			t.Errorf("%v: on record is %q, want %q", more, r.Error, want)
		}
	}
}
