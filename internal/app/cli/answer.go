package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/operator/control"
)

// askFlags are what every command has that asks a deployment: where it runs,
// and how the answer is printed.
type askFlags struct {
	target target
	out    format
}

func (f *askFlags) bind(flags *pflag.FlagSet) {
	f.target.bind(flags)
	f.out.bind(flags)
}

// changeFlags are what every command has that changes something: also who
// does it, and why.
type changeFlags struct {
	askFlags
	actor  string
	reason string
}

func (f *changeFlags) bind(flags *pflag.FlagSet) {
	f.askFlags.bind(flags)
	bindActor(flags, &f.actor)
	flags.StringVar(&f.reason, "reason", "", "why, for the record")
}

// answer runs one action against the deployment, prints what it gave, and then
// does what else there is to say.
func answer[T any](c *cobra.Command, s stdio, f *askFlags, do func(context.Context, *control.Control) (T, error),
	print func(stdio, format, T) error,
	then ...func(context.Context, stdio, *control.Control) error) error {
	if err := f.out.check(); err != nil {
		return err
	}
	return f.target.withControl(c.Context(), func(ctx context.Context, ctl *control.Control) error {
		a, err := do(ctx, ctl)
		if err != nil {
			return err
		}
		if err := print(s, f.out, a); err != nil {
			return err
		}
		for _, say := range then {
			if err := say(ctx, s, ctl); err != nil {
				return err
			}
		}
		return nil
	})
}
