package stage

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrPermanent says that a message can never be stored as it is: to try again
// would go on for ever, and nobody would be told. Whoever wanted it stored says on
// record what becomes of it instead.
var ErrPermanent = errors.New("it can never be stored")

// The server's answers that no later try changes.
const (
	messageTooLarge jetstream.ErrorCode = 10054 // over the stream's max_msg_size
	headersTooLarge jetstream.ErrorCode = 10097 // over what a stream takes of headers
)

// permanent says whether an error of a publish stays however often it is tried.
// All others pass: a server that is away, full, or without a leader, and a stream
// that somebody will make. This is the one place that decides it.
func permanent(err error) bool {
	for _, never := range []error{nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrBadHeaderMsg,
		nats.ErrHeadersNotSupported} {
		if errors.Is(err, never) {
			return true
		}
	}
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == messageTooLarge || api.ErrorCode == headersTooLarge)
}

// unfit says what keeps a message from ever being stored, as far as can be told
// without asking: nothing is sent of what is published with it.
func unfit(m *nats.Msg, most int64) error {
	if m.Subject == "" || strings.ContainsAny(m.Subject, " \t\r\n*>") {
		return fmt.Errorf("subject %.128q: %w: %w", m.Subject, ErrPermanent, nats.ErrBadSubject)
	}
	if size := int64(m.Size() - len(m.Subject) - len(m.Reply)); most > 0 && size > most {
		return fmt.Errorf("subject %s: %w: %d bytes, the server takes %d: %w", m.Subject, ErrPermanent, size, most,
			nats.ErrMaxPayload)
	}
	return nil
}
