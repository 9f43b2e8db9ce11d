package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// readBound bounds a question whose context has no end.
const readBound = 5 * time.Second

// Reader reads single messages from a stream's leader. A stream that allows
// direct gets answers those from any replica, and one that is behind says "there
// is none" of what it does not have yet. Whoever concludes anything from a message
// that is not there MUST ask here: jetstream.ErrMsgNotFound is then the leader's word.
type Reader struct {
	js     jetstream.JetStream
	stream string
}

// ReadFrom is a reader of a stream. It asks nothing.
func ReadFrom(js jetstream.JetStream, stream string) Reader { return Reader{js, stream} }

type readRequest struct {
	Seq   uint64     `json:"seq,omitempty"`
	Last  string     `json:"last_by_subj,omitempty"`
	Next  string     `json:"next_by_subj,omitempty"`
	Start *time.Time `json:"start_time,omitempty"`
}

// At is the message at a sequence.
func (r Reader) At(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	return r.ask(ctx, readRequest{Seq: max(seq, 1)})
}

// Next is the first message on a subject, which may have wildcards, from a
// sequence on.
func (r Reader) Next(ctx context.Context, subject string, from uint64) (*jetstream.RawStreamMsg, error) {
	return r.ask(ctx, readRequest{Seq: max(from, 1), Next: subject})
}

// Since is the first message on a subject that was stored at a time or later.
func (r Reader) Since(ctx context.Context, subject string, from time.Time) (*jetstream.RawStreamMsg, error) {
	return r.ask(ctx, readRequest{Start: &from, Next: subject})
}

// Last is the last message on a subject.
func (r Reader) Last(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	return r.ask(ctx, readRequest{Last: subject})
}

func (r Reader) ask(ctx context.Context, q readRequest) (*jetstream.RawStreamMsg, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, readBound)
		defer cancel()
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	reply, err := r.js.Conn().RequestWithContext(ctx, r.subject(), body)
	if errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("%w: JetStream is not there, or the stream has no leader", err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", r.stream, err)
	}
	m, err := decodeStored(reply.Data)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, fmt.Errorf("reading %s: %w", r.stream, err)
	}
	return m, err
}

func (r Reader) subject() string {
	prefix := jetstream.DefaultAPIPrefix
	if o := r.js.Options(); o.APIPrefix != "" {
		prefix = o.APIPrefix
	} else if o.Domain != "" {
		prefix = fmt.Sprintf("$JS.%s.API.", o.Domain)
	}
	if prefix[len(prefix)-1] != '.' {
		prefix += "."
	}
	return prefix + "STREAM.MSG.GET." + r.stream
}

// decodeStored reads the server's answer: a message, or why there is none.
func decodeStored(b []byte) (*jetstream.RawStreamMsg, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	switch m := answer.Message; {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, jetstream.ErrMsgNotFound
	case answer.Error != nil:
		return nil, answer.Error
	case m == nil:
		return nil, jetstream.ErrInvalidJetStreamResponse
	default:
		out := &jetstream.RawStreamMsg{Subject: m.Subject, Sequence: m.Seq, Data: m.Data, Time: m.Time}
		if len(m.Header) > 0 {
			var err error
			if out.Header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
				return nil, fmt.Errorf("message %d: %w", m.Seq, err)
			}
		}
		return out, nil
	}
}
