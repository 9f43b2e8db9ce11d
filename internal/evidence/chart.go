package evidence

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/record"
)

// The chart's measures, in its own units.
const (
	chartWidth  = 900
	chartHeight = 150
	chartLeft   = 76.0
	chartRight  = 884.0
	attemptY    = 58.0
	recordY     = 100.0
	axisY       = 122
)

// chart is the timeline of one delivery.
type chart struct {
	ID, Title, Desc, Caption string
	Width, Height            int
	Left, Right              float64
	Ticks                    []tick
	Deadline                 *tick
	Spans                    []span
	Marks                    []mark
}

type tick struct {
	X            float64
	Text, Anchor string
}

type span struct{ X, End float64 }

// mark is a shape in a box of 10 around X, Y.
type mark struct {
	Shape, Class     string
	X, Y, L, R, T, B float64
	Label            *label
}

type label struct {
	X, Y float64
	Text string
}

// scale maps time to x: linear, or where attempts are seconds apart at first
// and hours later, logarithmic from the first moment on.
type scale struct {
	from time.Time
	span time.Duration
	unit time.Duration // of the logarithm; 0: linear
}

func (s scale) x(t time.Time) float64 {
	d := min(max(t.Sub(s.from), 0), s.span)
	part := float64(d) / float64(s.span)
	if s.unit > 0 {
		part = math.Log1p(float64(d)/float64(s.unit)) / math.Log1p(float64(s.span)/float64(s.unit))
	}
	return math.Round((chartLeft+part*(chartRight-chartLeft))*10) / 10
}

// chartOf draws what happened when; nil where there is nothing to draw.
func chartOf(d *Delivery, id string) *chart {
	facts := slices.Concat(d.Owed, d.Replays, d.Attempts, d.Ends, d.Escalations, d.Acks)
	if len(facts) == 0 {
		return nil
	}
	slices.SortStableFunc(facts, func(a, b Fact) int { return cmp.Or(a.When().Compare(b.When()), cmp.Compare(a.Idx, b.Idx)) })
	s := scaleOf(facts, d.DeliverBy)
	c := &chart{ID: id, Width: chartWidth, Height: chartHeight, Left: chartLeft, Right: chartRight, Title: "Timeline of the delivery to " + d.EndpointID}
	c.Ticks = s.ticks()
	if !d.DeliverBy.IsZero() {
		c.Deadline = s.deadline(d.DeliverBy)
	}
	lastX := map[float64]float64{}
	lastUp := map[float64]int{}
	for i := range facts {
		m, ok := markOf(&facts[i])
		if !ok {
			continue
		}
		x := s.x(facts[i].When())
		m.X, m.L, m.R, m.T, m.B = x, x-5, x+5, m.Y-5, m.Y+5
		if facts[i].Kind == record.Attempt {
			if end := s.x(facts[i].When().Add(time.Duration(facts[i].DurationUS) * time.Microsecond)); end > x+6 {
				c.Spans = append(c.Spans, span{x, end})
			}
			up := 0 // labels that would touch stand one above the other
			if before, ok := lastX[m.Y]; ok && x-before < 14 {
				up = (lastUp[m.Y] + 1) % 3
			}
			lastX[m.Y], lastUp[m.Y] = x, up
			m.Label = &label{x, m.Y - 10 - 11*float64(up), strconv.Itoa(facts[i].Attempt)}
		}
		c.Marks = append(c.Marks, m)
	}
	c.Desc = describe(d, facts)
	c.Caption = "Above the line: attempts, a full circle delivered, a cross failed, a dashed circle unknown. Below: triangle owed, square ended, diamond somebody was told or did something."
	if s.unit > 0 {
		c.Caption += " Time since the first record, on a logarithmic scale."
	} else {
		c.Caption += " Time since the first record."
	}
	return c
}

func markOf(f *Fact) (m mark, ok bool) {
	switch f.Kind {
	case record.Attempt:
		switch attemptClass(f) {
		case "good":
			return mark{Shape: "circle", Class: "m-good", Y: attemptY}, true
		case "warn":
			return mark{Shape: "circle", Class: "m-warn", Y: attemptY}, true
		}
		return mark{Shape: "cross", Class: "m-bad", Y: attemptY}, true
	case record.DeliveryOwed:
		return mark{Shape: "triangle", Class: "m-ink", Y: recordY}, true
	case record.DeliveryDeadLetter, record.DeliveryCancelled:
		return mark{Shape: "square", Class: "m-bad", Y: recordY}, true
	case record.Escalation:
		if f.Outcome == "delivered" {
			return mark{Shape: "diamond", Class: "m-good", Y: recordY}, true
		}
		return mark{Shape: "diamond", Class: "m-bad", Y: recordY}, true
	}
	return mark{Shape: "diamond", Class: "m-ink", Y: recordY}, true
}

func scaleOf(facts []Fact, deadline time.Time) scale {
	from, to := facts[0].When(), facts[len(facts)-1].When()
	for i := range facts {
		if end := facts[i].When().Add(time.Duration(max(facts[i].DurationUS, 0)) * time.Microsecond); end.After(to) {
			to = end
		}
	}
	if deadline.After(to) && deadline.Sub(from) < 20*max(to.Sub(from), time.Second) {
		to = deadline
	}
	s := scale{from: from, span: max(to.Sub(from), time.Second)}
	closest := s.span
	for i := 1; i < len(facts); i++ {
		if gap := facts[i].When().Sub(facts[i-1].When()); gap > s.span/2000 {
			closest = min(closest, gap)
		}
	}
	if closest < s.span/40 {
		s.unit = max(s.span/5000, 10*time.Millisecond)
	}
	return s
}

// steps are the distances of ticks, as people count time.
func steps() []time.Duration {
	const day = 24 * time.Hour
	out := []time.Duration{}
	for _, unit := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		out = append(out, unit, 2*unit, 5*unit)
	}
	return append(out, 10*time.Second, 30*time.Second, time.Minute, 2*time.Minute, 5*time.Minute, 10*time.Minute, 30*time.Minute,
		time.Hour, 2*time.Hour, 5*time.Hour, 12*time.Hour, day, 2*day, 7*day, 30*day, 90*day, 365*day, 3650*day)
}

func (s scale) ticks() []tick {
	out := []tick{{chartLeft, "0", "middle"}}
	at := func(d time.Duration) {
		x := s.x(s.from.Add(d))
		if x-out[len(out)-1].X < 58 || x > chartRight-4 {
			return
		}
		out = append(out, tick{x, "+" + shortly(d), "middle"})
	}
	if s.unit > 0 {
		for _, d := range steps() {
			if d >= s.unit && d <= s.span {
				at(d)
			}
		}
		return out
	}
	for _, step := range steps() {
		if s.span/step <= 8 {
			for d := step; d <= s.span; d += step {
				at(d)
			}
			break
		}
	}
	return out
}

// shortly writes 90s, 5m, 2h, 3d.
func shortly(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 2*time.Minute && d%time.Minute != 0:
		return strconv.FormatFloat(d.Seconds(), 'g', 4, 64) + "s"
	case d < time.Hour:
		return strconv.FormatFloat(d.Minutes(), 'g', 4, 64) + "m"
	case d < 48*time.Hour && d%(24*time.Hour) != 0:
		return strconv.FormatFloat(d.Hours(), 'g', 4, 64) + "h"
	}
	return strconv.FormatFloat(d.Hours()/24, 'g', 4, 64) + "d"
}

func (s scale) deadline(at time.Time) *tick {
	x := s.x(at)
	t := &tick{X: x, Anchor: "middle", Text: "deliver by " + at.UTC().Format("15:04:05")}
	if at.After(s.from.Add(s.span)) {
		t.Text += " (later)"
	}
	if x > chartRight-80 {
		t.Anchor = "end"
	}
	if x < chartLeft+80 {
		t.Anchor = "start"
	}
	return t
}

func describe(d *Delivery, facts []Fact) string {
	text := fmt.Sprintf("From %s to %s: ", stampUTC(facts[0].When()), stampUTC(facts[len(facts)-1].When()))
	for i := range facts {
		if i == 40 {
			return text + fmt.Sprintf("and %d more.", len(facts)-i)
		}
		text += fmt.Sprintf("%s after %s; ", facts[i].Title(), facts[i].When().Sub(facts[0].When()))
	}
	return text + "now " + d.State + "."
}
