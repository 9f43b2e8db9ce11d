package audit

import (
	"fmt"
	"html/template"
	"strings"
)

// Series is one colour of a chart.
type Series struct {
	Name  string
	Class string // of the CSS that paints it
	Of    func(Balance) uint64
}

func states() []Series {
	return []Series{
		{"delivered", "c-ok", func(b Balance) uint64 { return b.Delivered }},
		{"pending", "c-wait", func(b Balance) uint64 { return b.Pending }},
		{"cancelled", "c-off", func(b Balance) uint64 { return b.Cancelled }},
		{"dead-lettered", "c-bad", func(b Balance) uint64 { return b.DeadLettered }},
		{"not on record as owed", "c-gap", func(b Balance) uint64 { return b.NotOwed }},
	}
}

const (
	chartWidth, chartHeight = 720, 200
	chartLeft, chartBottom  = 56, 24
	chartTop                = 8
	mostBars                = 62
)

// DeliveryChart draws deliveries by day and state as one inline SVG. It holds
// only numbers and dates of ours, so nothing in it needs escaping.
func DeliveryChart(days []Balance) template.HTML {
	days = thin(days)
	if len(days) == 0 {
		return ""
	}
	most := uint64(1)
	for _, d := range days {
		most = max(most, total(d))
	}
	top := ceiling(most)
	plot := float64(chartHeight - chartTop - chartBottom)
	scale := func(n uint64) float64 { return plot * float64(n) / float64(top) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="Deliveries by day and state; the table below has the numbers">`, chartWidth, chartHeight)
	for i := range 5 {
		n := top * uint64(i) / 4
		y := float64(chartHeight-chartBottom) - scale(n)
		fmt.Fprintf(&b, `<line class="axis" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="tick" x="%d" y="%.1f" text-anchor="end">%s</text>`,
			chartLeft, chartWidth, y, y, chartLeft-6, y+4, thousands(n))
	}
	step := float64(chartWidth-chartLeft) / float64(len(days))
	width := min(step*0.72, 46)
	every := (len(days) + 7) / 8
	for i, d := range days {
		x := chartLeft + step*float64(i) + (step-width)/2
		y := float64(chartHeight - chartBottom)
		for _, s := range states() {
			n := s.Of(d)
			if n == 0 {
				continue
			}
			h := max(scale(n), 1.5) // what there is, is seen
			y -= h
			fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s: %s %s</title></rect>`,
				s.Class, x, y, width, h, template.HTMLEscapeString(d.Day), thousands(n), s.Name)
		}
		if i%every == 0 {
			fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%d" text-anchor="middle">%s</text>`, x+width/2, chartHeight-6,
				template.HTMLEscapeString(d.Day))
		}
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

func total(b Balance) uint64 { return b.Ended() + b.NotOwed }

// thin joins days so that no more than mostBars are drawn.
func thin(days []Balance) []Balance {
	if len(days) <= mostBars {
		return days
	}
	per := (len(days) + mostBars - 1) / mostBars
	var out []Balance
	for i, d := range days {
		if i%per == 0 {
			out = append(out, Balance{Day: d.Day})
		}
		out[len(out)-1].Add(d)
	}
	return out
}

// ceiling is the least round number that is not below n and divides by four.
func ceiling(n uint64) uint64 {
	for unit := uint64(4); ; unit *= 10 {
		for _, m := range []uint64{1, 2, 3, 5} {
			if m*unit >= n {
				return m * unit
			}
		}
	}
}

// thousands groups digits by thin spaces.
func thousands(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}
