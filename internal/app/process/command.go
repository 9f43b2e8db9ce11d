// Package process is what every command shares: flags that are environment
// variables too, exit status, signals, the logger, the connection to NATS, the
// operational HTTP server, and cleanup in order.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/platform/version"
)

// Exit statuses.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// UsageError is wrong use: the exit status is 2.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// EnvName is the environment variable of a flag: --nats-url is WAYBILL_NATS_URL.
func EnvName(flag string) string {
	return "WAYBILL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// envAnnotation on a flag names its environment variable, where that is not EnvName.
const envAnnotation = "waybill_env"

// SetEnv gives a flag another environment variable than EnvName says; "" none.
// It panics when there is no such flag.
func SetEnv(flags *pflag.FlagSet, flag, env string) {
	if err := flags.SetAnnotation(flag, envAnnotation, []string{env}); err != nil {
		panic(err)
	}
}

// FlagEnv is the environment variable of a flag; "" when it has none.
func FlagEnv(f *pflag.Flag) string {
	if env, ok := f.Annotations[envAnnotation]; ok {
		return env[0]
	}
	if f.Name == "help" || f.Name == "version" {
		return ""
	}
	return EnvName(f.Name)
}

// Execute runs a command tree and returns the process's exit status. Errors go
// to stderr as one line. The first interrupt asks for an orderly stop through
// the command's context; the second ends the process at once.
func Execute(root *cobra.Command, args []string, stderr io.Writer) int {
	// net/http writes what receivers send it unasked to the standard logger: it
	// belongs neither on a terminal nor in a log.
	log.SetOutput(io.Discard)
	ctx, stop := signalContext(stderr)
	defer stop()
	prepare(root)
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	var usage *UsageError
	line := strings.Join(strings.Fields(err.Error()), " ")
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		line = "interrupted" // what a question that was broken off says is no help
	}
	if errors.As(err, &usage) {
		fmt.Fprintf(stderr, "%s: %s; see: %s --help\n", root.Name(), line, ran.CommandPath())
		return ExitUsage
	}
	fmt.Fprintf(stderr, "%s: %s\n", root.Name(), line)
	return ExitFailed
}

func signalContext(stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel()
		case <-done:
			return
		}
		select {
		case s := <-signals:
			fmt.Fprintf(stderr, "stopped at once by a second %s\n", s)
			os.Exit(ExitFailed)
		case <-done:
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel() }
}

// prepare gives every command of the tree our conventions.
func prepare(c *cobra.Command) {
	c.SilenceErrors, c.SilenceUsage, c.SuggestionsMinimumDistance = true, true, 2
	c.SetFlagErrorFunc(flagError)
	if !c.HasParent() {
		c.Version = version.Version
		c.CompletionOptions.HiddenDefaultCmd = true
	}
	if c.Args == nil {
		c.Args = NoArgs
		if c.HasSubCommands() {
			c.Args = noSuchCommand
		}
	}
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return &UsageError{err}
		}
		return nil
	}
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := fromEnvironment(c.Flags(), os.LookupEnv); err != nil {
				return &UsageError{err}
			}
			return run(c, args)
		}
	} else if c.HasSubCommands() {
		c.RunE = func(c *cobra.Command, _ []string) error {
			return Usagef("%s needs a command", c.CommandPath())
		}
	}
	for _, sub := range c.Commands() {
		prepare(sub)
	}
}

func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("no command %q; did you mean %q?", args[0], near[0])
	}
	return fmt.Errorf("no command %q", args[0])
}

// fromEnvironment sets each flag that the command line did not.
func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		env := FlagEnv(f)
		if f.Changed || env == "" || failed != nil {
			return
		}
		value, ok := lookup(env)
		if !ok || value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			failed = fmt.Errorf("environment variable %s: %w", env, flagError(nil, err))
		}
	})
	return failed
}
