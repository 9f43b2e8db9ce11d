package ingest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waybill-dev/waybill/internal/pipeline/ingest"
)

// Events of 1 KB over real HTTP into a real server, client included.

func BenchmarkSingle(b *testing.B) { benchmark(b, 1) }

func BenchmarkBatchOf100(b *testing.B) { benchmark(b, 100) }

func benchmark(b *testing.B, size int) {
	s := start(b, nil)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	data := `"` + strings.Repeat("x", 900) + `"`
	var next atomic.Int64
	b.SetParallelism(64)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var body bytes.Buffer
			for range size {
				body.WriteString(event(fmt.Sprint("b-", next.Add(1)), "t", data))
				body.WriteByte('\n')
			}
			kind := map[bool]string{true: "application/json", false: "application/x-ndjson"}[size == 1]
			res, err := client.Post(s.url+ingest.Path, kind, &body)
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if res.StatusCode != http.StatusAccepted {
				b.Errorf("answered %d", res.StatusCode)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "events/s")
}
