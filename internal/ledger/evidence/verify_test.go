package evidence_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
)

func TestAWholeFileProvesWhatItsRecordsSay(t *testing.T) {
	l := newLog(t)
	l.tellLarge("e1")
	b := l.file(subject("e1")).Encode()
	r := l.verify(b)
	if !r.Proven || len(r.Problems) > 0 {
		t.Fatalf("%q\n%s", r.Problems, b)
	}
	text := ""
	for _, c := range r.Claims {
		text += c.About + ": " + c.Text + "\n"
	}
	for _, want := range []string{
		`These 19 records were in the ledger "example.com/waybill", at places 0 to 23, when its checkpoint over 24 records was signed by the key ` + l.key.String(),
		"The witness w.example+", "2026-11-02 12:01:40.000 UTC",
		"came to be owed to 1 endpoint.", "carol set at", "dave made policy night",
		"Attempt 2 was made at 2026-11-02 12:00:12.000 UTC, answered 200 after 0s: outcome delivered, decided delivered.",
		"The body that was signed and sent had 6 bytes with SHA-256",
		"became a dead letter at", "People were told on channel pager", "The watchdog found at", "bob took it on",
		"alice asked for replay rpl_1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not claimed: %s\n%s", want, text)
		}
	}
	not := strings.Join(r.NotProven, "\n")
	for _, want := range []string{"no further record", "attempts 3, 5 to ep_bad", "How attempt 6 to ep_bad ended",
		"How ep_bad was set at revision 9"} {
		if !strings.Contains(not, want) {
			t.Errorf("not admitted: %s\n%s", want, not)
		}
	}
}

// flip verifies the file with each of the bits changed, and fails the test
// where a change is not seen.
func flip(t *testing.T, file []byte, bits []int, rejected func([]byte) bool) {
	t.Helper()
	var next, seen atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			b := slices.Clone(file)
			for i := next.Add(1) - 1; int(i) < len(bits); i = next.Add(1) - 1 {
				at, mask := bits[i]/8, byte(1)<<(bits[i]%8)
				b[at] ^= mask
				if !rejected(b) && seen.Add(1) < 10 {
					t.Errorf("bit %d of byte %d is not missed: %q became %q in …%q…", bits[i]%8, at, file[at], b[at],
						file[max(0, at-40):min(len(file), at+20)])
				}
				b[at] ^= mask
			}
		})
	}
	wg.Wait()
}

func all(file []byte) []int {
	bits := make([]int, 8*len(file))
	for i := range bits {
		bits[i] = i
	}
	return bits
}

func TestEachSingleBitChangeOfAFileIsRejected(t *testing.T) {
	l := newLog(t)
	l.tellSmall("e1")
	b := l.file(subject("e1")).Encode()
	if r := l.verify(b); !r.Proven {
		t.Fatal(r.Problems)
	}
	o := evidence.Options{Keys: []evidence.Key{l.key}}
	flip(t, b, all(b), func(b []byte) bool {
		r := evidence.Verify(b, o)
		return !r.Proven && len(r.Problems) > 0
	})
}

// Whoever changes a file on purpose writes a digest that fits. Then only the
// statement can differ, which is the exporter's word.
func TestNothingButTheStatementRestsOnTheFilesOwnDigest(t *testing.T) {
	l := newLog(t)
	l.tellSmall("e1")
	b := l.file(subject("e1")).Encode()
	statement, _, _ := bytes.Cut(b, []byte(`"checkpoint":{`))
	from := bytes.Index(statement, []byte(`"statement":{`)) + len(`"statement":{`)
	last := bytes.LastIndex(b[:len(b)-1], []byte("\n")) + 1
	// One bit of each byte, another one each time: what is read is read by bytes.
	bits := slices.DeleteFunc(all(b), func(bit int) bool {
		at := bit / 8
		return at >= from && at < len(statement) || at >= last || bit%8 != at%8
	})
	if len(bits) < 3000 {
		t.Fatalf("%d bits", len(bits))
	}
	o := l.options()
	flip(t, b, bits, func(b []byte) bool { return !evidence.Verify(reseal(b), o).Proven })
}

func TestAChangeInALargeFileIsRejected(t *testing.T) {
	l := newLog(t)
	for n := range 300 {
		l.tell(record.DeliveryOwed, "e1", fmt.Sprint("ep_", n), nil)
		l.tell(record.Attempt, "e1", fmt.Sprint("ep_", n),
			func(r *record.Record) { r.Attempt, r.StartedAt, r.Outcome = 1, r.At, "delivered" })
	}
	b := l.file(subject("e1")).Encode()
	if r := l.verify(b); !r.Proven || len(r.Story.Deliveries) != 300 {
		t.Fatal(r.Problems)
	}
	var bits []int
	for bit := 3; bit < 8*len(b); bit += 8*len(b)/60 + 1 {
		bits = append(bits, bit)
	}
	flip(t, b, bits, func(b []byte) bool { return !l.verify(b).Proven })
}

func TestAFileThatIsWrongIsRejectedForItsReason(t *testing.T) {
	l := newLog(t)
	l.tellLarge("e1")
	good := l.file(subject("e1"))
	b := good.Encode()
	change := func(f func(*evidence.File)) []byte {
		c, err := evidence.Decode(b)
		l.must(err)
		f(c)
		return c.Encode()
	}
	other := newLog(t)
	other.tellLarge("e1")
	foreign := other.file(subject("e1"))
	elsewhere := newLog(t)
	for name, c := range map[string]struct {
		file []byte
		o    evidence.Options
		want string
	}{
		"another key of the same name": {b, evidence.Options{Keys: []evidence.Key{other.key}},
			"is not signed by the key " + other.key.String()},
		"no witness": {change(func(f *evidence.File) { f.Checkpoint.Note = l.note(23, false) }),
			l.options(), "has not signed this checkpoint"},
		"another witness": {b, evidence.Options{Keys: []evidence.Key{l.key},
			Witnesses: []evidence.Key{parseKey(t, elsewhere.vwit)}}, "has not signed this checkpoint"},
		"another ledger's checkpoint": {change(func(f *evidence.File) { f.Checkpoint.Note = foreign.Checkpoint.Note }),
			l.options(), "is not signed by the key"},
		"a record of another ledger": {change(func(f *evidence.File) {
			f.Records[3] = foreign.Records[3]
			f.Records[3].Seq++
		}), l.options(), "do not lead to the checkpoint's root"},
		"a record of another event": {change(func(f *evidence.File) {
			f.Records = append(f.Records[:2:2], append([]evidence.Record{l.record(4, 23)}, f.Records[2:]...)...)
		}), l.options(), "record 4 (event.accepted rec-4) does not belong"},
		"rules of another type": {change(func(f *evidence.File) {
			f.Records = append(f.Records[:1:1], append([]evidence.Record{l.record(1, 23)}, f.Records[1:]...)...)
		}), l.options(), "record 1 (event_type.changed rec-1) does not belong"},
		"two records swapped": {change(func(f *evidence.File) {
			f.Records[2], f.Records[3] = f.Records[3],
				f.Records[2]
		}), l.options(), "is out of order"},
		"a record twice": {change(func(f *evidence.File) {
			f.Records = append(f.Records[:3:3],
				f.Records[2:]...)
		}), l.options(), "is out of order"},
		"two records' bodies swapped": {change(func(f *evidence.File) {
			f.Records[2].Body,
				f.Records[3].Body = f.Records[3].Body, f.Records[2].Body
		}), l.options(), "do not lead to the checkpoint's root"},
		"a proof is missing": {change(func(f *evidence.File) { f.Records[2].Proof = nil }), l.options(),
			"do not lead to the checkpoint's root"},
		"a hash too many": {change(func(f *evidence.File) {
			f.Records[2].Proof = append(f.Records[2].Proof,
				f.Records[2].Proof[0])
		}), l.options(), "do not lead to the checkpoint's root"},
		"a smaller checkpoint": {change(func(f *evidence.File) { f.Checkpoint.Note = l.note(20, true) }), l.options(),
			"the checkpoint covers records 0 to 19 only"},
		"another event's name": {change(func(f *evidence.File) { f.Subject.EventID = "another" }), l.options(),
			"does not belong"},
		"no name": {change(func(f *evidence.File) { f.Subject = evidence.Subject{} }), l.options(),
			"names no event"},
		"no record": {change(func(f *evidence.File) { f.Records = nil }), l.options(), "holds no record"},
		"a covered record is denied": {change(func(f *evidence.File) { f.Statement.Uncovered = []uint64{3} }), l.options(),
			"calls record 3 uncovered"},
		"two signatures of one key": {change(func(f *evidence.File) {
			f.Checkpoint.Note += f.Checkpoint.Note[strings.LastIndex(f.Checkpoint.Note, "— "):]
		}), l.options(), "two signatures of key"},
		"no signature": {change(func(f *evidence.File) {
			f.Checkpoint.Note, _,
				_ = strings.Cut(f.Checkpoint.Note, "\n\n")
		}), l.options(), "has no signatures"},
		"truncated":            {b[:len(b)-200], l.options(), "cut off"},
		"truncated to nothing": {nil, l.options(), "cut off"},
		"more behind it":       {append(slices.Clone(b), "\n"...), l.options(), "last line"},
		"other spaces": {reseal(bytes.Replace(b, []byte(`,"event_id"`), []byte(`, "event_id"`), 1)), l.options(),
			"line 2, column"},
		"an unknown member": {reseal(bytes.Replace(b, []byte(`"limits"`), []byte(`"more":1,"limits"`), 1)), l.options(),
			"unknown field"},
		"an older format": {reseal(bytes.Replace(b, []byte(evidence.Format1), []byte("waybill-evidence/0"), 1)),
			l.options(), `its format is "waybill-evidence/0"; this version reads "waybill-evidence/1"`},
		"another file": {[]byte("{}\n"), l.options(), "its format is"},
		"no JSON":      {[]byte("hello"), l.options(), "line 1, column 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := evidence.Verify(c.file, c.o)
			if r.Proven || !strings.Contains(strings.Join(r.Problems, "\n"), c.want) || len(r.Claims) > 0 {
				t.Errorf("proven %v, problems %q, want %q; %d claims", r.Proven, r.Problems, c.want, len(r.Claims))
			}
		})
	}
	if r := evidence.Verify(b, evidence.Options{}); r.Proven || len(r.Problems) > 0 || len(r.Claims) > 0 ||
		r.Story == nil {
		t.Errorf("without a key: %+v", r)
	}
}

func TestAPayloadIsComparedWithWhatIsOnRecord(t *testing.T) {
	l := newLog(t)
	l.tellSmall("e1")
	b := l.file(subject("e1")).Encode()
	for payload, want := range map[string]string{
		`{"n":1}`: "The bytes given are the event's data",
		"body 2":  "The bytes given are the body that was signed and sent in attempt 2 to " + endpoint,
		`{"id":"e1","type":"order.paid","timestamp":"2026-11-02T12:00:00Z","data":{"n":1}}`: "The data within the event given are the event's data",
	} {
		o := l.options()
		o.Payload = []byte(payload)
		r := evidence.Verify(b, o)
		if last := r.Claims[max(len(r.Claims), 1)-1]; !r.Proven || last.About != "payload" ||
			!strings.HasPrefix(last.Text, want) {
			t.Errorf("%s: %+v %q", payload, last, r.Problems)
		}
	}
	for payload, want := range map[string]string{"body 3": "neither", "body 2\n": "without the line end", "": "neither",
		`{"id":"e2","type":"order.paid","timestamp":"2026-11-02T12:00:00Z","data":{"n":1}}`: "neither"} {
		o := l.options()
		o.Payload = []byte(payload)
		r := evidence.Verify(b, o)
		if !r.Proven || len(r.Problems) > 0 || len(r.Claims) == 0 || r.Payload != evidence.PayloadDiffers ||
			!strings.Contains(r.PayloadProblem, want) {
			t.Errorf("%q: proven %v, %q, %q", payload, r.Proven, r.Problems, r.PayloadProblem)
		}
		if slices.ContainsFunc(r.Claims, func(c evidence.Claim) bool { return c.About == "payload" }) {
			t.Errorf("%q: something is claimed of it: %+v", payload, r.Claims)
		}
		// A file that is wrong stays wrong, whatever the payload.
		if r := evidence.Verify(bytes.Replace(b, []byte(`"tenant"`), []byte(`"tenent"`), 1), o); r.Proven ||
			len(r.Problems) == 0 {
			t.Errorf("%q: a wrong file is proven", payload)
		}
	}
}

func FuzzVerify(f *testing.F) {
	l := newLog(f)
	l.tellSmall("e1")
	b := l.file(subject("e1")).Encode()
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add([]byte(`{"format":"waybill-evidence/1","records":[{"idx":"1","proof":["AA=="]}],"sha256":""}`))
	o := evidence.Options{Keys: []evidence.Key{l.key}}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, x := range [][]byte{in, reseal(in)} {
			r := evidence.Verify(x, o)
			if r.Proven && !bytes.HasSuffix(x, b[bytes.Index(b, []byte(`"records":[`)):][:100]) && len(r.Claims) == 0 {
				t.Error("proven, and nothing is claimed")
			}
			if got, err := evidence.Decode(x); err == nil && evidence.Intact(x) == nil && !bytes.Equal(got.Encode(), x) {
				t.Errorf("read and written again it is another file:\n%q\n%q", x, got.Encode())
			}
		}
	})
}
