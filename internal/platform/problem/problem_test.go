package problem_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/problem"
)

func guarded(t *testing.T, listen string) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: problem.Guard(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { problem.WriteJSON(w, http.StatusOK, "served") }))}}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func TestALoopbackListenerIsCalledByALoopbackNameOnly(t *testing.T) {
	s := guarded(t, "127.0.0.1:0")
	for host, want := range map[string]int{
		"localhost": 200, "localhost:1": 200, "LOCALHOST.": 200, "app.localhost:80": 200, "127.0.0.1": 200,
		"127.9.9.9:80": 200, "[::1]": 200, "[::1]:80": 200,
		"example.com": 403, "example.com:80": 403, "127.0.0.1.example.com": 403, "localhost.example.com": 403,
		"notlocalhost": 403,
		"10.0.0.1":     403, "[fd00::1]": 403, "0.0.0.0": 403, "2130706433": 403, "127.1": 403,
	} {
		req, err := http.NewRequest("GET", s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if got := status(t, req); got != want {
			t.Errorf("Host %s is answered %d, want %d", host, got, want)
		}
	}
}

func TestAPageMayChangeThingsAtItsOwnOriginOnly(t *testing.T) {
	s := guarded(t, "127.0.0.1:0")
	for name, c := range map[string]struct {
		method, header, value string
		want                  int
	}{
		"no browser":              {"POST", "X", "y", 200},
		"its own origin":          {"POST", "Origin", s.URL, 200},
		"another port":            {"POST", "Origin", "http://127.0.0.1:1", 403},
		"another host":            {"POST", "Origin", "https://example.com", 403},
		"no origin to speak of":   {"POST", "Origin", "null", 403},
		"another site, fetched":   {"PATCH", "Sec-Fetch-Site", "cross-site", 403},
		"a sibling, fetched":      {"DELETE", "Sec-Fetch-Site", "same-site", 403},
		"the same, fetched":       {"DELETE", "Sec-Fetch-Site", "same-origin", 200},
		"reading changes nothing": {"GET", "Origin", "https://example.com", 200},
	} {
		req, err := http.NewRequest(c.method, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(c.header, c.value)
		if got := status(t, req); got != c.want {
			t.Errorf("%s is answered %d, want %d", name, got, c.want)
		}
	}
}

func status(t *testing.T, req *http.Request) int {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

func TestAProblemIsWrittenWithItsHeaders(t *testing.T) {
	w := httptest.NewRecorder()
	p := problem.New(503, "full", "no room").Of("event")
	p.RetryAfter, p.Allow = 1500*time.Millisecond, []string{"GET", "POST"}
	p.Write(w)
	if h := w.Header(); h.Get("Retry-After") != "2" || h.Get("Allow") != "GET, POST" ||
		h.Get("Content-Type") != problem.ContentType {
		t.Errorf("headers %v", h)
	}
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 503 || got["status"] != 503.0 ||
		got["field"] != "event" || got["type"] != "urn:waybill:problem:full" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestWhatCannotBeEncodedIsNotHalfAnAnswer(t *testing.T) {
	w := httptest.NewRecorder()
	problem.WriteJSON(w, 200, map[string]any{"a": make(chan int)})
	if w.Code != 500 || w.Header().Get("Content-Type") != problem.ContentType || !json.Valid(w.Body.Bytes()) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
