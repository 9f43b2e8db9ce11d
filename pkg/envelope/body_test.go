package envelope_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

// golden compares got with a file in testdata/golden.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update and look at the difference", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s changed: receivers would see other bytes.\ngot  %.600q\nwant %.600q", path, got, want)
	}
}

// The body of every event, and what signs it, are fixed to the byte: a change
// here is a change for every receiver.
func TestBodiesAndSignaturesAreGolden(t *testing.T) {
	standard := []envelope.Key{
		mustKey(t, envelope.SchemeHMAC, secretA), mustKey(t, envelope.SchemeHMAC, secretB),
		mustKey(t, envelope.SchemeEd25519, privateA),
	}
	timestamped := []envelope.Key{
		mustKey(t, envelope.SchemeTimestamped, secretA), mustKey(t, envelope.SchemeTimestamped, secretB),
	}
	for name, raw := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			e := mustParse(t, raw)
			body := e.AppendBody(nil, 3)
			if len(body) < 4<<10 { // the digest is enough for large ones
				golden(t, name+".body", body)
			}
			a, err := envelope.Sign(standard, e.ID, signedAt, body)
			if err != nil {
				t.Fatal(err)
			}
			b, err := envelope.Sign(timestamped, e.ID, signedAt, body)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".signed", fmt.Appendf(nil, "%s\n%d bytes, sha256 %s\n%s\n%s\n",
				e.ID, len(body), envelope.DigestHex(body), a, b))
		})
	}
}

// checkBody holds a body to what the receiver is promised.
func checkBody(t *testing.T, e envelope.Event, body []byte, attempt int) {
	t.Helper()
	want := fmt.Sprintf(`{"id":"%s","type":"%s","timestamp":"%s","deliveryAttempt":%d,"data":`, e.ID, e.Type,
		e.RawTimestamp, attempt)
	if !bytes.HasPrefix(body, []byte(want)) || string(body[len(want):]) != string(e.Data)+"}" {
		t.Errorf("body %.300q does not begin with %q or does not end in the data", body, want)
	}
	if !json.Valid(body) || !utf8.Valid(body) {
		t.Errorf("body %.300q is not valid JSON in UTF-8", body)
	}
	var d envelope.Delivery
	if err := json.Unmarshal(body, &d); err != nil {
		t.Fatalf("body %.300q: %v", body, err)
	}
	if d.ID != e.ID || d.Type != e.Type || !d.Timestamp.Equal(e.Timestamp) || d.DeliveryAttempt != attempt ||
		!bytes.Equal(d.Data, e.Data) {
		t.Errorf("body decodes to %+v; the event is %+v", d, e)
	}
}

func TestBodiesOfTheWholeCorpusKeepTheirPromise(t *testing.T) {
	for name, raw := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			before := bytes.Clone(raw)
			e := mustParse(t, raw)
			if !bytes.Contains(raw, e.Data) {
				t.Error("data is not a piece of the event")
			}
			for _, attempt := range []int{1, 2, 8, 1 << 31} {
				checkBody(t, e, e.AppendBody(nil, attempt), attempt)
			}
			if !bytes.Equal(raw, before) {
				t.Error("the producer's bytes were written to")
			}
		})
	}
}

func TestAppendingKeepsWhatIsInTheBuffer(t *testing.T) {
	e := mustParse(t, []byte(event("", "")))
	for _, appendTo := range []func([]byte) []byte{
		func(b []byte) []byte { return e.AppendBody(b, 1) }, e.AppendJSON,
	} {
		if got, want := string(appendTo([]byte("before:"))), "before:"+string(appendTo(nil)); got != want {
			t.Errorf("appended to something: %q; want %q", got, want)
		}
	}
}

// sameEvent compares all but how a time was written.
func sameEvent(a, b envelope.Event) bool {
	subjects := (a.Subject == nil) == (b.Subject == nil) && (a.Subject == nil || *a.Subject == *b.Subject)
	return a.ID == b.ID && a.Type == b.Type && a.RawTimestamp == b.RawTimestamp && a.Timestamp.Equal(b.Timestamp) &&
		a.DeliverBy.Equal(b.DeliverBy) && subjects && bytes.Equal(a.Data, b.Data)
}

func TestAppendJSONIsReadBackAsTheSameEvent(t *testing.T) {
	for name, raw := range corpus(t) {
		e := mustParse(t, raw)
		if err := e.Validate(); err != nil {
			t.Errorf("%s: Parse took it, Validate does not: %v", name, err)
		}
		if back := mustParse(t, e.AppendJSON(nil)); !sameEvent(e, back) {
			t.Errorf("%s: %+v came back as %+v", name, e, back)
		}
	}
}

func TestAnEventFromFieldsIsWrittenInUTC(t *testing.T) {
	zone := time.FixedZone("", 5*3600+1800)
	e := envelope.Event{
		ID: "evt_1", Type: "a", Timestamp: time.Date(2026, 8, 19, 16, 7, 0, 500, zone),
		DeliverBy: time.Date(2026, 8, 20, 0, 0, 0, 0, zone),
		Subject:   &envelope.Subject{Type: "a\\b", ID: `"é"`}, Data: []byte(`{ }`),
	}
	if err := e.Validate(); err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"evt_1","type":"a","timestamp":"2026-08-19T10:37:00.0000005Z","deliver_by":"2026-08-19T18:30:00Z",` +
		`"subject":{"type":"a\\b","id":"\"é\""},"data":{ }}`
	if got := string(e.AppendJSON(nil)); got != want {
		t.Errorf("AppendJSON = %s\nwant         %s", got, want)
	}
	const body = `{"id":"evt_1","type":"a","timestamp":"2026-08-19T10:37:00.0000005Z","deliveryAttempt":2,"data":{ }}`
	if got := string(e.AppendBody(nil, 2)); got != body {
		t.Errorf("AppendBody = %s\nwant         %s", got, body)
	}
}

func TestValidateHoldsFieldsToParsesRules(t *testing.T) {
	good := func() envelope.Event {
		return envelope.Event{ID: "e", Type: "t", Timestamp: signedAt, Data: []byte("1")}
	}
	cases := map[string]func(*envelope.Event){
		"id":           func(e *envelope.Event) { e.ID = "a b" },
		"type":         func(e *envelope.Event) { e.Type = "" },
		"timestamp":    func(e *envelope.Event) { e.Timestamp = time.Time{} },
		"deliver_by":   func(e *envelope.Event) { e.DeliverBy = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) },
		"subject.type": func(e *envelope.Event) { e.Subject = &envelope.Subject{ID: "x"} },
		"subject.id":   func(e *envelope.Event) { e.Subject = &envelope.Subject{Type: "x", ID: "\n"} },
		"data":         func(e *envelope.Event) { e.Data = nil },
	}
	for field, spoil := range cases {
		e := good()
		spoil(&e)
		var fe *envelope.FieldError
		if err := e.Validate(); !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("with a bad %s: %v", field, err)
		}
	}
	e := good()
	e.RawTimestamp = "2026-08-19"
	if e.Validate() == nil {
		t.Error("a bad RawTimestamp was taken")
	}
	for _, data := range []string{"", "{", "1 2", "\"\xff\"", `{}}`} {
		e := good()
		e.Data = []byte(data)
		if e.Validate() == nil {
			t.Errorf("data %q was taken", data)
		}
	}
}

func TestDigestIsSHA256(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := envelope.DigestHex(nil); got != empty {
		t.Errorf("DigestHex(nil) = %s; want %s", got, empty)
	}
	if d := envelope.Digest([]byte("x")); hex.EncodeToString(d[:]) != envelope.DigestHex([]byte("x")) {
		t.Error("Digest and DigestHex disagree")
	}
}

func FuzzParse(f *testing.F) {
	for _, raw := range corpus(f) {
		if len(raw) < 8<<10 {
			f.Add(raw)
		}
	}
	f.Add([]byte(event(`"data"`, `"deliver_by":"2026-08-19T15:00:00Z","subject":{"type":"a","id":"\"b\""},"d\u0061ta"`)))
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		e, err := envelope.Parse(in)
		if !bytes.Equal(in, before) {
			t.Fatal("Parse wrote to its input")
		}
		if err != nil {
			var fe *envelope.FieldError
			if !errors.As(err, &fe) || fe.Field == "" || fe.Reason == "" {
				t.Fatalf("%q is not a FieldError that names a field and a reason", err)
			}
			return
		}
		checkBody(t, e, e.AppendBody(nil, 1), 1)
		var loose struct {
			ID   string
			Data json.RawMessage
		}
		if err := json.Unmarshal(in, &loose); err != nil || loose.ID != e.ID || !bytes.Equal(loose.Data, e.Data) {
			t.Errorf("encoding/json reads id %q and data %q (%v); Parse %q and %q", loose.ID, loose.Data, err, e.ID, e.Data)
		}
		if err := e.Validate(); err != nil {
			t.Errorf("Parse took what Validate refuses: %v", err)
		}
		if back := mustParse(t, e.AppendJSON(nil)); !sameEvent(e, back) {
			t.Errorf("%+v came back as %+v", e, back)
		}
	})
}
