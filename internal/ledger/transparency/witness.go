package transparency

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// Witness cosigns checkpoints (C2SP tlog-witness): it vouches that each one it
// signed is a continuation of the one before.
type Witness struct {
	URL string // its prefix; add-checkpoint is below it
	Key note.Verifier
}

// ParseWitness reads URL=VKEY.
func ParseWitness(s string) (Witness, error) {
	// The key's base64 may end in =, and a URL may hold one.
	i := strings.LastIndex(strings.TrimRight(s, "="), "=")
	if i < 0 {
		return Witness{}, fmt.Errorf("witness %q: want URL=KEY, as in https://witness.example=witness.example+1a2b3c4d+BASE64", s)
	}
	u, err := url.Parse(s[:i])
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return Witness{}, fmt.Errorf("witness %q: want a URL of http or https without a query before the =", s)
	}
	v, err := checkpoint.NewVerifier(s[i+1:])
	if err != nil {
		return Witness{}, fmt.Errorf("witness %s: %w", s[:i], err)
	}
	if !checkpoint.IsWitness(v) {
		return Witness{}, fmt.Errorf("witness %s: its key is that of a log, want one of a witness (cosignature/v1)", s[:i])
	}
	return Witness{URL: strings.TrimSuffix(s[:i], "/"), Key: v}, nil
}

const (
	witnessBound = 10 * time.Second
	witnessMin   = time.Second
	witnessMax   = 5 * time.Minute
	// answerBytes bounds what is read of an answer.
	answerBytes = 1 << 16
)

// Outcomes of a request to a witness.
const (
	witnessCosigned = "cosigned"
	witnessConflict = "conflict"    // it is at another size than we thought
	witnessAhead    = "ahead"       // it has cosigned a larger ledger than this one
	witnessRefused  = "refused"     // it answered something else
	witnessBad      = "bad"         // what it sent is no cosignature of its key
	witnessAway     = "unreachable" // no answer
)

func witnessOutcomes() []string {
	return []string{witnessCosigned, witnessConflict, witnessAhead, witnessRefused, witnessBad, witnessAway}
}

// witness asks one witness. It always offers the newest checkpoint: one that
// came while it waited takes the place of the one before.
type witness struct {
	Witness
	log    *Log
	next   chan ledger.Checkpoint // holds the newest
	client *http.Client
	// size is that of the checkpoint that the witness cosigned last, as far as we know.
	size uint64
	said string // outcome that was logged last
}

func newWitness(l *Log, w Witness) *witness {
	return &witness{Witness: w, log: l, next: make(chan ledger.Checkpoint, 1), client: &http.Client{Timeout: witnessBound,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// offer hands over a checkpoint; it never waits.
func (w *witness) offer(c ledger.Checkpoint) { replace(w.next, c) }

// replace puts v into a channel of one, in the place of what is in it. There is
// one writer at a time.
func replace[T any](c chan T, v T) {
	select {
	case <-c:
	default:
	}
	select {
	case c <- v:
	default:
	}
}

func (w *witness) run(ctx context.Context) {
	var c ledger.Checkpoint
	for pause := time.Duration(0); ctx.Err() == nil; {
		if pause == 0 {
			select {
			case c = <-w.next:
			case <-ctx.Done():
				return
			}
		} else {
			wait(ctx, pause)
			select {
			case c = <-w.next: // in the place of the one that failed
			default:
			}
		}
		if pause = min(max(2*pause, witnessMin), witnessMax); w.cosign(ctx, c) == nil {
			pause = 0
		}
	}
}

// cosign has a checkpoint cosigned and stores the cosignature.
func (w *witness) cosign(ctx context.Context, c ledger.Checkpoint) error {
	line, outcome, err := w.ask(ctx, c)
	if outcome == witnessConflict { // now we know where it is
		w.count(outcome, nil)
		line, outcome, err = w.ask(ctx, c)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.count(outcome, err)
	if err != nil {
		return err
	}
	w.size = c.Size
	return w.keep(ctx, c, line)
}

// count counts an outcome, and logs it when it is another than before.
func (w *witness) count(outcome string, err error) {
	w.log.metrics.witnesses.WithLabelValues(outcome).Inc()
	if outcome == witnessConflict && err == nil {
		return
	}
	if outcome == w.said {
		return
	}
	w.said = outcome
	event := w.log.o.Log.Info()
	if err != nil {
		event = w.log.o.Log.Warn()
	}
	event.Err(err).Str("witness", w.Key.Name()).Str("outcome", outcome).Msg(logevent.LedgerLogWitness)
}

// keep stores a cosignature that was verified, and publishes the note with it.
func (w *witness) keep(ctx context.Context, c ledger.Checkpoint, line string) error {
	s := ledger.CheckpointSignature{Size: c.Size, At: time.Now().UTC(), Kind: ledger.WitnessSignature,
		Signer: checkpoint.KeyID(w.Key), Signature: line}
	if err := w.log.o.Store.AppendCheckpointSignature(ctx, s); err != nil {
		return err
	}
	if w.log.signed.Load() != c.Size { // a larger one is on the stream, and is to stay the last
		return nil
	}
	signed, n, err := withCosignatures(ctx, w.log.o.Store, c)
	if err != nil {
		return err
	}
	return w.log.publish(ctx, signed, c.Origin, c.Size, n)
}

// withCosignatures is a checkpoint's note with the cosignatures that are stored.
func withCosignatures(ctx context.Context, store Store, c ledger.Checkpoint) (string, int, error) {
	all, err := store.CheckpointSignatures(ctx, c.Size, c.Size)
	if err != nil {
		return "", 0, err
	}
	var lines []string
	for _, s := range all {
		if s.Kind == ledger.WitnessSignature {
			lines = append(lines, s.Signature)
		}
	}
	return checkpoint.AddSignatures(c.Note, lines), len(lines), nil
}

// ask makes one request.
func (w *witness) ask(ctx context.Context, c ledger.Checkpoint) (line, outcome string, err error) {
	if size := w.size; size > c.Size {
		w.size = 0 // it is asked anew the next time
		return "", witnessAhead, fmt.Errorf("it has cosigned %d records, this checkpoint has %d: another ledger of this "+
			"origin is signed, or this one was put back", size, c.Size)
	}
	body, err := w.request(ctx, c)
	if err != nil {
		return "", witnessAway, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/add-checkpoint", bytes.NewReader(body))
	if err != nil {
		return "", witnessAway, err
	}
	r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	resp, err := w.client.Do(r)
	if err != nil {
		return "", witnessAway, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	if err != nil {
		return "", witnessAway, err
	}
	return w.answer(c, resp, answer)
}

// request is the body of add-checkpoint: the size that the witness has, the
// proof from there, and the checkpoint.
func (w *witness) request(ctx context.Context, c ledger.Checkpoint) ([]byte, error) {
	b := fmt.Appendf(nil, "old %d\n", w.size)
	if w.size > 0 && w.size < c.Size {
		proof, err := merkle.NewReader(ctx, w.log.o.Store).ProveTree(c.Size, w.size)
		if err != nil {
			return nil, err
		}
		for _, h := range proof {
			b = append(b, base64.StdEncoding.EncodeToString(h[:])+"\n"...)
		}
	}
	b = append(b, '\n')
	return append(b, c.Note...), nil
}

func (w *witness) answer(c ledger.Checkpoint, resp *http.Response, answer []byte) (line, outcome string, err error) {
	switch {
	case resp.StatusCode == http.StatusOK:
		line, err := w.verify(c, answer)
		if err != nil {
			return "", witnessBad, err
		}
		return line, witnessCosigned, nil
	case resp.StatusCode == http.StatusConflict && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/x.tlog.size"):
		size, err := strconv.ParseUint(strings.TrimSuffix(string(answer), "\n"), 10, 63)
		if err != nil {
			return "", witnessRefused, fmt.Errorf("it answered 409 with %.40q, want its size", answer)
		}
		before := w.size
		w.size = size
		if size == before {
			return "", witnessRefused, fmt.Errorf("it is at size %d, as we said, and refuses the checkpoint of %d records "+
				"all the same", size, c.Size)
		}
		return "", witnessConflict, fmt.Errorf("it is at size %d, not %d", size, before)
	}
	text, _, _ := strings.Cut(string(answer), "\n")
	return "", witnessRefused, fmt.Errorf("it answered %s: %.200q", resp.Status, text)
}

// verify finds the witness's cosignature among the lines of an answer.
func (w *witness) verify(c ledger.Checkpoint, answer []byte) (string, error) {
	text, _, ok := strings.Cut(c.Note, "\n\n")
	if !ok {
		return "", errors.New("the checkpoint is no signed note")
	}
	text += "\n"
	for lines := bufio.NewScanner(bytes.NewReader(answer)); lines.Scan(); {
		n, err := note.Open([]byte(text+"\n"+lines.Text()+"\n"), note.VerifierList(w.Key))
		if err == nil && len(n.Sigs) == 1 {
			return checkpoint.Line(n.Sigs[0]), nil
		}
	}
	return "", fmt.Errorf("what it sent holds no signature of its key %s over this checkpoint", checkpoint.KeyID(w.Key))
}
