package evidence

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
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

// scale maps time to x. Attempts are seconds apart at first and hours later,
// and people act within minutes at the end, so neither a linear nor a
// logarithmic axis shows both: each gap between two moments is drawn by the
// logarithm of its length.
type scale struct {
	at []time.Time // the moments, in order
	xs []float64   // where they are
}

const (
	gapUnit = 100 * time.Millisecond
	// gapFloor keeps moments apart that are the same time.
	gapFloor = 0.6
)

func gapWidth(d time.Duration) float64 {
	return gapFloor + math.Log1p(float64(max(d, 0))/float64(gapUnit))
}

func scaleOf(moments []time.Time) scale {
	s := scale{at: moments, xs: make([]float64, len(moments))}
	for i := 1; i < len(moments); i++ {
		s.xs[i] = s.xs[i-1] + gapWidth(moments[i].Sub(moments[i-1]))
	}
	whole := max(s.xs[len(s.xs)-1], 1)
	for i := range s.xs {
		s.xs[i] = round(chartLeft + s.xs[i]/whole*(chartRight-chartLeft))
	}
	return s
}

func round(x float64) float64 { return math.Round(x*10) / 10 }

// x of a moment that is one of the scale's, or lies between two.
func (s scale) x(t time.Time) float64 {
	i, exact := slices.BinarySearchFunc(s.at, t, time.Time.Compare)
	switch {
	case exact || i == 0:
		return s.xs[min(i, len(s.xs)-1)]
	case i == len(s.at):
		return s.xs[i-1]
	}
	whole, part := gapWidth(s.at[i].Sub(s.at[i-1])), math.Log1p(float64(t.Sub(s.at[i-1]))/float64(gapUnit))
	return round(s.xs[i-1] + (s.xs[i]-s.xs[i-1])*part/whole)
}

// chartOf draws what happened when; nil where there is nothing to draw.
func chartOf(d *Delivery, id string) *chart {
	facts := slices.Concat(d.Owed, d.Replays, d.Attempts, d.Ends, d.Escalations, d.Acks)
	if len(facts) == 0 {
		return nil
	}
	slices.SortStableFunc(facts, func(a, b Fact) int {
		return cmp.Or(a.When().Compare(b.When()),
			cmp.Compare(a.Idx, b.Idx))
	})
	moments := make([]time.Time, len(facts), len(facts)+1)
	for i := range facts {
		moments[i] = facts[i].When()
	}
	if !d.DeliverBy.IsZero() {
		moments = append(moments, d.DeliverBy)
		slices.SortStableFunc(moments, time.Time.Compare)
	}
	s := scaleOf(moments)
	c := &chart{ID: id, Width: chartWidth, Height: chartHeight, Left: chartLeft, Right: chartRight,
		Title: "Timeline of the delivery to " + d.EndpointID}
	c.Ticks = s.ticks()
	if !d.DeliverBy.IsZero() {
		c.Deadline = s.deadline(d.DeliverBy)
	}
	c.draw(facts, s)
	c.Desc = describe(d, facts)
	c.Caption = legend
	return c
}

const legend = "Upper row: attempts; a full circle was delivered, a cross failed, a dashed circle is unknown. Lower " +
	"row: a triangle is owed, a square ended without success, " +
	"a diamond is people who were told or who acted. Times are since the first mark; longer gaps are drawn longer, but not in proportion."

// draw places the marks. facts are in the order of their times; of equal ones,
// each has a place of its own.
func (c *chart) draw(facts []Fact, s scale) {
	before, up := -100.0, 0
	used := map[int]bool{}
	for i := range facts {
		f := &facts[i]
		m := markOf(f)
		at, _ := slices.BinarySearchFunc(s.at, f.When(), time.Time.Compare)
		for used[at] && at+1 < len(s.at) && s.at[at+1].Equal(f.When()) {
			at++
		}
		used[at] = true
		x := s.xs[at]
		m.X, m.L, m.R, m.T, m.B = x, round(x-5), round(x+5), m.Y-5, m.Y+5
		if f.Kind == record.Attempt {
			if end := s.x(f.When().Add(time.Duration(f.DurationUS) * time.Microsecond)); end > x+6 {
				c.Spans = append(c.Spans, span{x, end})
			}
			if up++; x-before >= 14 || up > 2 { // labels that would touch stand one above the other
				up = 0
			}
			before = x
			m.Label = &label{x, round(m.Y - 10 - 11*float64(up)), strconv.Itoa(f.Attempt)}
		}
		c.Marks = append(c.Marks, m)
	}
}

func markOf(f *Fact) mark {
	switch f.Kind {
	case record.Attempt:
		switch attemptClass(f) {
		case "good":
			return mark{Shape: "circle", Class: "m-good", Y: attemptY}
		case "warn":
			return mark{Shape: "circle", Class: "m-warn", Y: attemptY}
		}
		return mark{Shape: "cross", Class: "m-bad", Y: attemptY}
	case record.DeliveryOwed:
		return mark{Shape: "triangle", Class: "m-ink", Y: recordY}
	case record.DeliveryDeadLetter, record.DeliveryCancelled:
		return mark{Shape: "square", Class: "m-bad", Y: recordY}
	case record.Escalation:
		if f.Outcome == string(outcome.Delivered) {
			return mark{Shape: "diamond", Class: "m-good", Y: recordY}
		}
		return mark{Shape: "diamond", Class: "m-bad", Y: recordY}
	}
	return mark{Shape: "diamond", Class: "m-ink", Y: recordY}
}

// ticks stand under moments, where there is room for them.
func (s scale) ticks() []tick {
	var out []tick
	for i, t := range s.at {
		text := "0"
		if d := t.Sub(s.at[0]); d > 0 {
			text = "+" + shortly(d)
		}
		if n := len(out); n > 0 && (s.xs[i]-out[n-1].X < 62 || text == out[n-1].Text) {
			continue
		}
		anchor := "middle"
		if s.xs[i] > chartRight-20 {
			anchor = "end"
		}
		out = append(out, tick{s.xs[i], text, anchor})
	}
	return out
}

// shortly writes a duration in at most two units.
func shortly(d time.Duration) string {
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}}
	for i, u := range units {
		if d < u.size && i < len(units)-1 {
			continue
		}
		text := strconv.FormatInt(int64(d/u.size), 10) + u.name
		if i < 3 && d%u.size >= units[i+1].size {
			text += " " + strconv.FormatInt(int64(d%u.size/units[i+1].size), 10) + units[i+1].name
		}
		return text
	}
	return ""
}

func (s scale) deadline(at time.Time) *tick {
	t := &tick{X: s.x(at), Anchor: "middle", Text: "deliver by " + at.UTC().Format("2006-01-02 15:04:05")}
	if t.X > chartRight-100 {
		t.Anchor = "end"
	}
	if t.X < chartLeft+100 {
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
