package ledger_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// BenchmarkDisk measures what a delivery takes on disk, with two deliveries an
// event: event.accepted, delivery.owed and attempt. Run it with -benchtime=1x.
func BenchmarkDisk(b *testing.B) {
	const events, batch = 100_000, 20_000
	db, conn, _ := open(b)
	rnd := rand.New(rand.NewPCG(1, 2))
	at := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	var rows []ledger.Row
	var bodies int
	add := func(r record.Record) {
		at = at.Add(time.Duration(rnd.ExpFloat64() * float64(200*time.Microsecond)))
		r.At, r.Tenant = at, fmt.Sprintf("tenant-%d", rnd.IntN(20))
		rows = append(rows, row(b, uint64(len(rows)), r))
		bodies += len(rows[len(rows)-1].Body)
	}
	for range events {
		event := ids.New(ids.Event, at)
		add(record.Record{ID: record.EventRecordID(uint64(len(rows)), at), Kind: record.EventAccepted, EventID: event,
			EventType: "order.paid",
			EventAt:   at, EventSeq: uint64(len(rows)), StoredAt: at, DataDigest: digest(rnd), DataBytes: 1024, Endpoints: 2,
			SubjectType: "order", SubjectID: fmt.Sprint(rnd.Uint32())})
		for range 2 {
			n := rnd.IntN(200)
			endpoint := fmt.Sprintf("ep_01JB2W8Z6Y3K5M7N9P1Q2R3%03d", n)
			add(record.Record{ID: record.OwedID(event, endpoint, ""), Kind: record.DeliveryOwed, EventID: event,
				EndpointID: endpoint, EventType: "order.paid",
				EventSeq: uint64(len(rows)), EndpointRevision: 3})
			add(attemptOf(rnd, event, endpoint, n, at))
		}
	}
	began := time.Now()
	for i := 0; i < len(rows); i += batch {
		if err := db.Append(context.Background(), rows[i:min(i+batch, len(rows))]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(rows))/time.Since(began).Seconds(), "records/s")
	if err := conn.Exec(context.Background(), "OPTIMIZE TABLE records FINAL"); err != nil {
		b.Fatal(err)
	}
	s, err := db.Storage(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(s.Bytes)/(2*events), "B/delivery")
	b.ReportMetric(float64(bodies)/float64(len(rows)), "body-B/record")
	for _, line := range lines(b, conn, `SELECT (name, sum(column_data_compressed_bytes) AS c) FROM system.parts_columns AS p
		WHERE database = currentDatabase() AND table = 'records' AND active GROUP BY column AS name ORDER BY c DESC LIMIT 12`) {
		b.Log(line)
	}
	for _, line := range lines(b, conn, `SELECT (name, data_compressed_bytes) FROM system.data_skipping_indices
		WHERE database = currentDatabase() AND table = 'records' ORDER BY data_compressed_bytes DESC`) {
		b.Log("index", line)
	}
}

func attemptOf(rnd *rand.Rand, event, endpoint string, n int, at time.Time) record.Record {
	return record.Record{ID: ids.New(ids.Attempt, at), Kind: record.Attempt, EventID: event, EndpointID: endpoint,
		EventType: "order.paid", Attempt: 1,
		StartedAt: at.Add(-time.Duration(rnd.IntN(90_000_000))), ConnectUS: int64(rnd.IntN(3000)),
		FirstByteUS: int64(rnd.IntN(80_000)), DurationUS: int64(rnd.IntN(90_000)),
		Status: 200, Outcome: "delivered", Class: "delivered", Decision: "delivered",
		URL:        fmt.Sprintf("https://hooks-%d.example.com/in", n),
		RemoteAddr: fmt.Sprintf("203.0.113.%d:443", n), HTTPVersion: "HTTP/2.0", TLSVersion: "1.3",
		PeerFingerprint: strings.Repeat(fmt.Sprintf("%02x", n), 32),
		PayloadDigest:   digest(rnd), PayloadBytes: 1100 + rnd.IntN(40), SignatureScheme: "v1",
		KeyIDs: []string{fmt.Sprint("key_", n)}, SignedAt: at.Truncate(time.Second),
		ResponseHeaders: map[string]string{"content-type": "application/json", "date": at.Format(time.RFC1123)},
		ResponseExcerpt: `{"ok":true}`,
		ResponseBytes:   11, Dispatcher: "host-1/4711", Software: "0.1.0", EndpointRevision: 3}
}

func digest(rnd *rand.Rand) string {
	sum := sha256.Sum256(fmt.Append(nil, rnd.Uint64()))
	return hex.EncodeToString(sum[:])
}
