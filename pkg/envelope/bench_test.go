package envelope_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

// kilobyte is a typical event of 1 KB: nested objects, short strings, numbers.
func kilobyte() []byte {
	var rows []string
	for i := range 9 {
		rows = append(rows, fmt.Sprintf(`{"line":%d,"sku":"SKU-%06d","qty":%d,"unitPrice":%d.50,"from":"Łódź","gift":false}`,
			i, i*7919, i+1, i*13))
	}
	return []byte(`{"id":"evt_01K2YXQ8N3M4P5Q6R7S8T9V0W1","type":"payment.captured","timestamp":"2026-08-19T14:32:07.421Z",` +
		`"deliver_by":"2026-08-19T15:02:07Z","subject":{"type":"payment","id":"pay_17"},"data":{"lines":[` +
		strings.Join(rows, ",") + `]}}`)
}

func BenchmarkParse1KB(b *testing.B) {
	in := kilobyte()
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := envelope.Parse(in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendBody1KB(b *testing.B) {
	e, buf := mustParse(b, kilobyte()), make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = e.AppendBody(buf[:0], 3)
	}
}

func BenchmarkSetHeaders1KB(b *testing.B) {
	e := mustParse(b, kilobyte())
	body := e.AppendBody(nil, 1)
	for _, f := range families(b) {
		b.Run(strings.ReplaceAll(f.name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			h := http.Header{}
			for b.Loop() {
				if err := envelope.SetHeaders(h, f.signers[:1], stampedHeader, e.ID, signedAt, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify1KB(b *testing.B) {
	body := mustParse(b, kilobyte()).AppendBody(nil, 1)
	for _, f := range families(b) {
		b.Run(strings.ReplaceAll(f.name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			h, v := f.headers(b, f.signers[:1], body), f.with(f.verifier.Keys[0])
			for b.Loop() {
				if err := v.Verify(h, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDigest1KB(b *testing.B) {
	body := mustParse(b, kilobyte()).AppendBody(nil, 1)
	b.ReportAllocs()
	for b.Loop() {
		envelope.DigestHex(body)
	}
}
