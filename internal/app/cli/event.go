package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

func eventCommand(s stdio) *cobra.Command {
	return group("event", "Publish events and look at them",
		"  waybill event publish --type order.paid --data '{\"order\":\"o_17\"}'",
		eventPublish(s), eventShow(s))
}

// publishFlags are those of event publish.
type publishFlags struct {
	askFlags
	tenant, id, eventType      string
	data, timestamp, deliverBy string
	subjectType, subjectID     string
	ndjson                     bool
}

func eventPublish(s stdio) *cobra.Command {
	var f publishFlags
	c := &cobra.Command{
		Use: "publish", Short: "Publish an event, or many",
		Long: `Publish an event and print its id. When it is printed the event is stored: it is
owed to every endpoint that subscribes to its type. Publishing the same event
under the same id again is recognised and changes nothing.

--data is the event's data, its payload; its bytes are passed on as they are. The
data directory of waybill up is --data-dir, as on every command. With --ndjson, --data holds whole
events, one JSON object a line ({"id","type","timestamp","data"} and optionally
deliver_by and subject); all are checked before the first is published.`,
		Example: `  waybill event publish --type order.paid --data '{"order":"o_17"}'
  waybill event publish --tenant acme --type lab_result.critical --id lab-4711 --data @result.json --deliver-by 30m
  generate-events | waybill event publish --ndjson --data -`,
	}
	f.target.bind(c.Flags())
	f.out.bind(c.Flags())
	c.Flags().StringVar(&f.eventType, "type", "", "event type, such as order.paid")
	bindPayload(c.Flags(), &f.data, "the event's data (its payload): JSON, @FILE, or - for standard input")
	c.Flags().StringVar(&f.tenant, "tenant", control.DefaultTenant, "owner of the event")
	c.Flags().StringVar(&f.id, "id", "", "id of the event, stable for ever (default: one is made)")
	c.Flags().StringVar(&f.timestamp, "timestamp", "", "when the fact happened, RFC 3339 (default: now)")
	c.Flags().StringVar(&f.deliverBy, "deliver-by", "",
		"deadline: RFC 3339, or a duration from now, such as 30m (default: none)")
	c.Flags().StringVar(&f.subjectType, "subject-type", "", "type of the resource that the event is about")
	c.Flags().StringVar(&f.subjectID, "subject-id", "", "id of the resource that the event is about")
	c.Flags().BoolVar(&f.ndjson, "ndjson", false, "--data holds whole events, one a line")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := firstError(f.out.check(), checkTenant(f.tenant)); err != nil {
			return err
		}
		if f.ndjson {
			return f.publishMany(c, s)
		}
		event, err := f.event(s, time.Now())
		if err != nil {
			return err
		}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.Ack, error) {
			return ctl.PublishEvent(ctx, f.tenant, event, "")
		}, printAck)
	}
	return c
}

// event builds the event that the flags describe. What was not given is left
// out for control to assign, so that the same command given twice with an --id
// is recognised as the same event.
func (f *publishFlags) event(s stdio, now time.Time) ([]byte, error) {
	if f.eventType == "" {
		return nil, missing("type", "order.paid")
	}
	if f.data == "" {
		return nil, missing("data", `'{"order":"o_17"}'`)
	}
	data, err := readData(s.in, f.data, envelope.MaxEventBytes)
	if err != nil {
		return nil, err
	}
	if data = trimJSON(data); !json.Valid(data) {
		return nil, notPayload(f.data)
	}
	var deliverBy string
	if f.deliverBy != "" {
		t, err := deadline(f.deliverBy, now)
		if err != nil {
			return nil, err
		}
		deliverBy = t.Format(time.RFC3339Nano)
	}
	if (f.subjectType == "") != (f.subjectID == "") {
		return nil, process.Usagef("--subject-type and --subject-id name one resource together; give both or neither")
	}
	event := []byte{'{'}
	for _, m := range [][2]string{{"id", f.id}, {"type", f.eventType}, {"timestamp", f.timestamp},
		{"deliver_by", deliverBy}} {
		if m[1] != "" {
			event = append(append(event, `"`+m[0]+`":`...), quoted(m[1])...)
			event = append(event, ',')
		}
	}
	if f.subjectType != "" {
		event = fmt.Appendf(event, `"subject":{"type":%s,"id":%s},`, quoted(f.subjectType), quoted(f.subjectID))
	}
	event = append(append(append(event, `"data":`...), data...), '}')
	if _, err := envelope.ParseDraft(event); err != nil {
		return nil, process.Usagef("the event is not valid: %w; see --help for what each flag takes", err)
	}
	return event, nil
}

// quoted writes s as a JSON string; bytes that are no text stay as they are,
// for the parser to refuse.
func quoted(s string) []byte {
	if !utf8.ValidString(s) {
		return []byte(`"` + s + `"`)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}

// deadline reads a point in time, or a duration from now.
func deadline(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil {
		if d <= 0 {
			return time.Time{}, process.Usagef("--deliver-by %s is in the past; give a time to come", s)
		}
		return now.Add(d).UTC().Truncate(time.Millisecond), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, process.Usagef("--deliver-by %q: want RFC 3339, such as %s, or a duration from now, such as 30m",
			s, now.UTC().Add(time.Hour).Format(time.RFC3339))
	}
	if !t.After(now) {
		return t, process.Usagef("--deliver-by %s is in the past; give a time to come", s)
	}
	return t, nil
}

func printAck(s stdio, out format, ack control.Ack) error {
	if out == "json" {
		return printJSON(s.out, ack)
	}
	_, err := fmt.Fprintln(s.out, ackLine(ack))
	return err
}

// ackLine begins with the id, for scripts that cut it out.
func ackLine(ack control.Ack) string {
	if ack.Duplicate {
		return ack.ID + "  duplicate: it was published before, nothing was added"
	}
	return ack.ID + "  published"
}

func eventShow(s stdio) *cobra.Command {
	var f askFlags
	var content bool
	var tenant string
	c := &cobra.Command{
		Use: "show EVENT", Short: "Show what is on record of an event",
		Long: "Show what is on record of an event. The ledger holds no payloads: --content adds the event itself, for " +
			"as long as the stream EVENTS keeps it.",
		Example: "  waybill event show evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K\n  waybill event show order-17 --content -o json",
		Args:    process.OneArg("event id", "waybill event show evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"),
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&tenant, "tenant", "", "the event's tenant; needed when several have an event of this id")
	c.Flags().BoolVar(&content, "content", false, "show the event itself too")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkEventID(args[0]); err != nil {
			return err
		}
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) (control.EventDetails, error) {
			return ctl.Event(ctx, tenant, args[0], content)
		}, printEvent)
	}
	return c
}

func printEvent(s stdio, out format, e control.EventDetails) error {
	if out == "json" {
		return printJSON(s.out, e)
	}
	var f fields
	f.add("event", e.ID)
	f.add("tenant", e.Tenant)
	f.add("type", e.Type)
	f.add("state", e.State)
	f.add("reason", spaced(e.Reason, e.Detail))
	f.addTime("timestamp", e.Timestamp)
	f.addTime("stored", e.StoredAt)
	f.addTime("deliver by", e.DeliverBy)
	if e.SubjectType != "" {
		f.add("subject", e.SubjectType+" "+e.SubjectID)
	}
	f.add("data", dataText(e))
	f.add("endpoints", strconv.Itoa(e.Endpoints))
	f.add("position", strconv.FormatUint(e.Seq, 10))
	if err := f.write(s.out); err != nil {
		return err
	}
	if err := printContents(s, out, e); err != nil {
		return err
	}
	switch {
	case e.Event != nil:
		_, err := fmt.Fprintf(s.out, "\n%s\n", text.Lines(string(e.Event)))
		return err
	case e.Missing != "":
		_, err := fmt.Fprintf(s.out, "\n%s\n", printable(e.Missing))
		return err
	}
	return nil
}

func dataText(e control.EventDetails) string {
	if e.DataDigest == "" {
		return ""
	}
	return fmt.Sprintf("%s, sha256 %s", text.Count(e.DataBytes, "byte", "bytes"), e.DataDigest)
}
