package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/platform/problem"
)

const (
	// maxBody is generous for an endpoint with 256 patterns and a schedule of 1,000 delays.
	maxBody = 128 << 10
	// bodyTimeout bounds the reading of a body.
	bodyTimeout = 20 * time.Second
)

// decode reads a JSON object into a struct, strictly: a field that the struct
// does not have, in exactly that spelling, is refused, and so are null and one
// given twice. No body at all stands for {} where optional.
func decode(w http.ResponseWriter, r *http.Request, into any, optional bool) error {
	_, err := decodeFields(w, r, fieldsOf(into), optional, nil)
	return err
}

// decodeChange is decode without the fixed fields. It returns the names of those
// that were given, of the nullable ones also when null, which leaves them alone.
func decodeChange(w http.ResponseWriter, r *http.Request, into any,
	fixed, nullable []string) (given []string, err error) {
	fields := fieldsOf(into)
	for _, name := range fixed {
		delete(fields, name)
	}
	return decodeFields(w, r, fields, false, nullable)
}

func fieldsOf(into any) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	collect(reflect.ValueOf(into).Elem(), fields)
	return fields
}

func decodeFields(w http.ResponseWriter, r *http.Request, fields map[string]reflect.Value, optional bool,
	nullable []string) (names []string, err error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 && optional {
		return nil, nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, problem.New(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"Content-Type: want application/json; with curl: -H 'Content-Type: application/json'")
	}
	given, err := members(body)
	if err != nil {
		return nil, err
	}
	for _, m := range given {
		target, ok := fields[m.name]
		if !ok {
			return nil, problem.New(http.StatusUnprocessableEntity, "unknown_field",
				fmt.Sprintf("%.64s: unknown field", m.name)).Of(fmt.Sprintf("%.64s", m.name))
		}
		if string(m.value) == "null" {
			if !slices.Contains(nullable, m.name) {
				return nil, problem.New(http.StatusUnprocessableEntity, "invalid", m.name+": null; leave it out instead").Of(m.name)
			}
			names = append(names, m.name)
			continue
		}
		if err := json.Unmarshal(m.value, target.Addr().Interface()); err != nil {
			return nil, problem.New(http.StatusUnprocessableEntity, "invalid", m.name+": "+explain(err)).Of(m.name)
		}
		names = append(names, m.name)
	}
	return names, nil
}

func explain(err error) string {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Sprintf("want %s, got %s", jsonKind(kind.Type), kind.Value)
	}
	return err.Error()
}

func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.String, reflect.Int64: // the only int64s are durations, written as strings
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	bounded := control.SetReadDeadline(time.Now().Add(bodyTimeout)) == nil
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, problem.New(http.StatusRequestEntityTooLarge, "too_large",
			fmt.Sprintf("the body is over %d bytes", maxBody))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem.New(http.StatusRequestTimeout, "timeout",
			fmt.Sprintf("the body did not come within %s", bodyTimeout))
	case err != nil:
		return nil, malformed(err)
	case !utf8.Valid(body):
		return nil, malformed(errors.New("invalid UTF-8"))
	}
	if bounded {
		err = control.SetReadDeadline(time.Time{})
	}
	return bytes.TrimSpace(body), err
}

func malformed(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return problem.New(http.StatusBadRequest, "malformed", "the body is not a JSON object: "+err.Error())
}

type member struct {
	name  string
	value json.RawMessage
}

// members are those of a JSON object, each given once.
func members(body []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	open, err := dec.Token()
	if err != nil {
		return nil, malformed(err)
	}
	if open != json.Delim('{') {
		return nil, malformed(fmt.Errorf("it begins with %v", open))
	}
	var out []member
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, malformed(err)
		}
		m := member{name: fmt.Sprint(key)}
		if err := dec.Decode(&m.value); err != nil {
			return nil, malformed(err)
		}
		if slices.ContainsFunc(out, func(o member) bool { return o.name == m.name }) {
			return nil, problem.New(http.StatusUnprocessableEntity, "invalid",
				fmt.Sprintf("%.64s: given more than once", m.name)).Of(fmt.Sprintf("%.64s", m.name))
		}
		if out = append(out, m); len(out) > 64 {
			return nil, problem.New(http.StatusUnprocessableEntity, "invalid", "the object has too many fields")
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, malformed(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, malformed(errors.New("more bytes after it"))
	}
	return out, nil
}

// collect finds a struct's fields by their JSON names, those of embedded ones too.
func collect(v reflect.Value, into map[string]reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			collect(v.Field(i), into)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			into[name] = v.Field(i)
		}
	}
}
