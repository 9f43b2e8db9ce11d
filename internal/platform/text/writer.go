package text

import (
	"io"
	"unicode/utf8"
)

// NewWriter passes text on as Lines has it. It is for a whole page or file: one
// place that sees every field. Close MUST follow, for a character that was begun.
func NewWriter(w io.Writer) io.WriteCloser { return &writer{to: w} }

type writer struct {
	to   io.Writer
	rest []byte // not passed on yet: it may be the start of a character, or a joiner
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	// A joiner is judged by what is beside it, so whatever may be beside one waits.
	end := len(w.rest)
	for end > 0 && w.rest[end-1] >= utf8.RuneSelf {
		end--
	}
	if end == 0 {
		return len(p), nil
	}
	_, err := io.WriteString(w.to, Lines(string(w.rest[:end])))
	w.rest = append(w.rest[:0], w.rest[end:]...)
	return len(p), err
}

// Close passes on what is left. It does not close what is written to.
func (w *writer) Close() error {
	_, err := io.WriteString(w.to, Lines(string(w.rest)))
	w.rest = nil
	return err
}
