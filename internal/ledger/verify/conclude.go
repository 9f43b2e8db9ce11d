package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

// explained is how many findings get the details of their first record.
const explained = 100

// conclude turns what the walk found into the report.
func (r *run) conclude(ctx context.Context) error {
	r.w.finish()
	p := &r.report
	p.Ledger, p.First, p.End, p.Read = r.ledger, r.o.From&^(merkle.TileWidth-1), r.readEnd(), r.read
	if !r.whole() {
		p.Asked = &Range{r.o.From, r.end}
	}
	p.Keys = keyNames(r.o.Keys)
	p.Last = r.w.goodBy
	r.countCheckpoints()

	var all findings
	for _, f := range r.g.findings {
		all.add(f)
	}
	if r.whole() {
		for _, f := range r.g.absent() {
			all.add(f)
		}
		for _, f := range append(r.rolledBack(), r.kept()...) {
			all.add(f)
		}
		replaced, err := r.replaced(ctx)
		if err != nil {
			return err
		}
		for _, f := range replaced {
			all.add(f)
		}
	}
	for _, f := range r.columnFindings() {
		all.add(f)
	}
	records := r.withoutRetired(append(r.w.gone.findings(), r.w.found.List...))
	slices.SortStableFunc(records, func(a, b Finding) int { return int(min(a.First, 1<<62)) - int(min(b.First, 1<<62)) })
	strays, err := r.strays(ctx)
	if err != nil {
		return err
	}
	records = r.moved(append(records, strays...))
	for _, f := range records {
		all.add(f)
	}
	all.Dropped += r.w.found.Dropped + r.w.dropped
	p.Findings, p.Dropped = all.List, all.Dropped
	if p.Findings == nil {
		p.Findings = []Finding{}
	}
	if err := r.compareStream(ctx); err != nil {
		return err
	}
	if err := r.coverage(ctx); err != nil {
		return err
	}
	if err := r.explain(ctx); err != nil {
		return err
	}
	r.unproven()
	p.Good = len(p.Findings) == 0 && p.Dropped == 0
	return nil
}

func (r *run) countCheckpoints() {
	c := &r.report.Checkpoints
	c.Known, c.Agreed = len(r.g.trusted)+r.g.unsigned, r.w.goods
	for _, t := range r.g.trusted {
		if t.signed() {
			c.Signed++
		}
		if slices.ContainsFunc(t.Sources, func(s string) bool { return s != FromTable }) {
			c.Outside++
		}
	}
}

// rolledBack finds a ledger that is shorter than what was signed.
func (r *run) rolledBack() []Finding {
	n := len(r.g.trusted)
	if n == 0 || r.g.trusted[n-1].Size <= r.ledger {
		return nil
	}
	// The largest says how much is missing; the first behind the end, since when.
	last := r.g.trusted[n-1]
	i := slices.IndexFunc(r.g.trusted, func(c Checkpoint) bool { return c.Size > r.ledger })
	first := r.g.trusted[i]
	text := fmt.Sprintf("the ledger ends before what was signed: it has %s, %s says more. It was cut off, or an older "+
		"backup was restored", text.Count(r.ledger, "record", "records"), last.name())
	if first.Size != last.Size || first.Root != last.Root {
		text += fmt.Sprintf("; the first checkpoint that it does not reach is %s", first.name())
	}
	return []Finding{{Code: RolledBack, First: r.ledger, Last: last.Size - 1, Count: last.Size - r.ledger, Text: text,
		Proven: last.name()}}
}

func (r *run) columnFindings() []Finding {
	var out findings
	for _, d := range r.w.columns {
		if d.Idx < r.o.From || d.Idx >= r.end {
			continue
		}
		out.add(Finding{Code: ColumnChanged, First: d.Idx, Last: d.Idx, Count: 1, ID: d.ID, Columns: d.Columns,
			Text: "stored columns do not say what the record's bytes say"})
	}
	return out.List
}

// strays are rows behind the ledger's end.
func (r *run) strays(ctx context.Context) ([]Finding, error) {
	if !r.whole() || r.extent.End <= r.ledger {
		return nil, nil
	}
	rows, err := r.source.Beyond(ctx, r.ledger, maxStrays)
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, x := range rows {
		out = append(out, Finding{Code: RecordAdded, First: x.Idx, Last: x.Idx, Count: 1, ID: x.ID,
			Text: "a row far behind the ledger's end"})
		r.w.strange[merkle.LeafHash(x.StreamEpoch, x.StreamSeq, x.Body)] = x.Idx
	}
	return out, nil
}

// moved finds records that are there, at another place: swapped, or under
// another idx.
func (r *run) moved(found []Finding) []Finding {
	where := map[uint64]uint64{} // record to the place it is at
	holds := map[uint64]uint64{} // place to the record it holds
	for h, idx := range r.w.proven {
		if at, ok := r.w.strange[h]; ok && at != idx && h != zero {
			where[idx], holds[at] = at, idx
		}
	}
	if len(where) == 0 {
		return found
	}
	var out []Finding
	for _, f := range found {
		switch f.Code {
		case RecordChanged, RecordMissing, RecordAdded, RecordOrTile:
			out = append(out, split(f, where, holds)...)
		default:
			out = append(out, f)
		}
	}
	return out
}

// split takes the moved records out of a finding. Few are moved: a long range is
// split at them only.
func split(f Finding, where, holds map[uint64]uint64) []Finding {
	var cuts []uint64
	for _, m := range []map[uint64]uint64{where, holds} {
		for idx := range m {
			if f.First <= idx && idx <= f.Last {
				cuts = append(cuts, idx)
			}
		}
	}
	slices.Sort(cuts)
	var out []Finding
	at := f.First
	part := func(first, last uint64) {
		if first <= last && last != ^uint64(0) {
			rest := f
			rest.First, rest.Last, rest.Count = first, last, last-first+1
			out = append(out, rest)
		}
	}
	for _, idx := range slices.Compact(cuts) {
		if idx > 0 {
			part(at, idx-1)
		}
		one := f
		one.First, one.Last, one.Count, one.Code = idx, idx, 1, RecordMoved
		place, gone := where[idx]
		record, strange := holds[idx]
		switch {
		case gone && strange && place == record:
			one.Text = fmt.Sprintf("records %d and %d are swapped", min(idx, place), max(idx, place))
		case gone && strange:
			one.Text = fmt.Sprintf("it is at %d; here is record %d", place, record)
		case gone:
			one.Text = fmt.Sprintf("its row has idx %d", place)
		default:
			one.Text = fmt.Sprintf("this row is record %d", record)
		}
		out = append(out, one)
		at = idx + 1
	}
	part(at, f.Last)
	return out
}

// explain adds what the first record of a finding says.
func (r *run) explain(ctx context.Context) error {
	for i := range r.report.Findings {
		f := &r.report.Findings[i]
		if i >= explained || f.Count == 0 || f.Code == RolledBack || f.Code == TileMissing || f.Code == NoCheckpoint {
			continue
		}
		around := []uint64{f.First, f.First + 1}
		if f.First > 0 {
			around = append(around, f.First-1)
		}
		rows, err := r.source.Records(ctx, around)
		if err != nil {
			return err
		}
		for _, x := range rows {
			if x.Idx == f.First && f.ID == "" {
				f.ID = x.ID
			}
		}
		if f.Code == RecordChanged && f.Count == 1 {
			r.blame(f, rows)
		}
	}
	return nil
}

// blame says which part of a changed row differs from what was signed, where
// that can be known: another place in the stream with the same body gives the
// signed hash, or no place near does.
func (r *run) blame(f *Finding, rows []Record) {
	var leaf tlog.Hash
	for h, idx := range r.w.proven {
		if idx == f.First {
			leaf = h
		}
	}
	i := slices.IndexFunc(rows, func(x Record) bool { return x.Idx == f.First })
	if i < 0 || leaf == zero {
		return
	}
	x := rows[i]
	for _, near := range append(rows, x) {
		for d := int64(-1000); d <= 1000; d++ {
			seq := uint64(int64(near.StreamSeq) + d)
			if merkle.LeafHash(near.StreamEpoch, seq, x.Body) != leaf {
				continue
			}
			if seq != x.StreamSeq {
				f.Columns = append(f.Columns, Difference{"stream_seq", fmt.Sprint(x.StreamSeq), fmt.Sprint(seq)})
			}
			if near.StreamEpoch != x.StreamEpoch {
				f.Columns = append(f.Columns, Difference{"stream_epoch", fmt.Sprint(x.StreamEpoch), fmt.Sprint(near.StreamEpoch)})
			}
			return
		}
	}
	f.Text += ": its body, or where it came from (stream_epoch, stream_seq), was altered"
}

// coverage is about the records that no checkpoint proves yet.
func (r *run) coverage(ctx context.Context) error {
	p := &r.report
	if r.end > r.w.good {
		p.Uncovered = r.end - max(r.w.good, p.First)
	}
	if r.end == 0 || p.Uncovered == 0 {
		return nil
	}
	if r.w.goodBy == nil && len(r.w.bad) == 0 {
		what := "no checkpoint covers these records: nothing proves them"
		switch {
		case len(r.g.trusted) > 0:
			what = "no checkpoint that reaches these records agrees with them"
		case r.g.unsigned > 0:
			what = fmt.Sprintf("none of %s is signed by a key that was given",
				text.Count(r.g.unsigned, "checkpoint", "checkpoints"))
		default:
			if rows, err := r.source.Records(ctx, []uint64{p.First}); err != nil {
				return err
			} else if len(rows) > 0 && r.o.Now.Sub(rows[0].At) < overdue {
				what += "; if this ledger is as new as its first record says, ask again in a minute: the ledger-sink signs by then"
			}
		}
		p.Findings = append(p.Findings, Finding{Code: NoCheckpoint, First: p.First, Last: r.end - 1, Count: r.end - p.First,
			Text: what})
		return nil
	}
	if len(r.w.bad) > 0 {
		return nil
	}
	rows, err := r.source.Records(ctx, []uint64{r.w.good})
	if err != nil || len(rows) == 0 {
		return err
	}
	if waited := r.o.Now.Sub(rows[0].At); waited > overdue && r.o.Now.Sub(r.w.goodBy.At) > overdue {
		p.Findings = append(p.Findings, Finding{Code: NotCovered, First: r.w.good, Last: r.end - 1, Count: r.end - r.w.good,
			Text: fmt.Sprintf("no checkpoint covers them, though the first one is from %s and a checkpoint follows within a "+
				"minute: checkpoints were deleted, records were added, or the ledger-sink does not sign",
				instant(rows[0].At))})
	}
	return nil
}

// unproven says what a run like this cannot show.
func (r *run) unproven() {
	p := &r.report
	say := func(format string, a ...any) { p.Unproven = append(p.Unproven, fmt.Sprintf(format, a...)) }
	if len(r.o.Keys) == 0 && r.end > 0 {
		say("who signed: no key was given (--key), so whoever can write to the database could have made these checkpoints too")
	} else if r.g.unsigned > 0 {
		say("%s not signed by a key that was given, and not used; after a change of keys, give both the old key and the "+
			"new one",
			text.Count(r.g.unsigned, "checkpoint is", "checkpoints are"))
	}
	if p.Checkpoints.Outside == 0 && !r.witnessed() && r.end > 0 {
		say("that this is the only history: no checkpoint from outside of the database was given (--checkpoint, " +
			"--nats-url), nor the key of a witness that cosigned one (--key), so whoever has the key and the database could " +
			"have rewritten both, or cut the ledger short")
	}
	if p.Uncovered > 0 && !slices.ContainsFunc(p.Findings, func(f Finding) bool {
		return f.Code == NotCovered || f.Code == NoCheckpoint || f.Code == RecordsRewritten
	}) {
		say("the last %s (from %d on): no checkpoint covers that yet", text.Count(p.Uncovered, "record", "records"),
			max(r.w.good, p.First))
	}
	if !r.whole() {
		say("the records before %d and from %d on: they were not verified; nor whether the ledger was cut short", p.First,
			p.End)
	}
}

// witnessed says whether a witness whose key was given saw what is proven.
func (r *run) witnessed() bool { return r.w.goodBy != nil && len(r.w.goodBy.Witnesses) > 0 }

// Codes lists the codes of the findings, for tests and people.
func (r *Report) Codes() string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, string(f.Code))
	}
	return strings.Join(slices.Compact(out), " ")
}
