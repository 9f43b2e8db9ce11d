package retry

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAPolicySurvivesBeingStored(t *testing.T) {
	for _, p := range []Policy{
		Standard(), Urgent(),
		{Name: "test", Delays: []time.Duration{250 * time.Millisecond, 0, 90 * time.Minute}, Stretch: 0.5},
		{MaxAttempts: 3, Base: time.Millisecond, Cap: 10 * time.Millisecond, Window: time.Hour},
		{MaxAttempts: 1},
	} {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var got Policy
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if !reflect.DeepEqual(got, p) {
			t.Errorf("%s reads back as %+v, want %+v", b, got, p)
		}
	}
}

func TestTheStoredFormIsReadableByPeople(t *testing.T) {
	b, err := json.Marshal(Standard())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"standard","max_attempts":8,"delays":["5s","5m","30m","2h","5h","10h","10h"],"stretch":0.2,"window":"33h"}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

func TestABuiltInPolicyCanBeNamed(t *testing.T) {
	for name, want := range map[string]Policy{"standard": Standard(), "urgent": Urgent()} {
		var got Policy
		if err := json.Unmarshal([]byte(`"`+name+`"`), &got); err != nil {
			t.Fatal(err)
		}
		parsed, err := Parse(" " + name + "\n")
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(parsed, want) {
			t.Errorf("%s reads as %+v and %+v", name, got, parsed)
		}
	}
}

func TestAFaultyPolicyIsRefusedWithTheReason(t *testing.T) {
	tests := []struct{ name, json, want string }{
		{"an unknown field", `{"delays":["5s"],"max_attempt":3}`, `unknown field "max_attempt"`},
		{"a number as a delay", `{"delays":[5]}`, "delays"},
		{"a delay without a unit", `{"delays":["5"]}`, `"5" is not a duration`},
		{"a negative delay", `{"delays":["5s","-1s"]}`, "delays[1] is -1s"},
		{"a delay beyond the events' life", `{"delays":["8760h"]}`, "delays[0] is 8760h"},
		{"a stretch above 1", `{"delays":["5s"],"stretch":20}`, "stretch is 20"},
		{"more attempts than delays allow", `{"delays":["5s"],"max_attempts":3}`,
			"max_attempts is 3 but 1 delays allow only 2"},
		{"a negative number of attempts", `{"delays":["5s"],"max_attempts":-1}`, "max_attempts is -1"},
		{"nothing at all", `{}`, "neither delays nor base and cap"},
		{"both shapes at once", `{"delays":["5s"],"base":"1s","cap":"2s"}`, "both delays and base/cap"},
		{"stretched jitter", `{"base":"1s","cap":"2s","stretch":0.1}`, "stretch applies to delays only"},
		{"a cap below the base", `{"base":"2s","cap":"1s"}`, "cap is 1s"},
		{"a base alone", `{"base":"2s"}`, "cap is 0s"},
		{"a cap alone", `{"cap":"2s"}`, "base is 0s"},
		{"a negative window", `{"delays":["5s"],"window":"-1h"}`, "window is -1h"},
		{"a name that nobody defined", `"eager"`, `no policy is called "eager"`},
		{"null inside quotes", `"null"`, `no policy is called "null"`},
		{"a name too long to show", `{"max_attempts":1,"name":"` + strings.Repeat("x", 65) + `"}`, "name has 65 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Urgent()
			err := json.Unmarshal([]byte(tt.json), &p)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error is %v, want one that says %q", err, tt.want)
			}
			if !reflect.DeepEqual(p, Urgent()) {
				t.Error("the refused policy changed the target")
			}
		})
	}
	for _, s := range []string{"", "eager", `{"max_attempts":1} x`, `{"max_attempts":1}{}`, "[]", `{"dlays":["1s"]}`} {
		if p, err := Parse(s); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", s, p)
		} else if strings.Count(err.Error(), "retry policy: ") != 1 {
			t.Errorf("Parse(%q): %v", s, err)
		}
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte(`{"delays":["5s","250ms"],"stretch":0.2,"window":"33h"}`), 3)
	f.Add([]byte(`{"base":"1ns","cap":"720h"}`), 70)
	f.Add([]byte(`"standard"`), 7)
	f.Fuzz(func(t *testing.T, b []byte, made int) {
		var p Policy
		if json.Unmarshal(b, &p) != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("an accepted policy is not valid: %v", err)
		}
		if d, _ := Next(p, made, Random); d < 0 || d > 2*maxDelay {
			t.Fatalf("wait %s", d)
		}
		out, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var again Policy
		if err := json.Unmarshal(out, &again); err != nil {
			t.Fatalf("%s does not read back: %v", out, err)
		}
		if !reflect.DeepEqual(p, again) {
			t.Fatalf("%s reads back as %+v, want %+v", out, again, p)
		}
	})
}
