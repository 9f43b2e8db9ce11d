package webhook

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/redact"
)

// redactor makes a policy ready.
func redactor(t *testing.T, p redact.Policy) *redact.Redactor {
	t.Helper()
	r, err := redact.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestASecretOverTheEndOfTheExcerptIsNeverOnRecord(t *testing.T) {
	const card, address = "4111 1111 1111 1111", "jane.doe@mail.example.com"
	for _, secret := range []string{card, address, `"password":"hunter2hunter2"`} {
		for pad := maxExcerpt - len(secret) - 2; pad <= maxExcerpt+1; pad++ {
			body := strings.Repeat("x ", pad/2+1)[:pad] + " " + secret + " end"
			got := excerpt([]byte(body), false, maxExcerpt,
				func(b []byte) []byte { out, _ := redact.Default().Redact(b); return out })
			for _, part := range []string{"4111", "jane", "hunter"} {
				if strings.Contains(got, part) {
					t.Fatalf("%d bytes before it, the record holds %q", pad, got[len(got)-60:])
				}
			}
		}
	}
}

func TestWhatAnAnswerHoldsIsCountedByKindAndThePayloadIsCutOut(t *testing.T) {
	payload := `{"patient":"p_17","text":"seen on Monday, stable, next visit in two weeks"}`
	body := `{"error":"no account for jane@example.com","received":` + payload + `}`
	r := listen(t, answer(fmt.Sprintf("HTTP/1.1 400 Bad\r\nServer: x admin@example.com\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)))
	req := post("http://"+r.addr, patient)
	req.Payload = []byte(payload)
	res := try(t, newTestClient(t, Options{}), req)
	if res.Redacted["email"] != 2 || res.Redacted["payload"] != 1 || strings.Contains(fmt.Sprintf("%+v", res), "Monday") {
		t.Errorf("%v: %q, %v", res.Redacted, res.Excerpt, res.ResponseHeaders)
	}
}

func TestThePolicySaysHowMuchOfAnAnswerIsKept(t *testing.T) {
	none, some := 0, 5
	r := listen(t, answer("HTTP/1.1 400 Bad\r\nContent-Length: 11\r\n\r\nhello world"))
	for name, tt := range map[string]struct {
		policy redact.Policy
		want   string
	}{
		"all of it":          {redact.Policy{}, "hello world"},
		"nothing anywhere":   {redact.Policy{ExcerptBytes: &none}, ""},
		"five bytes":         {redact.Policy{ExcerptBytes: &some}, "hello"},
		"nothing of the one": {redact.Policy{Endpoints: map[string]redact.EndpointPolicy{"ep_1": {ExcerptBytes: &none}}}, ""},
		"nothing of another": {redact.Policy{Endpoints: map[string]redact.EndpointPolicy{"ep_2": {ExcerptBytes: &none}}},
			"hello world"},
		"nothing but of one": {redact.Policy{ExcerptBytes: &none,
			Endpoints: map[string]redact.EndpointPolicy{"ep_1": {ExcerptBytes: &some}}}, "hello"},
	} {
		req := post("http://"+r.addr, patient)
		req.Owner = "ep_1"
		if res := try(t, newTestClient(t, Options{Redact: redactor(t, tt.policy)}), req); res.Excerpt != tt.want ||
			res.ResponseBytes != 11 {
			t.Errorf("%s: kept %q of %d bytes, want %q", name, res.Excerpt, res.ResponseBytes, tt.want)
		}
	}
}

func TestAnErrorShowsNeitherUserNorQueryOfAURL(t *testing.T) {
	c := newTestClient(t, Options{})
	res := attempt.Result{Err: `Post "https://jane:hunter2@example.com/in?token=abc&x=1": ` + strings.Repeat("y ", 140) +
		"4111 1111 1111 1111"}
	c.cleanError(request{}, &res)
	for _, part := range []string{"jane", "hunter2", "abc", "4111"} {
		if strings.Contains(res.Err, part) {
			t.Errorf("%q shows %s", res.Err, part)
		}
	}
	if len(res.Err) > attempt.MaxErrorText || res.Redacted["userinfo"] != 1 || res.Redacted["query"] != 1 ||
		res.Redacted["secret"] != 1 {
		t.Errorf("%d bytes, %v: %q", len(res.Err), res.Redacted, res.Err)
	}
}
