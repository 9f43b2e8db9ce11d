package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/streams"
)

// deploymentStreams reads the state of the streams.
type deploymentStreams struct{ js jetstream.JetStream }

// streamState is one stream or consumer as the server has it.
type streamState struct {
	Name     string `json:"name"`
	Messages uint64 `json:"messages"` // stored; of a consumer: not delivered yet
	Bytes    uint64 `json:"bytes"`
	InHand   int    `json:"in_hand"` // delivered and not acknowledged
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
	// Deleted messages within the sequence: above 0 on EVENTS or LEDGER is a gap.
	Deleted  int       `json:"deleted"`
	Replicas int       `json:"replicas"`
	LastTime time.Time `json:"last_time,omitzero"`
}

func streamsShow(s stdio) *cobra.Command {
	var f streamsFlags
	c := &cobra.Command{
		Use: "show", Short: "Show what the streams hold",
		Long:    "Show how many messages each stream holds and each consumer has still to handle.",
		Example: "  waybill streams show",
	}
	f.bind(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return f.run(c.Context(), func(ctx context.Context, o streams.Options, d *deploymentStreams) error {
			states, err := d.states(ctx, o)
			if err != nil {
				return err
			}
			return printStates(s, f.out, states)
		})
	}
	return c
}

func (d *deploymentStreams) states(ctx context.Context, o streams.Options) ([]streamState, error) {
	defs, err := streams.Definitions(o)
	if err != nil {
		return nil, err
	}
	out := []streamState{}
	for _, def := range defs {
		state, err := d.state(ctx, def)
		if err != nil {
			return nil, fmt.Errorf("%s: %w; put it in place with: waybill streams apply", def.Name(), err)
		}
		out = append(out, state)
	}
	return out, nil
}

func (d *deploymentStreams) state(ctx context.Context, def streams.Definition) (streamState, error) {
	if def.Consumer != "" {
		c, err := d.js.Consumer(ctx, def.Stream, def.Consumer)
		if err != nil {
			return streamState{}, err
		}
		i := c.CachedInfo()
		out := streamState{Name: def.Name(), Messages: i.NumPending, InHand: i.NumAckPending,
			FirstSeq: i.AckFloor.Stream + 1, LastSeq: i.Delivered.Stream, Replicas: max(i.Config.Replicas, 1)}
		if i.Delivered.Last != nil {
			out.LastTime = i.Delivered.Last.UTC()
		}
		return out, nil
	}
	st, err := d.js.Stream(ctx, def.Stream)
	if err != nil {
		return streamState{}, err
	}
	i := st.CachedInfo()
	out := streamState{Name: def.Name(), Messages: i.State.Msgs, Bytes: i.State.Bytes, FirstSeq: i.State.FirstSeq,
		LastSeq: i.State.LastSeq, Deleted: i.State.NumDeleted, Replicas: i.Config.Replicas}
	if i.State.LastSeq > 0 {
		out.LastTime = i.State.LastTime.UTC()
	}
	return out, nil
}

func printStates(s stdio, out format, states []streamState) error {
	if out == "json" {
		return printJSON(s.out, states)
	}
	t := table{header: []string{"NAME", "MESSAGES", "BYTES", "IN HAND", "FIRST", "LAST", "LAST AT"},
		wide: []string{"FIRST", "LAST", "LAST AT"}}
	for _, st := range states {
		t.add(st.Name, strconv.FormatUint(st.Messages, 10), strconv.FormatUint(st.Bytes, 10), strconv.Itoa(st.InHand),
			strconv.FormatUint(st.FirstSeq, 10), strconv.FormatUint(st.LastSeq, 10), moment(st.LastTime))
	}
	return t.show(s, out, "no streams are defined")
}
