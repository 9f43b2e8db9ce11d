package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/allinone"
	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/testdata"
)

const (
	demoTenant = "demo"
	demoActor  = "waybill demo"
	// demoBound is far above the few seconds that the demo's schedules take.
	demoBound = 2 * time.Minute
)

func demoCommand(s stdio) *cobra.Command {
	var f upFlags
	var once bool
	c := &cobra.Command{
		Use: "demo", Short: "See it work: receivers good and bad, events, and the evidence",
		Long: `Run everything as waybill up does, with four receivers on this machine: one that
is healthy, one that fails twice before it accepts, one that rejects, and one
that never answers. Events are published to all of them; then the demo shows what
is on record and checks it against what the receivers got.

It takes a few seconds, then stays up until Ctrl-C, to be looked at. Without
--data-dir its data is in a temporary directory that is removed at the end.`,
		Example: "  waybill demo\n  waybill demo --once",
	}
	f.bind(c.Flags(), "error")
	c.Flags().Lookup(dataDir).DefValue = ""
	c.Flags().Lookup(dataDir).Usage = "data directory (default: a temporary one)"
	c.Flags().BoolVar(&once, "once", false, "end when everything was shown, rather than stay up")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		o, err := f.options(s.err)
		if err != nil {
			return err
		}
		if !c.Flags().Changed(dataDir) {
			if o.Data, err = os.MkdirTemp("", "waybill-demo-"); err != nil {
				return fmt.Errorf("a temporary directory: %w; name one with --data-dir", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(o.Data)) }()
		}
		for _, p := range []struct {
			flag string
			addr *string
		}{{"http", &o.HTTP}, {"nats", &o.NATS}, {"clickhouse-native", &o.ClickHouseNative},
			{"clickhouse-http", &o.ClickHouseHTTP}} {
			if !c.Flags().Changed(p.flag) && taken(*p.addr) {
				fmt.Fprintf(s.out, "%s is in use by another process: --%s takes a free port instead.\n", *p.addr, p.flag)
				*p.addr = "127.0.0.1:0"
			}
		}
		o.EgressAllow = append(o.EgressAllow, "127.0.0.1/32") // where the demo's receivers are
		fmt.Fprintln(s.out, "Starting NATS, ClickHouse and the stages …")
		return up(c.Context(), o, s, func(ctx context.Context, w *allinone.Waybill) error {
			d := &demo{out: s.out, w: w, ctl: w.Control()}
			if err := d.run(ctx); err != nil {
				return err
			}
			if once {
				return nil
			}
			fmt.Fprintln(s.out, "\nEverything stays up. Stop it with Ctrl-C.")
			return w.Wait(ctx)
		})
	}
	return c
}

func taken(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return errors.Is(err, syscall.EADDRINUSE)
	}
	_ = l.Close()
	return false
}

// demo publishes events to its receivers and checks the record against them.
type demo struct {
	out       io.Writer
	w         *allinone.Waybill
	ctl       *control.Control
	receivers []*receiver
	events    []control.Ack
	names     []string // of the events' files
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

func (d *demo) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoBound)
	defer cancel()
	defer d.stopReceivers()
	if err := d.startReceivers(ctx); err != nil {
		return err
	}
	if err := d.oncall(ctx); err != nil {
		return err
	}
	if err := d.publish(ctx); err != nil {
		return err
	}
	if err := d.await(ctx); err != nil {
		return err
	}
	if err := d.report(ctx); err != nil {
		return err
	}
	return d.told(ctx)
}

// publish sends the events of testdata. Their data is untouched; ids and times
// are new, so that the demo can be run again on the same data.
func (d *demo) publish(ctx context.Context) error {
	files, err := testdata.Events()
	if err != nil {
		return err
	}
	for _, f := range files {
		e, err := envelope.Parse(f.JSON)
		if err != nil {
			return fmt.Errorf("testdata/%s.json: %w", f.Name, err)
		}
		now := time.Now().UTC()
		e.ID, e.Timestamp, e.RawTimestamp = ids.New(ids.Event, now), now, ""
		if !e.DeliverBy.IsZero() {
			e.DeliverBy = now.Add(30 * time.Minute)
		}
		ack, err := d.ctl.PublishEvent(ctx, demoTenant, e.AppendJSON(nil), "")
		if err != nil {
			return err
		}
		d.events, d.names = append(d.events, ack), append(d.names, f.Name)
	}
	d.say("\n2. %d events, published to tenant %s: lab results, consents, payments, and some that\n   are hard on "+
		"software (300-digit numbers, odd Unicode, deep nesting).", len(d.events), demoTenant)
	d.say("   Each is owed to each receiver: %d deliveries.", len(d.events)*len(d.receivers))
	return nil
}

// await returns when every delivery has ended.
func (d *demo) await(ctx context.Context) error {
	began := time.Now()
	for _, e := range d.events {
		if _, err := waitEnded(ctx, d.ctl, e.ID); err != nil {
			return err
		}
	}
	d.say("\n3. Every delivery has ended, after %s.\n", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// indented writes lines with an indent; empty lines stay empty.
type indented struct {
	w    io.Writer
	with string
}

func (i indented) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		if strings.TrimSpace(line) != "" {
			line = i.with + line
		}
		if _, err := io.WriteString(i.w, line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
