package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

func evidenceShow(s stdio) *cobra.Command {
	var out format
	var keys keyFlags
	var page string
	c := &cobra.Command{
		Use: "show FILE", Short: "Show a file of evidence, here or as a page to print",
		Long: `Show what a file of evidence says: the timeline, and every attempt. With --html it
becomes one page that needs nothing besides, for the screen and for paper. With --key
the file is verified first and the page says so; without, it says that it was not.`,
		Example: `  waybill evidence show order-17.evidence.json
  waybill evidence show order-17.evidence.json --key ledger.pub --html order-17.html`,
		Args: process.OneArg("file", "waybill evidence show order-17.evidence.json"),
	}
	out.bind(c.Flags())
	keys.bind(c.Flags())
	c.Flags().StringVar(&page, "html", "", "write a page to this file instead, for its owner alone; - for standard output")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		o, err := keys.options()
		if err != nil {
			return err
		}
		b, err := readBounded(s.in, args[0], evidence.MaxBytes)
		if err != nil {
			return err
		}
		r := evidence.Verify(b, o)
		if r.Story == nil {
			return fmt.Errorf("%s cannot be shown: %s; ask for the file again", args[0], printable(first(r.Problems...)))
		}
		switch {
		case page != "":
			var html bytes.Buffer
			wrote := false
			if err = evidence.Page(&html, r); err == nil {
				wrote, err = writeFile(s.out, "html", page, html.Bytes())
			}
			if wrote && err == nil {
				fmt.Fprintf(s.out, "%s  %s\n", page, verdict(r))
			}
		case out == "json":
			err = printJSON(s.out, map[string]any{"report": r, "records": shownFacts(r.Facts)})
		default:
			err = printStory(s.out, s.room(out), args[0], r)
		}
		if err == nil && len(r.Problems) > 0 {
			err = fmt.Errorf("%s is not as it was written: %s; see: waybill evidence verify %s --key KEY", args[0],
				printable(r.Problems[0]), args[0])
		}
		if err == nil {
			err = doubts(args[0], r)
		}
		return err
	}
	return c
}

type shownFact struct {
	Idx    uint64        `json:"idx"`
	Role   evidence.Role `json:"role"`
	Record record.Record `json:"record"`
}

func shownFacts(facts []evidence.Fact) []shownFact {
	out := make([]shownFact, len(facts))
	for i, f := range facts {
		out[i] = shownFact{f.Idx, f.Role, f.Record}
	}
	return out
}

func printStory(w io.Writer, room int, file string, r *evidence.Report) error {
	var f fields
	f.add("file", file)
	f.add("event", r.Subject.EventID)
	f.add("tenant", r.Subject.Tenant)
	f.add("verdict", verdict(r))
	f.add("ledger", fmt.Sprintf("%s, checkpoint over %s", r.Origin, text.Count(r.Size, "record", "records")))
	f.add("exported", spaced(moment(r.Statement.ExportedAt), "by "+r.Statement.ExportedBy+" with "+r.Statement.Software))
	if err := f.write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	times := timeline(r.Facts)
	times.room = room
	if err := times.write(w, "no records"); err != nil {
		return err
	}
	for i := range r.Story.Deliveries {
		d := &r.Story.Deliveries[i]
		fmt.Fprintf(w, "\n%s  %s\n", printable(d.EndpointID), printable(spaced(d.State, d.Reason)))
		if len(d.Attempts) == 0 {
			continue
		}
		var attempts []record.Record
		for _, a := range d.Attempts {
			attempts = append(attempts, a.Record)
		}
		t := attemptTable(attempts)
		t.room = room
		if err := t.write(w, ""); err != nil {
			return err
		}
	}
	var b strings.Builder
	section(&b, "Wrong with it", r.Problems)
	section(&b, "CONTRADICTION on record", r.Contradictions)
	section(&b, "NOT VOUCHED FOR by EVENTS when the file was written", r.Findings)
	section(&b, "Not in this file, or not known", r.Story.Gaps())
	_, err := io.WriteString(w, b.String())
	return err
}

// timeline lists every record by the time that it speaks of.
func timeline(facts []evidence.Fact) *table {
	facts = slices.Clone(facts)
	slices.SortStableFunc(facts, func(a, b evidence.Fact) int {
		return cmp.Or(a.When().Compare(b.When()),
			cmp.Compare(a.Idx, b.Idx))
	})
	var from time.Time
	for _, f := range facts {
		if f.Role == evidence.OfEvent {
			from = f.When()
			break
		}
	}
	t := &table{header: []string{"TIME (UTC)", "AFTER", "RECORD", "WHAT", "ENDPOINT"}, wide: []string{"AFTER", "RECORD"},
		clip: []string{"WHAT"}}
	for _, f := range facts {
		after := ""
		if f.Role == evidence.OfEvent {
			after = "+" + took(f.When().Sub(from).Microseconds())
		}
		t.add(moment(f.When()), after, strconv.FormatUint(f.Idx, 10), clip(printable(f.Title()), 60), f.EndpointID)
	}
	return t
}
