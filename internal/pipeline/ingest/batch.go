package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/platform/problem"
)

// batchKey is the one key of a batch. No event has a key of that name.
const batchKey = "events"

// isBatch says whether a JSON body is a batch, {"events":[…]}, by its first key.
func isBatch(body []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(`"`+batchKey+`"`))
}

// splitBatch cuts {"events":[…]} into its events, whose bytes stay as they are.
func splitBatch(body []byte) ([][]byte, *problem.Problem) {
	dec := json.NewDecoder(bytes.NewReader(body))
	// The opening brace and the key are there: isBatch has seen them.
	for _, want := range []json.Token{json.Delim('{'), batchKey, json.Delim('[')} {
		got, err := dec.Token()
		if err != nil {
			return nil, malformedBatch(err)
		}
		if got != want {
			return nil, problem.New(http.StatusUnprocessableEntity, "invalid", "events: not an array").Of(batchKey)
		}
	}
	var items [][]byte
	for dec.More() {
		if len(items) == MaxBatchEvents {
			return nil, tooMany()
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, malformedBatch(err)
		}
		items = append(items, raw)
	}
	if _, err := dec.Token(); err != nil {
		return nil, malformedBatch(err)
	}
	switch next, err := dec.Token(); {
	case err != nil:
		return nil, malformedBatch(err)
	case next != json.Delim('}'):
		return nil, problem.New(http.StatusUnprocessableEntity, "invalid",
			fmt.Sprintf("%.64v: unknown key; a batch has one, events", next)).Of(clip(fmt.Sprint(next)))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, problem.New(http.StatusBadRequest, "malformed",
			"more bytes after the batch; for one event a line, send Content-Type: application/x-ndjson")
	}
	return notEmpty(items)
}

func malformedBatch(err error) *problem.Problem {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return problem.New(http.StatusBadRequest, "malformed",
		"events: not valid JSON: "+err.Error()+"; nothing was stored").Of(batchKey)
}

func tooMany() *problem.Problem {
	return problem.New(http.StatusRequestEntityTooLarge, "too_many_events",
		fmt.Sprintf("more than %d events; nothing was stored: send several batches", MaxBatchEvents))
}

func notEmpty(items [][]byte) ([][]byte, *problem.Problem) {
	if len(items) == 0 {
		return nil, problem.New(http.StatusUnprocessableEntity, "invalid", "the batch holds no event").Of(batchKey)
	}
	return items, nil
}

// splitLines cuts NDJSON into its lines. Empty ones are passed over.
func splitLines(body []byte) ([][]byte, *problem.Problem) {
	var items [][]byte
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(items) == MaxBatchEvents {
			return nil, tooMany()
		}
		items = append(items, line)
	}
	return notEmpty(items)
}

// BatchAnswer is the answer to a batch.
type BatchAnswer struct {
	Accepted   int      `json:"accepted"`
	Duplicates int      `json:"duplicates"`
	Failed     int      `json:"failed"`
	Results    []Result `json:"results"` // in the order of the events
}

// batch stores each event for itself: a bad one does not spoil the others.
func (s *Ingest) batch(ctx context.Context, w http.ResponseWriter, tenant string, items [][]byte,
	trace eventlog.Trace) *problem.Problem {
	attempts := make([]*attempt, len(items))
	var away error
	for i, raw := range items {
		attempts[i] = s.begin(s.log, eventlog.Draft{Tenant: tenant, Raw: raw, Trace: trace}, away)
		// What keeps one from being sent keeps the rest: each would wait as long.
		away = attempts[i].away
	}
	answer := BatchAnswer{Results: make([]Result, len(items))}
	// A duplicate takes a look at what is stored: some at a time.
	var group errgroup.Group
	group.SetLimit(32)
	for i, a := range attempts {
		group.Go(func() error {
			res, p := a.result(ctx)
			if p != nil {
				res = Result{Status: p.Status, Problem: p}
			}
			res.Index = i
			answer.Results[i] = res
			return nil
		})
	}
	group.Wait() // no member fails
	return s.answer(w, answer)
}

func (s *Ingest) answer(w http.ResponseWriter, answer BatchAnswer) *problem.Problem {
	unavailable := false
	for _, res := range answer.Results {
		switch {
		case res.Problem != nil:
			answer.Failed++
			unavailable = unavailable || res.Status == http.StatusServiceUnavailable
			s.metrics.refused(res.Problem)
		case res.Duplicate:
			answer.Duplicates++
		default:
			answer.Accepted++
		}
	}
	if unavailable {
		w.Header().Set("Retry-After", fmt.Sprint(int(retryAfter.Seconds())))
	}
	switch {
	case answer.Failed == 0:
		problem.WriteJSON(w, http.StatusAccepted, answer)
	case answer.Failed < len(answer.Results):
		problem.WriteJSON(w, http.StatusMultiStatus, answer)
	default:
		p := problem.New(http.StatusUnprocessableEntity, "batch_failed",
			"no event of the batch is known to be stored; see results")
		if unavailable {
			p = problem.New(http.StatusServiceUnavailable, "unavailable",
				"no event of the batch is known to be stored; publish them again with the same ids")
		}
		p.Results = answer.Results
		p.Write(w)
	}
	return nil
}
