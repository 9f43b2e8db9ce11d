package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/streams"
)

// limitFlags are those of streams limit.
type limitFlags struct {
	streamsFlags
	maxBytes, maxAge string
	yes              bool
}

func streamsLimit(s stdio) *cobra.Command {
	var f limitFlags
	c := &cobra.Command{
		Use: "limit STREAM", Short: "Show or set how much a stream may keep",
		Long: `Show the limits of a stream that are yours to set, or set one. What you set is kept: no start and
no waybill streams apply takes it back. The nats tool may set them as well.

A limit that would delete what a stream holds is refused, unless --yes says that it may.`,
		Example: `  waybill streams limit LEDGER
  waybill streams limit LEDGER --max-bytes 64GiB
  waybill streams limit EVENTS --max-age 90d
  waybill streams limit LEDGER --max-bytes default`,
		Args: process.OneArg("stream", "waybill streams limit LEDGER --max-bytes 64GiB"),
	}
	f.bind(c)
	c.Flags().StringVar(&f.maxBytes, "max-bytes", "", "most bytes that the stream holds, such as 64GiB; none for no "+
		"bound; default for Waybill's own value")
	c.Flags().StringVar(&f.maxAge, "max-age", "", "how long the stream keeps a message, such as 90d; none for no "+
		"bound; default for Waybill's own value")
	bindYes(c.Flags(), &f.yes)
	c.RunE = func(c *cobra.Command, args []string) error { return f.limit(c.Context(), s, strings.ToUpper(args[0])) }
	return c
}

func (f *limitFlags) limit(ctx context.Context, s stdio, stream string) error {
	if err := f.check(); err != nil {
		return err
	}
	key, value, err := f.wanted(stream)
	if err != nil {
		return err
	}
	return f.run(ctx, func(ctx context.Context, _ streams.Options, d *deploymentStreams) error {
		if key != "" {
			_, err := streams.SetLimit(ctx, d.js, stream, key, value, f.yes)
			var loses *streams.LosesError
			if errors.As(err, &loses) {
				return fmt.Errorf("%w; if that is meant, say --yes", err)
			}
			if err != nil {
				return err
			}
		}
		all, err := streams.Limits(ctx, d.js)
		if err != nil {
			return fmt.Errorf("%w; put the streams in place with: waybill streams apply", err)
		}
		return printLimits(s, f.out, all, stream)
	})
}

// wanted is what the flags ask to set: nothing when key is empty.
func (f *limitFlags) wanted(stream string) (key string, value int64, err error) {
	text := ""
	switch {
	case f.maxBytes != "" && f.maxAge != "":
		return "", 0, process.Usagef("--max-bytes and --max-age: set one at a time")
	case f.maxBytes != "":
		key, text = streams.MaxBytes, f.maxBytes
	case f.maxAge != "":
		key, text = streams.MaxAge, f.maxAge
	default:
		return "", 0, nil
	}
	value, err = limitValue(stream, key, text)
	return key, value, err
}

// limitValue reads what --max-bytes or --max-age gives.
func limitValue(stream, key, text string) (int64, error) {
	byDefault, err := streams.DefaultLimit(stream, key)
	if err != nil {
		return 0, process.Usagef("%s %s: %w", stream, key, err)
	}
	switch {
	case text == "default":
		return byDefault, nil
	case text == "none" && key == streams.MaxAge:
		return 0, nil
	case text == "none":
		return -1, nil
	case key == streams.MaxAge:
		return limitAge(text)
	}
	return limitBytes(text)
}

func limitAge(text string) (int64, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 36500 {
			return int64(n) * int64(24*time.Hour), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= time.Minute {
		return int64(d), nil
	}
	return 0, process.Usagef("--max-age %q: want days, such as 90d, a duration such as 36h, none or default", text)
}

// byteUnits are the units of sizes, as the nats tool writes them.
var byteUnits = []struct {
	suffix string
	size   int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

func limitBytes(text string) (int64, error) {
	digits, size := text, int64(1)
	for _, u := range byteUnits {
		if cut, ok := strings.CutSuffix(text, u.suffix); ok {
			digits, size = cut, u.size
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	const least, most = 1 << 20, 1 << 60
	if err != nil || n < 1 || n > most/size || n*size < least {
		return 0, process.Usagef("--max-bytes %q: want a size of 1MiB or more, such as 64GiB, none or default", text)
	}
	return n * size, nil
}

func printLimits(s stdio, out format, all []streams.Limit, stream string) error {
	shown := []streams.Limit{}
	for _, l := range all {
		if l.Stream == stream {
			shown = append(shown, l)
		}
	}
	if len(shown) == 0 {
		return process.Usagef("stream %q has no limit to set; EVENTS, LEDGER, CLAIMS, CHECKPOINTS and the work queues have",
			stream)
	}
	if out == "json" {
		return printJSON(s.out, shown)
	}
	t := table{header: []string{"STREAM", "LIMIT", "VALUE", "DEFAULT", "SET BY", "HOLDS"}}
	for _, l := range shown {
		by := "Waybill"
		if l.Own {
			by = "you"
		}
		t.add(l.Stream, l.Key, l.Text(), l.DefaultText(), by, strconv.FormatUint(l.Bytes, 10)+" bytes")
	}
	return t.write(s.out, "")
}
