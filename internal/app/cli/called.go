package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// calledAs is how this program is called from where the person stands, for
// commands that they paste: its name where that is found, else its path.
func calledAs() string {
	self, err := os.Executable()
	if err != nil {
		return "waybill"
	}
	return pasteable(self, os.Args[0], exec.LookPath)
}

func pasteable(self, arg string, look func(string) (string, error)) string {
	name := filepath.Base(self)
	if found, err := look(name); err == nil && same(found, self) {
		return name
	}
	if !strings.ContainsRune(arg, filepath.Separator) || !same(arg, self) {
		arg = self
	}
	if strings.ContainsAny(arg, " '\"$\\") {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return arg
}

func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
