package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

// format is the value of -o.
type format string

func (f *format) bind(flags *pflag.FlagSet) {
	flags.StringVarP((*string)(f), "output", "o", "table",
		"table, wide (every column, whatever the terminal's width) or json")
}

func (f format) check() error {
	if f != "table" && f != "wide" && f != "json" {
		return process.Usagef("--output %q: want table, wide or json", string(f))
	}
	return nil
}

// printJSON writes v as people and jq read it; a nil slice MUST be made empty before.
func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(text.JSON(b.Bytes()))
	return err
}

// fields are "name  value" lines; those without a value are left out.
type fields [][2]string

func (f *fields) add(name, value string) { *f = append(*f, [2]string{name, value}) }

func (f *fields) addTime(name string, t time.Time) { f.add(name, moment(t)) }

func (f fields) write(w io.Writer) error {
	longest := 0
	for _, r := range f {
		if r[1] != "" {
			longest = max(longest, len(r[0]))
		}
	}
	var b strings.Builder
	for _, r := range f {
		if r[1] != "" {
			fmt.Fprintf(&b, "%-*s  %s\n", longest, r[0], printable(r[1]))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printable is text that a receiver or producer chose, in a cell: see package text.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	return text.Line(s)
}

// clip shortens s to a display width.
func clip(s string, most int) string { return width().Truncate(s, most, "…") }

// moment writes a time in UTC with milliseconds; "" when it is zero.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

// took writes microseconds as people read a duration.
func took(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}
