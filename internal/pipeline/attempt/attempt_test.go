package attempt_test

import (
	"context"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
)

// queue is a destination of another kind: it keeps what it is given.
type queue struct {
	got    []attempt.Request
	closed int
}

func (q *queue) Try(_ context.Context, r attempt.Request) attempt.Result {
	q.got = append(q.got, r)
	res := attempt.Result{GotResponse: true}
	res.SetOutcome(outcome.Delivered)
	return res
}

func (q *queue) Close() { q.closed++ }

func TestADestinationIsChosenByTheSchemeOfTheURL(t *testing.T) {
	web, other := &queue{}, &queue{}
	all := attempt.Destinations{"https": web, "queue": other}
	for url, to := range map[string]*queue{"https://a.example/x": web, "HTTPS://a.example/y": web, "queue:orders": other} {
		before := len(to.got)
		if res := all.Try(t.Context(), attempt.Request{URL: url}); res.Class != outcome.ClassDelivered ||
			len(to.got) != before+1 {
			t.Errorf("%s: got %+v", url, res)
		}
	}
	for _, url := range []string{"ftp://a.example", "", "//a.example"} {
		res := all.Try(t.Context(), attempt.Request{URL: url})
		if res.Outcome != outcome.NotSent || !res.Fault || !strings.HasPrefix(res.Err, attempt.NeverSent) {
			t.Errorf("%q, which nobody can reach: got %+v", url, res)
		}
	}
	if all.Close(); web.closed != 1 || other.closed != 1 {
		t.Error("not every destination was closed")
	}
}

func TestFactsSayWhatAnAttemptCosts(t *testing.T) {
	for _, c := range []struct {
		name        string
		facts       attempt.Facts
		free, about bool
	}{
		{"a delivery", attempt.Facts{Outcome: outcome.Delivered}, false, true},
		{"no request was made", attempt.Facts{Outcome: outcome.NotSent}, true, false},
		{"the connection was stale", attempt.Facts{Outcome: outcome.ConnectionReset, Again: true}, true, false},
		{"twice in a row", attempt.Facts{Outcome: outcome.ConnectionReset, Again: true, Repeated: true}, false, true},
	} {
		if c.facts.Free() != c.free || c.facts.AboutReceiver() != c.about {
			t.Errorf("%s: free %v, about the receiver %v", c.name, c.facts.Free(), c.facts.AboutReceiver())
		}
	}
}
