package ingest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/waybill-dev/waybill/internal/pipeline/ingest"
)

type batchAnswer struct {
	Accepted, Duplicates, Failed int
	Results                      []result
}

func TestOneBadEventDoesNotSpoilItsBatch(t *testing.T) {
	items := []string{
		event("b-0", "t", "1"),
		event("b-1", "t", "1"),
		event("b-1", "t", "1"), // the same again
		event("b-1", "t", "2"), // a different one under the same id
		`{"id":"b-4","type":"","data":1}`,
		`[]`,
		event("b-6", "t.u", `{"big":1e400}`),
	}
	want := []struct {
		status      int
		code, field string
		seq         uint64
	}{{202, "", "", 1}, {202, "", "", 2}, {200, "", "", 2}, {409, "id_in_use", "id", 0}, {422, "invalid", "type", 0},
		{400, "malformed", "event", 0}, {202, "", "", 3}}
	for name, c := range map[string]struct{ kind, body string }{
		"JSON":   {"application/json", "{\n\"events\" : [" + strings.Join(items, " ,\n") + "]}\n"},
		"NDJSON": {"application/x-ndjson", "\n" + strings.Join(items, "\r\n\n")},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nil)
			a := s.send("POST", ingest.Path, c.kind, c.body)
			var got batchAnswer
			a.decode(t, &got)
			if a.status != 207 || got.Accepted != 3 || got.Duplicates != 1 || got.Failed != 3 || len(got.Results) != len(want) {
				t.Fatalf("answered %d %s", a.status, a.body)
			}
			for i, w := range want {
				r := got.Results[i]
				if r.Index != i || r.Status != w.status || r.Seq != w.seq || (r.Problem == nil) != (w.code == "") {
					t.Errorf("result %d is %+v, want %+v", i, r, w)
				} else if w.code != "" && (r.Problem.Code != w.code || r.Problem.Field != w.field) {
					t.Errorf("problem %d is %+v, want %+v", i, *r.Problem, w)
				}
			}
			if _, _, body := s.stored(3); body != items[6] {
				t.Errorf("stored %s, want %s", body, items[6])
			}
		})
	}
}

func TestABatchWithoutFailureIsAnswered202AndOneWithoutSuccessAsAProblem(t *testing.T) {
	s := start(t, nil)
	good := `{"events":[` + event("g-1", "t", "1") + `]}`
	for range 2 { // the second time it is a duplicate
		if a := s.post(good); a.status != 202 {
			t.Errorf("answered %d %s", a.status, a.body)
		}
	}
	p := s.post(`{"events":[{},{"type":"x"}]}`).problem(t, 422, "batch_failed")
	if len(p.Results) != 2 || p.Results[1].Problem.Field != "data" {
		t.Errorf("the results are %+v", p.Results)
	}
}

// Many producers, some publishing the same events: each id is accepted once.
func TestConcurrentProducersOfOneIDMakeOneEvent(t *testing.T) {
	s := start(t, nil)
	const producers, ids = 8, 50
	statuses := make([]map[string]int, producers)
	var wg sync.WaitGroup
	for p := range producers {
		statuses[p] = map[string]int{}
		wg.Go(func() {
			for i := range ids {
				id := fmt.Sprintf("c-%d", i)
				statuses[p][id] = s.post(event(id, "t", `{"x":1}`)).status
			}
		})
	}
	wg.Wait()
	for i := range ids {
		id, count := fmt.Sprintf("c-%d", i), map[int]int{}
		for p := range producers {
			count[statuses[p][id]]++
		}
		if count[202] != 1 || count[200] != producers-1 {
			t.Errorf("%s was answered %v, want one 202 and %d times 200", id, count, producers-1)
		}
	}
	if n := s.count(); n != ids {
		t.Errorf("EVENTS holds %d, want %d", n, ids)
	}
	if got := s.metric("accepted"); got != ids {
		t.Errorf("counted %v accepted, want %d", got, ids)
	}
	if got := s.metric("duplicate"); got != ids*(producers-1) {
		t.Errorf("counted %v duplicates", got)
	}
}

func (s *system) metric(result string) float64 {
	families, err := prometheus.Gatherer(s.metrics).Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "waybill_ingest_events_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if labelled(m, result) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func labelled(m *dto.Metric, result string) bool {
	return len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == result
}
