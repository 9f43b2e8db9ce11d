package payloadlint_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/operator/payloadlint"
	"github.com/waybill-dev/waybill/internal/platform/redact"
)

func look(t *testing.T, payloads ...string) []payloadlint.Warning {
	t.Helper()
	l := payloadlint.New(redact.Default())
	for _, p := range payloads {
		if err := l.Look("lab_result.created", []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	return l.Warnings()
}

func TestPersonalDataIsFoundByNameAndByValue(t *testing.T) {
	for payload, want := range map[string]string{
		`{"patient":{"firstName":"Jane"}}`:            ".patient.firstName personal true",
		`{"geburtsdatum":"12.03.1980"}`:               ".geburtsdatum birth true",
		`{"diagnostic":"grippe"}`:                     ".diagnostic personal true",
		`{"codiceFiscale":"RSSMRA85T10A562S"}`:        ".codiceFiscale national_id true",
		`{"x":"jane.doe@hospital.org"}`:               ".x email true",
		`{"items":[{"n":1},{"ref":"078-05-1120"}]}`:   ".items[].ref national_id true",
		`{"cb":"https://a.example/?token=abcdefgh"}`:  ".cb secret true",
		`{"name":"Jane Doe"}`:                         ".name personal false",
		`{"n":4111111111111111}`:                      ".n card true",
		`{"x":"` + strings.Repeat("word ", 50) + `"}`: ".x text false",
		`["jane@x.example"]`:                          "[] email true",
	} {
		var got []string
		for _, w := range look(t, payload) {
			got = append(got, fmt.Sprint(w.Path, " ", w.Kind, " ", w.Sure))
			if w.Why == "" || w.Advice == "" || w.Events != 1 {
				t.Errorf("%+v", w)
			}
		}
		if !slices.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", payload, got, want)
		}
	}
	big := `{"x":"` + strings.Repeat("a", 20<<10) + `"}`
	if got := look(t, big); len(got) != 1 || got[0].Kind != "size" {
		t.Errorf("%+v", got)
	}
}

func TestReferencesAreFine(t *testing.T) {
	for _, payload := range []string{
		`{"type":"lab_result","id":"lr_17"}`, `{"order":"o_17","amount":1299,"currency":"EUR","at":"2026-11-02T10:00:00Z"}`,
		`{"patient":{"type":"patient","id":"550e8400-e29b-41d4-a716-446655440000"},"status":"final"}`, `17`, `null`, `"a"`,
		`{}`,
	} {
		if got := look(t, payload); len(got) > 0 {
			t.Errorf("%s: %+v", payload, got)
		}
	}
}

// What stands behind the first value would pass for looked at.
func TestSeveralValuesAreNoPayload(t *testing.T) {
	for _, payload := range []string{"{}\n" + `{"ssn":"078-05-1120"}`, `{"a":1} and more`, "1 2"} {
		l := payloadlint.New(redact.Default())
		if err := l.Look("a.b", []byte(payload)); err == nil || l.Looked() > 0 {
			t.Errorf("%s: %v, %d looked at", payload, err, l.Looked())
		}
	}
}

func TestNoValueIsEverRepeated(t *testing.T) {
	const payload = `{"email":"jane.doe@hospital.org","jane.doe@hospital.org":"x","diagnosis":"F32.1 depressive","notes":"Jane is ill","ssn":"078-05-1120"}`
	b, err := json.Marshal(look(t, payload, payload))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"jane.doe", "Jane", "F32", "depressive", "078"} {
		if strings.Contains(string(b), v) {
			t.Errorf("%s shows %s", b, v)
		}
	}
	if !strings.Contains(string(b), `"events":2`) {
		t.Errorf("%s", b)
	}
	if err := payloadlint.New(redact.Default()).Look("a", []byte(`{"x":jane}`)); err == nil ||
		strings.Contains(err.Error(), "jane") {
		t.Errorf("the error is %v", err)
	}
}
