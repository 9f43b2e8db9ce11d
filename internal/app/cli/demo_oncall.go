package cli

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

// demoChannel is both the demo's channel and, with dots, the subject that it
// publishes on.
const (
	demoChannel = "demo-oncall"
	demoSubject = "demo.oncall"
)

// oncall makes a channel and a policy, so that the demo's dead letters are told.
// Those of an earlier demo on the same data stay.
func (d *demo) oncall(ctx context.Context) error {
	_, err := d.ctl.CreateChannel(ctx, control.ChannelSpec{Name: demoChannel, Kind: channel.NATS, Subject: demoSubject,
		Description: "waybill demo: who is told of dead letters"}, demoActor)
	if err == nil || isConflict(err) {
		_, err = d.ctl.CreateEscalationPolicy(ctx, control.EscalationPolicySpec{Name: "demo", Tenants: []string{demoTenant},
			Steps: []control.EscalationStep{{Channels: []string{demoChannel}}}}, demoActor)
	}
	if isConflict(err) {
		return nil
	}
	return err
}

func isConflict(err error) bool {
	var known *control.Error
	return errors.As(err, &known) && known.Code == control.CodeConflict
}

// told says how people were told of what was not delivered.
func (d *demo) told(ctx context.Context) error {
	list, err := d.ctl.Escalations(ctx, control.EscalationFilter{Tenant: demoTenant})
	if err != nil || len(list) == 0 {
		return err
	}
	e := list[0]
	d.say("\n   What was not delivered is told to people. Channel %s took the first dead letter", demoChannel)
	d.say("   %s after it; those that follow are grouped, until somebody takes it with:",
		e.ToldAt.Sub(e.First.At).Round(100*time.Microsecond))
	d.say("     %s escalation ack %s --data-dir %s --by YOUR-NAME", calledAs(), e.ID, d.w.Data())
	return nil
}
