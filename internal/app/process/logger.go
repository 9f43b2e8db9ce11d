package process

import (
	"io"
	"time"

	"github.com/rs/zerolog"
)

// NewLogger writes to w. format is "json" (one object a line) or "text" (for
// a terminal). level is one of zerolog's: debug, info, warn, error.
func NewLogger(w io.Writer, format, level string) (zerolog.Logger, error) {
	l, err := zerolog.ParseLevel(level)
	if err != nil || level == "" {
		return zerolog.Logger{}, Usagef("--log-level %q: want debug, info, warn or error", level)
	}
	switch format {
	case "json":
	case "text":
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000", NoColor: true}
	default:
		return zerolog.Logger{}, Usagef("--log-format %q: want json or text", format)
	}
	return zerolog.New(w).Level(l).Hook(utc{}), nil
}

// utc stamps each line with UTC and milliseconds, whatever the machine's zone.
type utc struct{}

func (utc) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}
