package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// maxNDJSON bounds what is held in memory: all events are checked before the
// first one is published.
const maxNDJSON = 256 << 20

// readData reads JSON, @FILE, or - for standard input.
func readData(in io.Reader, value string, limit int64) ([]byte, error) {
	var r io.Reader
	path, isFile := strings.CutPrefix(value, "@")
	switch {
	case value == "-":
		r = in
	case isFile:
		f, err := os.Open(path)
		if err != nil {
			return nil, process.Usagef("--data: %w; name a file that can be read", err)
		}
		defer f.Close()
		r = f
	default:
		return []byte(value), nil
	}
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("--data: reading %s: %w; give a file that can be read", value, err)
	}
	if int64(len(b)) > limit {
		return nil, process.Usagef("--data %s: more than %d bytes; split it", value, limit)
	}
	return b, nil
}

// trimJSON removes what JSON takes for white space around a value: the line
// break that ends a file.
func trimJSON(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

// line is one event of an NDJSON input.
type line struct {
	number int
	event  []byte
}

func (f *publishFlags) publishMany(c *cobra.Command, s stdio) error {
	for _, single := range []string{"type", "id", "timestamp", "deliver-by", "subject-type", "subject-id"} {
		if c.Flags().Lookup(single).Value.String() != "" {
			return process.Usagef("--%s does not go with --ndjson, whose lines are whole events; put it into each line", single)
		}
	}
	if f.data == "" {
		return missing("data", "@events.ndjson")
	}
	if f.data != "-" && !strings.HasPrefix(f.data, "@") {
		if info, err := os.Stat(f.data); err == nil && (info.IsDir() || info.Mode().IsRegular()) {
			return notPayload(f.data)
		}
	}
	b, err := readData(s.in, f.data, maxNDJSON)
	if err != nil {
		return err
	}
	lines, err := splitEvents(b)
	if err != nil {
		return err
	}
	return f.target.withControl(c.Context(), func(ctx context.Context, ctl *control.Control) error {
		return f.publishLines(ctx, ctl, s, lines)
	})
}

// splitEvents checks every line.
func splitEvents(b []byte) ([]line, error) {
	var out []line
	for i, raw := range bytes.Split(b, []byte("\n")) {
		event := trimJSON(raw)
		if len(event) == 0 {
			continue
		}
		if len(event) > envelope.MaxEventBytes {
			return nil, process.Usagef("line %d: %d bytes; at most %d; nothing was published", i+1, len(event),
				envelope.MaxEventBytes)
		}
		if _, err := envelope.ParseDraft(event); err != nil {
			return nil, process.Usagef("line %d: %w; nothing was published: correct it and repeat", i+1, err)
		}
		out = append(out, line{i + 1, event})
	}
	if len(out) == 0 {
		return nil, process.Usagef("--data holds no event; want one JSON object a line")
	}
	return out, nil
}

// published is what came of many events, as POST /v1/events answers for a batch.
type published struct {
	Accepted   int         `json:"accepted"`
	Duplicates int         `json:"duplicates"`
	Failed     int         `json:"failed"`
	Results    []oneOfMany `json:"results"`
}

type oneOfMany struct {
	Index  int `json:"index"`
	Status int `json:"status"` // 202, 200 for a duplicate
	control.Ack
}

func (p *published) add(ack control.Ack) {
	one := oneOfMany{Index: len(p.Results), Status: http.StatusAccepted, Ack: ack}
	if p.Accepted++; ack.Duplicate {
		one.Status = http.StatusOK
		p.Accepted--
		p.Duplicates++
	}
	p.Results = append(p.Results, one)
}

// publishLines stops at the first event that is not stored: those after it were
// not tried.
func (f *publishFlags) publishLines(ctx context.Context, ctl *control.Control, s stdio, lines []line) error {
	done := published{Results: make([]oneOfMany, 0, len(lines))}
	var failed error
	for _, l := range lines {
		ack, err := ctl.PublishEvent(ctx, f.tenant, l.event, "")
		if err != nil {
			done.Failed++
			failed = fmt.Errorf("line %d: %w; %s stored before it; what has an id of its own can be published again safely",
				l.number, err,
				text.Count(len(done.Results), "event is", "events are"))
			break
		}
		done.add(ack)
		if f.out != "json" {
			if _, err := fmt.Fprintln(s.out, ackLine(ack)); err != nil {
				return err
			}
		}
	}
	if f.out == "json" {
		return errors.Join(printJSON(s.out, done), failed)
	}
	return failed
}
