package process

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NoArgs takes no arguments.
func NoArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("want no arguments, got %s", counted(args))
	}
	return nil
}

// OneArg takes exactly one argument.
func OneArg(what, example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return fmt.Errorf("want one %s, got %s; for example: %s", what, counted(args), example)
		}
		return nil
	}
}

// AtMostOneArg takes one argument, or none.
func AtMostOneArg(what, example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 || len(args) == 1 && args[0] == "" {
			return fmt.Errorf("want one %s or none, got %s; for example: %s", what, counted(args), example)
		}
		return nil
	}
}

// counted says how many arguments there were, and which: often the shell split,
// or expanded, what was meant to be one.
func counted(args []string) string {
	const shown, longest = 3, 40
	if len(args) == 0 {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d:", len(args))
	for i, a := range args {
		if i == shown {
			b.WriteString(" …")
			break
		}
		if r := []rune(a); len(r) > longest {
			a = string(r[:longest]) + "…"
		}
		fmt.Fprintf(&b, " %q", a)
	}
	return b.String()
}

// kinds of values that flags take, for people.
var kinds = map[string]string{
	"bool": "true or false", "int": "a whole number", "int64": "a whole number", "uint64": "a whole number of 0 or more",
	"float64":  "a number",
	"duration": "a duration such as 90s, 15m or 24h", "intSlice": "whole numbers, comma-separated",
}

// flagError says what a flag wants. What parsed the value speaks to programmers.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if want, ok := kinds[invalid.GetFlag().Value.Type()]; ok {
			err = fmt.Errorf("--%s %q: want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
		}
	}
	return &UsageError{err}
}
