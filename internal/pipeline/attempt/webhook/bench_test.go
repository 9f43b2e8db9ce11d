package webhook

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
)

func benchReceiver(b *testing.B) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "ok")
	}))
	b.Cleanup(s.Close)
	return s.URL
}

// BenchmarkTry is one attempt against a receiver on this machine, 1 KiB body.
func BenchmarkTry(b *testing.B) {
	url := benchReceiver(b)
	c := newTestClient(b, Options{})
	req := post(url, patient)
	req.Body = make([]byte, 1024)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if res := c.Try(context.Background(), req); res.Outcome != outcome.Delivered {
				b.Fatalf("%s %s", res.Outcome, res.Err)
			}
		}
	})
}

// BenchmarkTightLoop is the ceiling to compare with: net/http as bare as it gets.
func BenchmarkTightLoop(b *testing.B) {
	url := benchReceiver(b)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	body := make([]byte, 1024)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := client.Post(url, "application/json", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}
