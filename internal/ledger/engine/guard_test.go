package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger/engine"
)

// TestNoWebPageGetsAnAnswer does what a page of the web can have a browser do
// with the HTTP port, whoever looks at it.
func TestNoWebPageGetsAnAnswer(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Options{User: "owner", Password: "right"})
	const ask = "/?user=owner&password=right&query=SELECT%20'an'||'swer'"
	for _, c := range []struct {
		name, method, path string
		header             map[string]string
		answered           bool
	}{
		{"a program", "GET", ask, nil, true},
		{"a program that posts", "POST", ask, nil, true},
		{"by the name localhost", "GET", ask, map[string]string{"Host": "localhost:1"}, true},
		{"by IPv6", "GET", ask, map[string]string{"Host": "[::1]:8123"}, true},
		{"the address bar of a browser", "GET", ask, map[string]string{"Sec-Fetch-Site": "none"}, true},
		{"the other path of queries", "GET", "/query" + strings.TrimPrefix(ask, "/"), nil, true},
		{"a page that wants to read", "GET", ask + "&add_http_cors_header=1",
			map[string]string{"Origin": "https://evil.example"}, false},
		{"a page that posts", "POST", ask, map[string]string{"Origin": "https://evil.example", "Content-Type": "text/plain"},
			false},
		{"a page without an origin", "POST", ask, map[string]string{"Origin": "null"}, false},
		{"a page that embeds", "GET", ask, map[string]string{"Sec-Fetch-Site": "cross-site"}, false},
		{"a page of another port here", "GET", ask, map[string]string{"Sec-Fetch-Site": "same-site"}, false},
		{"a name that was made to point here", "GET", ask, map[string]string{"Host": "evil.example"}, false},
		{"a name that begins like ours", "GET", ask, map[string]string{"Host": "localhost.evil.example:80"}, false},
		{"a name that ends like ours", "GET", ask, map[string]string{"Host": "127.0.0.1.evil.example"}, false},
		{"a program that switches CORS on", "GET", ask + "&add_http_cors_header=1", nil, false},
		{"the page for queries", "GET", "/play", nil, false},
		{"the dashboard", "GET", "/dashboard", nil, false},
		{"the terminal", "GET", "/webterminal", nil, false},
		{"a preflight", "OPTIONS", "/", map[string]string{"Origin": "https://evil.example",
			"Access-Control-Request-Method": "POST"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, header, body := request(t, c.method, "http://"+e.HTTPAddr()+c.path, c.header)
			if got := status == http.StatusOK && body == "answer\n"; got != c.answered {
				t.Errorf("answered: %v, want %v: %d %q", got, c.answered, status, body)
			}
			if !c.answered && status < 400 {
				t.Errorf("status %d, want a refusal: %q", status, body)
			}
			for name := range header {
				if strings.HasPrefix(name, "Access-Control-Allow-") {
					t.Errorf("the answer has %s: %v", name, header[name])
				}
			}
		})
	}
	if status, _, body := request(t, "GET", "http://"+e.HTTPAddr()+"/ping", nil); status != http.StatusOK ||
		body != "Ok.\n" {
		t.Errorf("/ping: %d %q", status, body)
	}
}

func request(t *testing.T, method, url string, header map[string]string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		if k == "Host" {
			r.Host = v
			continue
		}
		r.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(fmt.Errorf("%s %s: %w", method, url, err))
	}
	return resp.StatusCode, resp.Header, string(b)
}
