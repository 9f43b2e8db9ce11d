package cli

import (
	"fmt"
	"io"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/platform/wholefile"
)

// standardOutput is how a flag that names a file to write says: print it instead.
const standardOutput = "-"

// needFile refuses - for a flag whose file is read again, or whose standard
// output says other things: it would become a file of that name.
func needFile(flag, path string) error {
	if path == standardOutput {
		return process.Usagef("--%s -: standard output cannot be used here; name a file", flag)
	}
	return nil
}

// ownerOnly is the mode of every file that a command writes. Evidence names
// events, endpoints and people: whoever made the file decides who else reads it.
const ownerOnly = 0o600

// writeFile writes what --flag asks for: into the file, which is there whole or
// not at all, or to standard output when path is empty or -. It says whether a
// file was written.
func writeFile(stdout io.Writer, flag, path string, content []byte) (wrote bool, err error) {
	if path == "" || path == standardOutput {
		_, err := stdout.Write(content)
		return false, err
	}
	if err := wholefile.Replace(path, content, ownerOnly); err != nil {
		return false, fmt.Errorf("--%s: %w; name a file that can be written, or - for standard output", flag, err)
	}
	return true, nil
}
