package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
)

// dataDir is the flag of the data directory, on every command. Where --data
// means nothing else it is another name of it; on the others --data is an
// event's data, and nothing else.
const dataDir = "data-dir"

func bindDataDir(f *pflag.FlagSet, to *string, usage string) {
	f.StringVar(to, dataDir, defaultData, usage)
	process.SetEnv(f, dataDir, "WAYBILL_DATA")
	f.SetNormalizeFunc(func(f *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "data" {
			return dataDir
		}
		return pflag.NormalizedName(name)
	})
}

// bindPayload adds --data as an event's data, which no environment variable is:
// WAYBILL_DATA is the data directory.
func bindPayload(f *pflag.FlagSet, to *string, usage string) {
	f.SetNormalizeFunc(nil)
	f.StringVar(to, "data", "", usage)
	process.SetEnv(f, "data", "")
}

// checkDataDir catches an event's data that was given as a directory.
func checkDataDir(value string) error {
	if slices.Contains([]string{"{", "[", `"`, "@"}, fmt.Sprintf("%.1s", strings.TrimSpace(value))) {
		return process.Usagef("--%s is a directory, and %.40q looks like an event's data; publish that with: waybill "+
			"event publish --type TYPE --data DATA",
			dataDir, value)
	}
	return nil
}

// notPayload says what is wrong with a --data that is no JSON.
func notPayload(value string) error {
	info, err := os.Stat(value)
	switch {
	case err == nil && info.IsDir():
		return process.Usagef("--data is the event's data, and %s is a directory; the data directory of waybill up goes "+
			"into --%s", value, dataDir)
	case err == nil:
		return process.Usagef("--data is not one JSON value, but the name of a file; to send what is in it: --data @%s",
			value)
	}
	return process.Usagef("--data is not one JSON value; quote text as JSON, or name a file with @FILE")
}
