// Package testdata holds events as producers publish them: for tests, and for
// waybill demo.
package testdata

import (
	"embed"
	"path"
	"strings"
)

//go:embed *.json
var files embed.FS

// Event is one file.
type Event struct {
	Name string // of the file, without .json
	JSON []byte // exactly as in the file
}

// Events returns all of them, in order of their names.
func Events() ([]Event, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var out []Event
	for _, e := range entries {
		b, err := files.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, Event{Name: strings.TrimSuffix(e.Name(), path.Ext(e.Name())), JSON: b})
	}
	return out, nil
}
