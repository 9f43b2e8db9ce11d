package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// bindYes adds --yes, for commands that can lose work: without it they ask, or
// refuse where nobody can answer.
func bindYes(f *pflag.FlagSet, yes *bool) {
	f.BoolVar(yes, "yes", false, "do it without asking")
}

// asks says whether a person can be asked: both ends are a terminal.
func asks(s stdio) bool {
	return isTerminal(s.in) && isTerminal(s.err)
}

// confirmed asks on standard error, and reads one line: y or yes is yes.
func confirmed(s stdio, what string) bool {
	fmt.Fprintf(s.err, "%s\nGo on? [y/N] ", what)
	line, _ := bufio.NewReader(s.in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	}
	return false
}
