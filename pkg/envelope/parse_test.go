package envelope_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

// event is a good event with one part replaced.
func event(old, replacement string) string {
	const good = `{"id":"evt_1","type":"a.b","timestamp":"2026-08-19T14:32:07.421Z","data":{"x":1}}`
	if old == "" {
		return good
	}
	if !strings.Contains(good, old) {
		panic("no " + old)
	}
	return strings.Replace(good, old, replacement, 1)
}

//lint:long one table
func TestParseSaysWhatIsWrongWithTheFirstFault(t *testing.T) {
	add := func(member string) string { return event(`"data"`, member+`,"data"`) }
	cases := []struct{ name, in, field, reason string }{
		{"nothing at all", "", "event", "not valid JSON at byte 0: unexpected end"},
		{"only whitespace", " \n", "event", "byte 2: unexpected end"},
		{"an array", `[]`, "event", "not a JSON object"},
		{"null", `null`, "event", "not a JSON object"},
		{"a string", `"x"`, "event", "not a JSON object"},
		{"a broken literal", `nul`, "event", "byte 3: unexpected end"},
		{"a byte order mark", "\ufeff{}", "event", "byte 0: the character U+FEFF where a value"},
		{"an unclosed object", event(`}}`, `}`), "event", "unexpected end"},
		{"a trailing comma", event(`}}`, `},}`), "event", "'}' where a key in double quotes"},
		{"a comma too many", event(`,"type"`, `,,"type"`), "event", "',' where a key"},
		{"no comma", event(`,"type"`, ` "type"`), "event", `'"' where ',' or '}'`},
		{"no colon", event(`"id":`, `"id" `), "event", `where ':' should be`},
		{"single quotes", event(`"id"`, `'id'`), "event", "byte 1: ''' where a key"},
		{"a bare key", event(`"id"`, `id`), "event", "byte 1: 'i' where a key"},
		{"a comment", event(`{"id"`, `{/*x*/"id"`), "event", "'/' where a key"},
		{"NaN", event(`{"x":1}`, `NaN`), "event", "byte 73: 'N' where a value"},
		{"a leading zero", event(`:1}`, `:01}`), "event", "'1' where ',' or '}'"},
		{"a plus sign", event(`:1}`, `:+1}`), "event", "'+' where a value"},
		{"a bare minus", event(`:1}`, `:-}`), "event", "'}' where a digit"},
		{"a point without digits", event(`:1}`, `:1.}`), "event", "a digit after the decimal point"},
		{"a point without a number", event(`:1}`, `:.5}`), "event", "'.' where a value"},
		{"an exponent without digits", event(`:1}`, `:1e+}`), "event", "a digit in the exponent"},
		{"an unknown escape", event(`:1}`, `:"\x"}`), "event", "a known escape after the backslash"},
		{"a short \\u escape", event(`:1}`, `:"\u12g4"}`), "event", "'g' where four hexadecimal digits"},
		{"a line break in a string", event(`:1}`, ":\"a\nb\"}"), "event", "control character 0x0a inside a string"},
		{"an unclosed string", event(`"x":1}}`, `"x`), "event", "unexpected end"},
		{"a mismatched bracket", event(`{"x":1}`, `[1}`), "event", "'}' where ',' or ']'"},
		{"an object after it", event("", "") + `{}`, "event", "more bytes after the object, at byte 81"},
		{"a NUL after it", event("", "") + "\x00", "event", "more bytes after the object"},
		{"invalid UTF-8 in data", event(`:1}`, ":\"\xff\"}"), "event", "invalid UTF-8 (0xff) at byte 79"},
		{"an overlong encoding", event(`:1}`, ":\"\xc0\xaf\"}"), "event", "invalid UTF-8 (0xc0) at byte 79"},
		{"a surrogate in UTF-8", event(`:1}`, ":\"\xed\xa0\x80\"}"), "event", "invalid UTF-8 (0xed) at byte 79"},
		{"invalid UTF-8 between tokens", event(`:1}`, ":1\xff}"), "event", "byte 79: invalid UTF-8 (0xff)"},
		{"invalid UTF-8 in a key", event(`"x"`, "\"\xfe\""), "event", "invalid UTF-8 (0xfe) at byte 75"},

		{"a bad escape in a key", event(`"id"`, `"i\x"`), "event", "byte 4: 'x' where a known escape"},
		{"a broken literal as id", event(`"evt_1"`, `tru`), "event", "',' where true should be"},
		{"a broken subject", add(`"subject":[`), "event", "',' where a value should be"},
		{"an object too many as id", event(`"evt_1"`, `{"a":{}}`), "id", "an object, not a string"},
		{"an object as timestamp, too deep", event(`"2026-08-19T14:32:07.421Z"`, strings.Repeat("[", 512)), "event",
			"nested deeper"},
		{"a timestamp that ends in its fraction", event(`421Z`, `Z`), "timestamp", "not an RFC 3339 time"},

		{"no id", event(`"id":"evt_1",`, ``), "id", "missing"},
		{"no type", event(`"type":"a.b",`, ``), "type", "missing"},
		{"no timestamp", event(`"timestamp":"2026-08-19T14:32:07.421Z",`, ``), "timestamp", "missing"},
		{"no data", event(`,"data":{"x":1}`, ``), "data", "missing; use null"},
		{"nothing inside", `{}`, "id", "missing"},

		{"a second id", add(`"id":"evt_2"`), "id", "more than once"},
		{"a second id, spelt with an escape", add(`"\u0069d":"evt_2"`), "id", "more than once"},
		{"a second type", add(`"type":"c"`), "type", "more than once"},
		{"a second timestamp", add(`"timestamp":"2026-08-19T14:32:07Z"`), "timestamp", "more than once"},
		{"a second data", add(`"data":1`), "data", "more than once"},
		{"a second subject", add(`"subject":{"type":"a","id":"b"},"subject":{"type":"a","id":"b"}`), "subject",
			"more than once"},
		{"a second deliver_by", add(`"deliver_by":"2026-08-19T14:32:07Z","deliver_by":"2026-08-19T14:32:07Z"`), "deliver_by",
			"more than once"},

		{"a misspelt deliver_by", add(`"deliverBy":"2026-08-19T15:00:00Z"`), "deliverBy",
			"put it inside data (were unknown keys passed over, a misspelt deliver_by would silently lose the promise)"},
		{"a key in another case", event(`"id"`, `"ID"`), "ID", "unknown key"},
		{"an empty key", add(`"":1`), `""`, "unknown key"},
		{"the receiver's shape", add(`"deliveryAttempt":1`), "deliveryAttempt", "unknown key"},
		{"a key with a line break", add(`"a\nb":1`), `"a\nb"`, "unknown key"},
		{"a very long key", add(`"` + strings.Repeat("é", 100) + `":1`), strings.Repeat("é", 32) + "…", "unknown key"},

		{"an empty id", event(`"evt_1"`, `""`), "id", "empty"},
		{"a number as id", event(`"evt_1"`, `17`), "id", "a number, not a string"},
		{"an id with a space", event(`evt_1`, `evt 1`), "id", "a space at byte 3"},
		{"an id with an escaped quote", event(`evt_1`, `evt\"1`), "id", `'"' at byte 3`},
		{"an id with a line break", event(`evt_1`, `evt\n1`), "id", "the character U+000A at byte 3"},
		{"an id of 129 characters", event(`evt_1`, strings.Repeat("x", 129)), "id", "129 characters long; at most 128"},
		{"null as type", event(`"a.b"`, `null`), "type", "null, not a string"},
		{"a type with a wildcard", event(`a.b`, `a.*`), "type", "'*' at byte 2"},
		{"a type with an empty token", event(`a.b`, `a..b`), "type", "an empty token at byte 2"},
		{"a boolean as timestamp", event(`"2026-08-19T14:32:07.421Z"`, `true`), "timestamp", "a boolean, not a string"},
		{"a timestamp without zone", event(`.421Z`, ``), "timestamp", `not an RFC 3339 time: "2026-08-19T14:32:07"`},
		{"a date", event(`T14:32:07.421Z`, ``), "timestamp", "not an RFC 3339 time"},
		{"a comma in the seconds", event(`.421Z`, `,421Z`), "timestamp", "not an RFC 3339 time"},
		{"a one-digit hour", event(`T14`, `T4`), "timestamp", "not an RFC 3339 time"},
		{"February 30th", event(`08-19`, `02-30`), "timestamp", "not an RFC 3339 time"},
		{"an offset of a day", event(`421Z`, `421+24:00`), "timestamp", "not an RFC 3339 time"},
		{"an offset of sixty minutes", event(`421Z`, `421+05:60`), "timestamp", "not an RFC 3339 time"},
		{"the year 2300", event(`2026`, `2300`), "timestamp", "year 2300; only 1900 to 2261"},
		{"the year 1", event(`2026`, `0001`), "timestamp", "year 1; only 1900 to 2261"},
		{"a fraction without end", event(`421Z`, strings.Repeat("4", 60)+`Z`), "timestamp", "at most 64"},

		{"a vague deadline", add(`"deliver_by":"tomorrow"`), "deliver_by", `not an RFC 3339 time: "tomorrow"`},
		{"null as deadline", add(`"deliver_by":null`), "deliver_by", "null, not a string; leave the key out"},
		{"a number as deadline", add(`"deliver_by":1787149927`), "deliver_by", "a number, not a string"},
		{"a string as subject", add(`"subject":"pay_1"`), "subject", `a string, not an object {"type","id"}`},
		{"null as subject", add(`"subject":null`), "subject", "null, not an object"},
		{"an empty subject", add(`"subject":{}`), "subject.type", "missing"},
		{"a subject without id", add(`"subject":{"type":"a"}`), "subject.id", "missing"},
		{"an empty subject id", add(`"subject":{"type":"a","id":""}`), "subject.id", "empty"},
		{"an array as subject id", add(`"subject":{"type":"a","id":[1]}`), "subject.id", "an array, not a string"},
		{"a control character in a subject", add(`"subject":{"type":"a","id":"b\u0007"}`), "subject.id",
			"the character U+0007 at byte 1"},
		{"a lone surrogate in a subject", add(`"subject":{"type":"a","id":"\ud800"}`), "subject.id",
			"at byte 0; use printable"},
		{"a long subject", add(`"subject":{"type":"` + strings.Repeat("t", 257) + `","id":"b"}`), "subject.type",
			"257 bytes long; at most 256"},
		{"an unknown key in a subject", add(`"subject":{"type":"a","id":"b","name":"c"}`), "subject", `unknown key name`},
		{"a second id in a subject", add(`"subject":{"type":"a","id":"b","id":"c"}`), "subject.id", "more than once"},

		{"too deep", event(`{"x":1}`, strings.Repeat("[", 512)+strings.Repeat("]", 512)), "event",
			"nested deeper than 512 levels at byte 584"},
		{"deeper than any stack", strings.Repeat("[", 1<<20), "event", "nested deeper than 512 levels"},
		{"the fault before the missing key", `{"deliver_by":"soon"}`, "deliver_by", "not an RFC 3339 time"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := envelope.Parse([]byte(c.in))
			var fe *envelope.FieldError
			if !errors.As(err, &fe) {
				t.Fatalf("Parse(%.200q) = %+v, %v; want a *FieldError", c.in, got, err)
			}
			if fe.Field != c.field || !strings.Contains(fe.Reason, c.reason) {
				t.Errorf("Parse said %q; want field %q and reason …%q…", err, c.field, c.reason)
			}
			if !strings.HasPrefix(err.Error(), fe.Field+": ") || strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("the message %q is not one line that begins with the field", err)
			}
		})
	}
}

func TestParseTakesEveryKindOfDataUntouched(t *testing.T) {
	deepest := strings.Repeat("[", envelope.MaxDepth-1) + strings.Repeat("]", envelope.MaxDepth-1)
	for _, data := range []string{
		`null`, `""`, `{}`, `[]`, `true`, `false`, `0`, `-0`, `1e400`, strings.Repeat("9", 300),
		`{"b":1,"a":2,"b":3}`, "{ \"a\" :\t[ 1 ,\r\n2 ] }", `"\u00e9é\/\ud83d"`, "\"\u2028\u007f\"", deepest,
	} {
		for _, in := range []string{
			event(`{"x":1}`, data),
			event(`"data":{"x":1}`, "\"d\\u0061ta\" \r\n: \t"+data+" "),
		} {
			e := mustParse(t, []byte(in))
			if string(e.Data) != data {
				t.Errorf("data %.80q came out as %.80q", data, e.Data)
			}
			if body := string(e.AppendBody(nil, 1)); !strings.HasSuffix(body, `"data":`+data+`}`) {
				t.Errorf("data %.80q is not in the body %.200q", data, body)
			}
		}
	}
}

func TestParseReadsEveryField(t *testing.T) {
	in := []byte(`{"data":[1], "subject":{"id":"\"7\" é","type":"order line"},
		"deliver_by":"2026-08-20T00:00:00-04:00","timestamp":"2026-08-19T16:07:00.000000001+05:30","type":"a-b.c_d","id":"\u0065vt/1"}`)
	e := mustParse(t, in)
	if e.ID != "evt/1" || e.Type != "a-b.c_d" || e.RawTimestamp != "2026-08-19T16:07:00.000000001+05:30" {
		t.Errorf("id %q, type %q, timestamp %q", e.ID, e.Type, e.RawTimestamp)
	}
	if want := time.Date(2026, 8, 19, 10, 37, 0, 1, time.UTC); !e.Timestamp.Equal(want) {
		t.Errorf("timestamp %v; want %v", e.Timestamp, want)
	}
	if want := time.Date(2026, 8, 20, 4, 0, 0, 0, time.UTC); !e.DeliverBy.Equal(want) {
		t.Errorf("deliver_by %v; want %v", e.DeliverBy, want)
	}
	if e.Subject == nil || *e.Subject != (envelope.Subject{Type: "order line", ID: `"7" é`}) {
		t.Errorf("subject %+v", e.Subject)
	}
	if &e.Data[0] != &in[8] || cap(e.Data) != 3 {
		t.Error("Data does not alias the input, or an append to it would run over the input")
	}
}

func TestParseDraftLetsIdAndTimestampBeMissing(t *testing.T) {
	e, err := envelope.ParseDraft([]byte(`{"type":"a","data":null}`))
	if err != nil || e.ID != "" || !e.Timestamp.IsZero() || e.RawTimestamp != "" {
		t.Fatalf("ParseDraft = %+v, %v", e, err)
	}
	for in, field := range map[string]string{
		`{"data":null}`:                       "type",
		`{"type":"a"}`:                        "data",
		`{"type":"a","data":1,"id":""}`:       "id",
		`{"type":"a","data":1,"x":1}`:         "x",
		`{"type":"a","data":1,"timestamp":1}`: "timestamp",
	} {
		var fe *envelope.FieldError
		if _, err := envelope.ParseDraft([]byte(in)); !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("ParseDraft(%s) = %v; want a fault in %s", in, err, field)
		}
	}
}

func TestNamesAreHeldToTheirAlphabets(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	cases := []struct {
		what      string
		validate  func(string) error
		good, bad []string
	}{
		{"id", envelope.ValidateID,
			[]string{"e", "evt_01K2YXQ8N3M4P5Q6R7S8T9V0W1", "a/b:c#d@e!~", "urn:uuid:0", "a.b", "ord.1.2", "{}[]<>&'",
				long(128)},
			[]string{"", long(129), "a b", "a,b", "a\"b", "a\\b", "a\tb", "é", "a\x7f", "a\x00", "\xff"}},
		{"type", envelope.ValidateType,
			[]string{"a", "lab_result.critical", "A-1.b_2", long(128), strings.Repeat("a.", 15) + "a"},
			[]string{"", ".", "a.", ".a", "a..b", "a b", "a.*", "a.>", "é", "a/b", long(129), strings.Repeat("a.", 16) + "a",
				"a\n"}},
		{"tenant", envelope.ValidateTenant,
			[]string{"default", "T-1_x", long(64)},
			[]string{"", long(65), "a.b", "a b", "*", ">", "é", "a/b"}},
	}
	for _, c := range cases {
		for _, s := range c.good {
			if err := c.validate(s); err != nil {
				t.Errorf("%s %q was refused: %v", c.what, s, err)
			}
		}
		for _, s := range c.bad {
			var fe *envelope.FieldError
			if err := c.validate(s); !errors.As(err, &fe) || fe.Field != c.what || fe.Reason == "" {
				t.Errorf("%s %q: %v; want a *FieldError for it", c.what, s, err)
			}
		}
	}
}
