package record

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// samples are bodies as Encode writes them, and bodies that only look like it.
func samples(t testing.TB) []string {
	t.Helper()
	at := time.Date(2026, 11, 2, 3, 4, 5, 678_900_000, time.UTC)
	full := Record{ID: "att_1", Kind: Attempt, At: at, Tenant: "acme", EventID: "evt_1", EndpointID: "ep_1", Attempt: 3,
		StartedAt: at, DurationUS: 71_000, Status: 200, Outcome: "delivered", URL: "https://example.com/ü", Reused: true,
		KeyIDs: []string{"a", "<b>"}, ResponseHeaders: map[string]string{"x": "\"}{][,"},
		ResponseExcerpt:  "a\nb <&> \u2028 \\",
		EndpointRevision: 1<<64 - 1, Redactions: -3, EventTypes: []string{}}
	body, err := full.Encode()
	if err != nil {
		t.Fatal(err)
	}
	head := `{"v":1,"id":"x","kind":"attempt","at":"2026-11-02T03:04:05Z","tenant":"t"`
	return []string{string(body), head + "}", head + `,"status":007}`, head + `,"status":-0}`, head + `,"status":1.5}`,
		head + `,"status":1e2}`,
		head + `,"status":-}`, head + `,"status":99999999999999999999}`, head + `,"event_seq":-1}`, head + `,"status":null}`,
		head + `,"reason":null}`,
		head + `,"STATUS":7}`, head + `,"status":1,"status":2}`, head + `,"key_ids":["a"],"key_ids":["b",null]}`,
		head + `,"response_headers":{"a":"1"},"response_headers":{"b":"2"}}`, head + `,"response_headers":[1]}`,
		head + `,"key_ids":"a"}`,
		head + `,"reason":"\ud800"}`, head + ",\"reason\":\"\xff\"}", head + ",\"reason\":\"a\tb\"}",
		head + `,"at":"2026-11-02T03:04:05+01:00"}`,
		head + `,"at":"2026-11-02T03:04:05,5Z"}`, head + `,"started_at":"\u0032026-11-02T03:04:05Z"}`,
		head + `,"no_msg_id":false}`, head + `,"no_msg_id":truely}`,
		head + `,"reason":{}}`, head + `,"unknown":{"a":[1,{"b":"}"}]}}`, head + "} ", head + `}x`, head + ",}", head, "{}",
		"", "{", `{"v"`, `{"v":1`, "[]",
		head + `,"kind":"\u0061"}`, head + `,"key_ids":[}}`, head + `,"key_ids":[]}`, head + `,"key_ids":[,]}`,
		head + `,"key_ids":["a",]}`, head + `,"key_ids":["a" ]}`,
		head + `,"key_ids":`, head + `,"key_ids":[`, head + `,"response_headers":{}}`,
		head + `,"response_headers":{"a":"1","a":"2"}}`,
		head + `,"response_headers":{"a":"1",}}`, head + `,"response_headers":{"a":null}}`}
}

func agree(t *testing.T, b string) {
	t.Helper()
	got, ok := decodePlain([]byte(b))
	if !ok {
		return
	}
	var want Record
	if err := json.Unmarshal([]byte(b), &want); err != nil {
		t.Fatalf("%q was taken, encoding/json says %v", b, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q\n got %+v\nwant %+v", b, got, want)
	}
}

func TestPlainDecodingAgreesWithEncodingJSON(t *testing.T) {
	for _, b := range samples(t) {
		agree(t, b)
	}
	if _, ok := decodePlain([]byte(samples(t)[0])); !ok {
		t.Error("what Encode writes is not taken")
	}
}

func FuzzPlainDecodingAgreesWithEncodingJSON(f *testing.F) {
	for _, b := range samples(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b string) { agree(t, b) })
}

// typical is an attempt as most are.
func typical(b *testing.B) []byte {
	at := time.Date(2026, 11, 2, 3, 4, 5, 678_912_345, time.UTC)
	r := Record{ID: "att_01JB2W8Z6Y3K5M7N9P1Q2R3S4T", Kind: Attempt, At: at, Tenant: "default",
		EventID:    "evt_01JB2W8Z6Y3K5M7N9P1Q2R3S4T",
		EndpointID: "ep_01JB2W8Z6Y3K5M7N9P1Q2R3S4T", EventType: "order.paid", Attempt: 1, StartedAt: at, DurationUS: 71_000,
		ConnectUS:   812,
		FirstByteUS: 70_000, Status: 200, Outcome: "delivered", Class: "delivered", Decision: "delivered",
		URL:        "https://hooks.example.com/in",
		RemoteAddr: "203.0.113.7:443", HTTPVersion: "HTTP/2.0", TLSVersion: "1.3", PeerFingerprint: strings.Repeat("4f", 32),
		PayloadDigest: strings.Repeat("a1", 32), PayloadBytes: 1024, SignatureScheme: "v1", KeyIDs: []string{"key_1"},
		SignedAt:        at.Truncate(time.Second),
		ResponseHeaders: map[string]string{"content-type": "application/json"}, ResponseExcerpt: `{"ok":true}`,
		ResponseBytes: 11,
		Dispatcher:    "host-1/4711", Software: "0.1.0", EndpointRevision: 3}
	body, err := r.Encode()
	if err != nil {
		b.Fatal(err)
	}
	return body
}

func BenchmarkDecode(b *testing.B) {
	body := typical(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeEncodingJSON(b *testing.B) {
	body := typical(b)
	b.ReportAllocs()
	for b.Loop() {
		var r Record
		if err := json.Unmarshal(body, &r); err != nil {
			b.Fatal(err)
		}
	}
}
