package interop

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// node is the path of Node.js, after checking that the packages are there.
func node(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("%v; install Node.js 20 or later, then run: cd test/interop/node && npm ci --ignore-scripts", err)
	}
	// Looking at what Node.js is going to run also makes go test run again,
	// rather than answer from its cache, when that changes.
	for _, file := range []string{
		"verify.mjs", "receiver.mjs", "package-lock.json",
		"node_modules/standardwebhooks/package.json", "node_modules/svix/package.json", "node_modules/stripe/package.json",
	} {
		if _, err := os.Stat("node/" + file); err != nil {
			t.Fatalf("%v; run: cd test/interop/node && npm ci --ignore-scripts", err)
		}
	}
	return path
}

func signedByStandardWebhooks(t *testing.T, body []byte) (http.Header, []byte) {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(oldSecret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	signature, err := wh.Sign("evt_1", now, body)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set(standardwebhooks.HeaderWebhookID, "evt_1")
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return h, body
}

// line is what node/verify.mjs reads, verdict what it writes.
type line struct {
	Name     string            `json:"name"`
	Verifier string            `json:"verifier"`
	Secret   string            `json:"secret"`
	Headers  map[string]string `json:"headers"`
	Body     string            `json:"body"`
}

type verdict struct {
	Name     string `json:"name"`
	Verifier string `json:"verifier"`
	Accepted bool   `json:"accepted"`
	Error    string `json:"error"`
}

func TestNodeVerifiersJudgeOurRequestsRight(t *testing.T) {
	path := node(t)
	var sent []request
	var in bytes.Buffer
	encode := json.NewEncoder(&in)
	for _, v := range []struct {
		name    string
		secrets secrets
		extra   []request
	}{
		{"standardwebhooks", hmacSecrets, bothFamilies(t, oldSecret)},
		{"svix", hmacSecrets, bothFamilies(t, oldSecret)},
		{"stripe", stampedSecrets, nil},
		{"ed25519", ed25519Secrets, bothFamilies(t, publicHalf(t, oldPair))},
	} {
		rs := append(requests(t, v.secrets), v.extra...)
		tally(t, v.name, rs)
		for _, r := range rs {
			l := line{r.name, v.name, r.secret, map[string]string{}, base64.StdEncoding.EncodeToString(r.body)}
			for name := range r.header {
				l.Headers[strings.ToLower(name)] = r.header.Get(name)
			}
			if err := encode.Encode(l); err != nil {
				t.Fatal(err)
			}
		}
		sent = append(sent, rs...)
	}

	cmd := exec.CommandContext(t.Context(), path, "verify.mjs")
	cmd.Dir, cmd.Stdin, cmd.Stderr = "node", &in, t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node verify.mjs: %v", err)
	}
	verdicts := json.NewDecoder(bytes.NewReader(out))
	for _, r := range sent {
		var v verdict
		if err := verdicts.Decode(&v); err != nil {
			t.Fatalf("no verdict for %s: %v", r.name, err)
		}
		if v.Name != r.name {
			t.Fatalf("a verdict for %s; want one for %s", v.Name, r.name)
		}
		var refusal error
		if !v.Accepted {
			refusal = errors.New(v.Error)
		}
		judge(t, "node, "+v.Verifier, r, refusal)
	}
	if verdicts.More() {
		t.Error("more verdicts than requests")
	}
}
