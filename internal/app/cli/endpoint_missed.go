package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

func endpointMissed(s stdio) *cobra.Command {
	var f askFlags
	var since, until string
	var limit int
	c := &cobra.Command{
		Use: "missed ENDPOINT", Short: "List the events that an endpoint missed while it was disabled",
		Long: `List the events of the types that an endpoint subscribes to that it was not owed because
it was disabled, oldest first. One that was replayed to it is not listed any more.
Deliveries that waited when it was disabled are dead letters: waybill deadletter list`,
		Example: `  waybill endpoint missed ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --since 24h
  waybill endpoint missed ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K -o json | jq -r '.events[].id' |
    xargs -I{} waybill replay event {} --endpoint ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --reason 'missed while disabled'`,
		Args: process.OneArg("endpoint id", "waybill endpoint missed ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"),
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&since, "since", "", "expanded at this time or later: RFC 3339, or so long ago, such as 24h")
	c.Flags().StringVar(&until, "until", "", "expanded before this time: RFC 3339, or so long ago")
	c.Flags().IntVar(&limit, "limit", control.DefaultPage, "at most so many")
	c.RunE = func(c *cobra.Command, args []string) error {
		if limit < 1 || limit > maxMissed {
			return process.Usagef("--limit %d: want 1 to %d", limit, maxMissed)
		}
		now := time.Now()
		from, err := moments("since", since, now)
		if err != nil {
			return err
		}
		to, err := moments("until", until, now)
		if err := firstError(err, checkEndpointID(args[0])); err != nil {
			return err
		}
		filter := control.MissedFilter{Since: from, Until: to}
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) (control.MissedPage, error) {
			return collectMissed(ctx, ctl, args[0], filter, limit)
		}, func(s stdio, out format, page control.MissedPage) error {
			return printMissed(s, out, args[0], page)
		})
	}
	return c
}

// maxMissed bounds what one command lists; it asks page by page.
const maxMissed = 100_000

// collectMissed reads pages until there are enough: a page may be short.
func collectMissed(ctx context.Context, ctl *control.Control, id string, f control.MissedFilter,
	limit int) (control.MissedPage, error) {
	out := control.MissedPage{Events: []control.MissedEvent{}}
	for {
		page, err := ctl.Missed(ctx, id, f, out.Next, min(limit-len(out.Events), control.MaxPage))
		if err != nil {
			return out, err
		}
		out.Events, out.Next = append(out.Events, page.Events...), page.Next
		if out.Next == "" || len(out.Events) == limit {
			return out, nil
		}
	}
}

func printMissed(s stdio, out format, id string, page control.MissedPage) error {
	if out == "json" {
		return printJSON(s.out, page)
	}
	t := table{header: []string{"EVENT", "TYPE", "STORED AT", "DISABLED AT"}}
	for _, e := range page.Events {
		t.add(e.ID, e.Type, moment(e.StoredAt), moment(e.DisabledAt))
	}
	if err := t.write(s.out, "it missed no event"); err != nil {
		return err
	}
	if page.Next != "" {
		fmt.Fprintf(s.err, "there may be more; see them with a higher --limit (now %d) or with --since\n", len(page.Events))
	}
	if len(page.Events) > 0 {
		fmt.Fprintf(s.err, "send one: waybill replay event EVENT --endpoint %s --reason 'missed while disabled'\n", id)
	}
	return nil
}
