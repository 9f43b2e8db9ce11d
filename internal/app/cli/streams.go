package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/streams"
)

// streamsBound covers the creation of every stream and consumer on a loaded cluster.
const streamsBound = 2 * time.Minute

func streamsCommand(s stdio) *cobra.Command {
	return group("streams", "Put the JetStream streams and consumers in place",
		"  waybill streams check --nats-url nats://nats.internal:4222",
		streamsApply(s), streamsCheck(s), streamsShow(s), streamsLimit(s))
}

type streamsFlags struct {
	target     target
	out        format
	replicas   int
	partitions int
}

func (f *streamsFlags) bind(c *cobra.Command) {
	f.target.bind(c.Flags())
	f.out.bind(c.Flags())
	c.Flags().IntVar(&f.partitions, "partitions", 0,
		"partitions of DELIVERIES and RETRY (default: as many as the server has, or 1)")
}

func (f *streamsFlags) check() error {
	if f.partitions < 0 || f.partitions > 100 {
		return process.Usagef("--partitions %d: want 1 to 100", f.partitions)
	}
	return f.out.check()
}

func streamsApply(s stdio) *cobra.Command {
	var f streamsFlags
	c := &cobra.Command{
		Use: "apply", Short: "Create and update what is missing or differs",
		Long: "Create and update the streams, buckets and consumers that Waybill needs. Settings that Waybill does not " +
			"name, and limits that you have set, are left as they are. waybill up does this by itself.",
		Example: "  waybill streams apply --nats-url nats://nats.internal:4222 --replicas 3 --partitions 8",
	}
	f.bind(c)
	c.Flags().IntVar(&f.replicas, "replicas", 0,
		"replicas of each stream: 1, 3 or 5 (default: as the server has it, or 1)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		switch f.replicas {
		case 0, 1, 3, 5:
		default:
			return process.Usagef("--replicas %d: want 1, 3 or 5", f.replicas)
		}
		return f.run(c.Context(), func(ctx context.Context, o streams.Options, d *deploymentStreams) error {
			changes, err := streams.Apply(ctx, d.js, o)
			if err == nil || len(changes) > 0 {
				if err := printChanges(s, f.out, changes); err != nil {
					return err
				}
			}
			if err != nil {
				return fmt.Errorf("%w; what is listed was done, and applying again goes on from there", err)
			}
			return nil
		})
	}
	return c
}

func streamsCheck(s stdio) *cobra.Command {
	var f streamsFlags
	c := &cobra.Command{
		Use: "check", Short: "Report what is missing or differs, and change nothing",
		Long: "Report how the server's streams and consumers differ from what this version needs. Exit status 1 when " +
			"they do.",
		Example: "  waybill streams check -o json",
	}
	f.bind(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return f.run(c.Context(), func(ctx context.Context, o streams.Options, d *deploymentStreams) error {
			changes, err := streams.Drift(ctx, d.js, o)
			if err != nil {
				return err
			}
			if err := printChanges(s, f.out, changes); err != nil {
				return err
			}
			wrong := 0
			for _, ch := range changes {
				if ch.Action != "unchanged" {
					wrong++
				}
			}
			if wrong > 0 {
				return fmt.Errorf("%d of %d differ; mend them with: waybill streams apply", wrong, len(changes))
			}
			return nil
		})
	}
	return c
}

func (f *streamsFlags) run(ctx context.Context,
	do func(context.Context, streams.Options, *deploymentStreams) error) error {
	nc, js, err := f.target.connectNATS(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, streamsBound)
	defer cancel()
	partitions, err := streams.ChoosePartitions(ctx, js, f.partitions)
	if err != nil {
		return err
	}
	return do(ctx, streams.Options{Replicas: f.replicas, Partitions: partitions}, &deploymentStreams{js})
}

func printChanges(s stdio, out format, changes []streams.Change) error {
	if out == "json" {
		return printJSON(s.out, append([]streams.Change{}, changes...))
	}
	t := table{header: []string{"NAME", "STATE", "DIFFERENCES"}, flow: true}
	for _, c := range changes {
		t.add(c.Name, c.Action, strings.Join(slices.Concat(c.Differences, c.Kept), "; "))
	}
	return t.show(s, out, "no streams are defined")
}
