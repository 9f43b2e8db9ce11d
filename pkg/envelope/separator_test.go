package envelope_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

// Signatures cover id.timestamp.body, and an id may hold full stops. The signed
// bytes must have one reading all the same: a second one would let a captured
// signature be presented for a request that was never sent.
func FuzzSignedBytesHaveOneReading(f *testing.F) {
	f.Add("evt_1", `{"a":1}`)
	f.Add("a.1.{", `"x.1723.{"`)
	f.Add("a.1.2", `{"a.5.{":":1}"}`)
	f.Add(`a.1.{x`, `["x.5.{","id","y"]`)
	f.Fuzz(func(t *testing.T, id, data string) {
		e := envelope.Event{ID: id, Type: "a.b", RawTimestamp: "2026-08-19T14:32:07.421Z", Data: []byte(data),
			Timestamp: time.Date(2026, 8, 19, 14, 32, 7, 421e6, time.UTC)}
		if e.Validate() != nil {
			return
		}
		signed := append([]byte(id+".1787149927."), e.AppendBody(nil, 1)...)
		readings := 0
		for i, c := range signed {
			if c != '.' {
				continue
			}
			stamp, body, ok := bytes.Cut(signed[i+1:], []byte("."))
			if _, err := strconv.ParseUint(string(stamp), 10, 64); !ok || err != nil ||
				envelope.ValidateID(string(signed[:i])) != nil {
				continue
			}
			if isBody(body) {
				readings++
			}
		}
		if readings != 1 {
			t.Errorf("%q can be read in %d ways", signed, readings)
		}
	})
}

// isBody says whether a receiver would take b for a request's body: a JSON object.
func isBody(b []byte) bool { return len(b) > 0 && b[0] == '{' && json.Valid(b) }
