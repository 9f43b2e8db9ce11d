package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/verify"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

// shownFindings are printed; -o json has them all.
const shownFindings = 20

// printVerified writes the report for people: the verdict, what is wrong, what
// was checked against what, and what is not proven.
func printVerified(w io.Writer, r verify.Report) error {
	var b strings.Builder
	line := func(format string, a ...any) { b.WriteString(text.Lines(fmt.Sprintf(format, a...)) + "\n") }
	line("%s", ledgerVerdict(r))
	if n := len(r.Findings); n > 0 {
		line("\nWrong:")
		for i, f := range r.Findings {
			if i == shownFindings {
				line("  … and %d more; -o json lists them", n-i+int(r.Dropped))
				break
			}
			printFinding(line, f)
		}
	}
	line("\nChecked:")
	if a := r.Asked; a != nil && (a.From != r.First || a.Until != r.End) {
		line("  asked for    %s; whole tiles of 256 are checked: %s", indices(a.From, a.Until), indices(r.First, r.End))
	}
	line("  records      %s, %s, each hashed and %d columns compared with its bytes%s", text.Count(r.Read, "row", "rows"),
		indices(r.First, r.End), r.Columns, rate(r))
	if r.Reached != nil {
		line("               and %s, only to compare with the checkpoint behind", indices(r.Reached.From, r.Reached.Until))
	}
	if r.ResumedAt > 0 {
		line("               the records before %d were read by the run that was interrupted", r.ResumedAt)
	}
	line("  checkpoints  %d known, %d signed by a key that was given, %d from outside of the database; %d agree",
		r.Checkpoints.Known, r.Checkpoints.Signed, r.Checkpoints.Outside, r.Checkpoints.Agreed)
	if c := r.Last; c != nil {
		line("               the last that agrees: %s, %s, root %s", text.Count(c.Size, "record", "records"), stamp(c.At),
			c.Root)
		line("               found in %s%s", strings.Join(c.Sources, ", "), signers(*c))
	}
	for _, k := range r.Keys {
		line("  key          %s", k)
	}
	if r.Schema != nil {
		line("  definitions  %d tables and views, policies that hide rows", r.Schema.Objects)
	}
	if r.Stream != nil {
		line("  LEDGER       sequences %d to %d, %s byte for byte", r.Stream.First, r.Stream.Last,
			text.Count(r.Stream.Compared, "record", "records"))
	}
	for _, x := range r.Retired {
		line("  retired      %s, by %s on %s (record %d); their hashes are still proven", indices(x.First, x.Last+1), x.By,
			stamp(x.At), x.Idx)
	}
	ledgerSection(line, "Not proven", r.Unproven)
	ledgerSection(line, "Notes", r.Notes)
	_, err := io.WriteString(w, b.String())
	return err
}

func ledgerVerdict(r verify.Report) string {
	switch {
	case !r.Good:
		return "NOT GOOD: " + text.Count(uint64(len(r.Findings))+r.Dropped, "finding", "findings") + "."
	case r.Ledger == 0:
		return "GOOD: the ledger is empty."
	case r.Last == nil:
		return "GOOD so far as was read; no checkpoint was needed." + unkeyed(r)
	case r.Uncovered > 0 && r.Last.Size <= r.First:
		return "GOOD so far as can be told; no checkpoint covers these records yet." + unkeyed(r)
	case len(r.Keys) == 0:
		return fmt.Sprintf("GOOD in itself: %s agree with the checkpoints that were found.%s", claimed(r), unkeyed(r))
	}
	return fmt.Sprintf("GOOD: %s are as they were signed.", claimed(r))
}

// claimed are the records that the verdict is about: those that were asked for.
func claimed(r verify.Report) string {
	first, end := r.First, r.End
	if r.Asked != nil {
		first, end = r.Asked.From, r.Asked.Until
	}
	return indices(first, min(end, r.Last.Size))
}

// unkeyed belongs to the first line: a key is what tells our checkpoints from
// those of whoever can write to the database.
func unkeyed(r verify.Report) string {
	if len(r.Keys) > 0 {
		return ""
	}
	return " NOTHING IS PROVEN about who signed them: no key was given (--key)."
}

func printFinding(line func(string, ...any), f verify.Finding) {
	where := ""
	if f.Count > 0 {
		where = f.Range()
		if f.ID != "" {
			where += fmt.Sprintf(" (%s)", f.ID)
		}
		where += ": "
	}
	line("  %s%s", where, f.Text)
	for _, d := range f.Columns {
		line("      %s: the column says %s, the record says %s", d.Column, quote(d.Stored), quote(d.Ledger))
	}
	if f.Proven != "" {
		line("      proven by %s", f.Proven)
	}
}

func quote(s string) string { return fmt.Sprintf("%q", clip(s, 200)) }

func ledgerSection(line func(string, ...any), title string, items []string) {
	if len(items) == 0 {
		return
	}
	line("\n%s:", title)
	for _, i := range items {
		line("  %s", i)
	}
}

func indices(first, end uint64) string {
	if end <= first+1 {
		return fmt.Sprintf("record %d", first)
	}
	return fmt.Sprintf("records %d to %d", first, end-1)
}

func rate(r verify.Report) string {
	if r.Seconds < 0.01 || r.Read <= r.ResumedAt {
		return ""
	}
	return fmt.Sprintf(", in %s (%.0f a second)", time.Duration(r.Seconds*float64(time.Second)).Round(10*time.Millisecond),
		float64(r.Read-r.ResumedAt)/r.Seconds)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "time unknown"
	}
	return moment(t) + " UTC"
}

func signers(c verify.Checkpoint) string {
	out := ""
	if c.Signer != "" {
		out += "; signed by " + c.Signer
	}
	if len(c.Witnesses) > 0 {
		out += "; cosigned by " + strings.Join(c.Witnesses, ", ")
	}
	return out
}
