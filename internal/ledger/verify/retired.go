package verify

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

// Retirement is one record that says which others were dropped because their
// retention was over.
type Retirement struct {
	Idx    uint64            `json:"idx"` // of the record that says so
	By     string            `json:"by"`
	At     time.Time         `json:"at"`
	Ranges []record.IdxRange `json:"ranges"`
	id     string
}

// retirements reads the records that retire and those that take back.
func retirements(retired, kept []Record) []Retirement {
	back := map[string]bool{}
	for _, k := range kept {
		if said, err := record.Decode(k.Body); err == nil && said.Action == record.ActionKept {
			back[record.TakenBack(said.Settings)] = true
		}
	}
	var out []Retirement
	for _, r := range retired {
		if x, ok := retirement(r); ok && !back[x.id] {
			out = append(out, x)
		}
	}
	return out
}

// retirement reads the record; ok is false if it lists nothing.
func retirement(r Record) (out Retirement, ok bool) {
	said, err := record.Decode(r.Body)
	if err != nil || said.Kind != record.OperatorAction || said.Action != record.ActionRetired {
		return out, false
	}
	what, err := record.ReadRetirement(said.Settings)
	return Retirement{Idx: r.Idx, By: said.Actor, At: said.At, Ranges: what.Ranges, id: what.ID}, err == nil
}

// listed are the indices that any of them lists, in order, without an overlap.
func listed(retired []Retirement) []record.IdxRange {
	var out []record.IdxRange
	for _, c := range covers(retired) {
		out = append(out, record.IdxRange{First: c.first, Last: c.last})
	}
	return out
}

// cover is a stretch of indices that a retirement lists.
type cover struct {
	first, last uint64
	by          *Retirement
}

// covers lays them out, in order, without an overlap: a month can be on record
// as retired twice, when the first time was interrupted.
func covers(retired []Retirement) []cover {
	var all, out []cover
	for i := range retired {
		for _, span := range retired[i].Ranges {
			all = append(all, cover{span.First, span.Last, &retired[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b cover) int { return cmp.Compare(a.first, b.first) })
	for _, c := range all {
		if n := len(out); n > 0 && c.first <= out[n-1].last {
			if c.last <= out[n-1].last {
				continue
			}
			c.first = out[n-1].last + 1
		}
		out = append(out, c)
	}
	return out
}

// absence is a stretch of rows that are missing and that a retirement lists.
type absence struct {
	First  uint64 `json:"first"`
	Last   uint64 `json:"last"`
	Proven string `json:"proven,omitempty"` // the checkpoint that proves what was there
}

// gone keeps the rows that are missing and that a retirement lists: millions of
// them, in few stretches. Whether the retirement itself is as it was signed is
// known at the end only.
type gone struct {
	listed  []record.IdxRange
	settled []absence
	open    []absence // behind the last checkpoint that agreed
}

// take keeps those of odds that it is for, and returns the others. A row whose
// hash is gone too stays with the others: nothing proves that it was there.
func (g *gone) take(odds []odd) []odd {
	if len(g.listed) == 0 {
		return odds
	}
	var rest []odd
	for _, o := range odds {
		i := sort.Search(len(g.listed), func(i int) bool { return g.listed[i].Last >= o.idx })
		if o.kind != missing || o.tile == (tlog.Hash{}) || i == len(g.listed) || o.idx < g.listed[i].First {
			rest = append(rest, o)
			continue
		}
		g.open = goOn(g.open, absence{First: o.idx, Last: o.idx})
	}
	return rest
}

// settle says that a checkpoint of size records proves what was there.
func (g *gone) settle(size uint64, by string) {
	for len(g.open) > 0 && g.open[0].First < size {
		a := g.open[0]
		if a.Last < size {
			g.open = g.open[1:]
		} else {
			g.open[0].First, a.Last = size, size-1
		}
		// It proves all that is before it, so also what a smaller one proved.
		if n := len(g.settled); n > 0 {
			g.settled[n-1].Proven = by
		}
		a.Proven = by
		g.settled = goOn(g.settled, a)
	}
}

// finish takes what no checkpoint settled.
func (g *gone) finish() { g.settled, g.open = append(g.settled, g.open...), nil }

// goOn puts a behind list, as part of the last one if it goes on with that.
func goOn(list []absence, a absence) []absence {
	if n := len(list); n > 0 && list[n-1].Last+1 == a.First && list[n-1].Proven == a.Proven {
		list[n-1].Last = a.Last
		return list
	}
	return append(list, a)
}

func (g *gone) findings() []Finding {
	var out []Finding
	for _, a := range g.settled {
		out = append(out, Finding{Code: RecordMissing, First: a.First, Last: a.Last, Count: a.Last - a.First + 1,
			Proven: a.Proven, Text: "no row has this idx"})
	}
	return out
}

// withoutRetired takes out the missing rows that were retired, if the record
// that says so is itself as it was signed.
func (r *run) withoutRetired(found []Finding) []Finding {
	var sound []Retirement
	for _, x := range r.retired {
		if x.Idx < r.w.good && !slices.ContainsFunc(found,
			func(f Finding) bool { return f.Count > 0 && f.First <= x.Idx && x.Idx <= f.Last }) {
			sound = append(sound, x)
		}
	}
	rightly := covers(sound)
	var out []Finding
	for _, f := range found {
		if f.Code != RecordMissing {
			out = append(out, f)
			continue
		}
		for at := f.First; at <= f.Last; {
			i := sort.Search(len(rightly), func(i int) bool { return rightly[i].last >= at })
			until := f.Last
			if i < len(rightly) && rightly[i].first <= at {
				until = min(until, rightly[i].last)
				by := rightly[i].by
				r.addRetired(RetiredRecords{at, until, by.By, by.At, by.Idx})
			} else {
				if i < len(rightly) {
					until = min(until, rightly[i].first-1)
				}
				rest := f
				rest.First, rest.Last, rest.Count = at, until, until-at+1
				out = append(out, rest)
			}
			at = until + 1
		}
	}
	return out
}

func (r *run) addRetired(x RetiredRecords) {
	if n := len(r.report.Retired); n > 0 {
		if last := &r.report.Retired[n-1]; last.Last+1 == x.First && last.Idx == x.Idx {
			last.Last = x.Last
			return
		}
	}
	r.report.Retired = append(r.report.Retired, x)
}
