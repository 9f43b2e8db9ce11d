package cli

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/operator/payloadlint"
	"github.com/waybill-dev/waybill/internal/platform/redact"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

const lintExample = "waybill event-type lint 'lab_result.>' --sample payload.json --strict"

// maxLintEvents bounds how many events one run reads.
const maxLintEvents = 100_000

type lintFlags struct {
	target target
	out    format
	sample string
	tenant string
	events int
	strict bool
}

// lintReport is what a run found.
type lintReport struct {
	Looked   int                   `json:"events_looked_at"`
	Warnings []payloadlint.Warning `json:"warnings"`
}

func eventTypeLint(s stdio) *cobra.Command {
	var f lintFlags
	c := &cobra.Command{
		Use: "lint [TYPE_PATTERN]", Short: "Warn when payloads look like they carry personal data",
		Long: `Look at payloads and warn where they seem to carry data about people, or secrets,
rather than references ({"type","id"}): by the names of members in several
languages, by the form and check digits of values, by size. It looks at a sample,
or at the newest events in the stream EVENTS. No value is ever printed.
With --strict, a sure warning makes the exit status 1.`,
		Example: "  " + lintExample + "\n  waybill event-type lint --events 500 -o json",
		Args:    process.AtMostOneArg("pattern of event types", lintExample),
	}
	f.target.bind(c.Flags())
	f.out.bind(c.Flags())
	c.Flags().StringVar(&f.sample, "sample", "",
		"look at this payload, a JSON file or - for standard input, instead of EVENTS")
	c.Flags().StringVar(&f.tenant, "tenant", "", "events of this tenant only")
	c.Flags().IntVar(&f.events, "events", 200, "how many of the newest messages of EVENTS to read")
	c.Flags().BoolVar(&f.strict, "strict", false, "exit with 1 when a warning is sure")
	c.RunE = func(c *cobra.Command, args []string) error {
		pattern := ">"
		if len(args) == 1 {
			pattern = args[0]
		}
		if f.events < 1 || f.events > maxLintEvents {
			return process.Usagef("--events %d: want 1 to %d", f.events, maxLintEvents)
		}
		if err := firstError(f.out.check(), checkPattern(pattern), checkTenant(f.tenant)); err != nil {
			return err
		}
		l := payloadlint.New(redact.Default())
		if err := f.look(c.Context(), s, l, pattern); err != nil {
			return err
		}
		return f.report(s, l)
	}
	return c
}

func (f *lintFlags) look(ctx context.Context, s stdio, l *payloadlint.Lint, pattern string) error {
	if f.sample == "" {
		return f.lookAtEvents(ctx, l, pattern)
	}
	b, err := readInput(s.in, "sample", f.sample, envelope.MaxEventBytes)
	if err != nil {
		return err
	}
	name := pattern
	if pattern == ">" {
		name = "sample"
	}
	if e, err := envelope.Parse(b); err == nil { // a whole event
		name, b = e.Type, e.Data
	}
	if err := l.Look(name, b); err != nil {
		return process.Usagef("--sample %s: %w; give one JSON value", f.sample, err)
	}
	return nil
}

func (f *lintFlags) lookAtEvents(ctx context.Context, l *payloadlint.Lint, pattern string) error {
	nc, js, err := f.target.connectNATS(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	return l.LookAtNewest(ctx, js, f.tenant, pattern, f.events)
}

func (f *lintFlags) report(s stdio, l *payloadlint.Lint) error {
	r := lintReport{l.Looked(), l.Warnings()}
	sure := 0
	for _, w := range r.Warnings {
		if w.Sure {
			sure++
		}
	}
	if err := f.print(s, r); err != nil {
		return err
	}
	if f.strict && sure > 0 {
		return errors.New(text.Count(sure, "place carries", "places carry") +
			" personal data or secrets; send references instead, or run without --strict")
	}
	return nil
}

func (f *lintFlags) print(s stdio, r lintReport) error {
	if f.out == "json" {
		return printJSON(s.out, r)
	}
	t := table{header: []string{"TYPE", "PATH", "KIND", "SURE", "EVENTS", "WHY"},
		wide: []string{"EVENTS"}, flow: true}
	for _, w := range r.Warnings {
		sure := "yes"
		if !w.Sure {
			sure = "look"
		}
		t.add(w.EventType, clip(w.Path, 60), w.Kind, sure, strconv.Itoa(w.Events), w.Why)
		t.note(w.Advice)
	}
	if r.Looked == 0 {
		return t.show(s, f.out, "no event was looked at: there is none of this type and tenant among the newest in "+
			"EVENTS; check the name, or ask with a higher --events")
	}
	return t.show(s, f.out, text.Count(r.Looked, "event", "events")+
		" looked at: nothing that looks like personal data or secrets")
}
