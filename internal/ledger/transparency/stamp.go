package transparency

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"time"

	"github.com/digitorus/timestamp"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

const (
	stampBound = 30 * time.Second
	stampMin   = 10 * time.Second
	stampMax   = 10 * time.Minute
)

// stamper has a checkpoint timestamped now and then (RFC 3161): an authority
// vouches that the checkpoint, and so all records under it, existed at a time.
type stamper struct {
	log    *Log
	next   chan ledger.Checkpoint // holds the newest
	client *http.Client
	failed bool // said last
}

func newStamper(l *Log) *stamper {
	return &stamper{log: l, next: make(chan ledger.Checkpoint, 1), client: &http.Client{Timeout: stampBound}}
}

func (s *stamper) offer(c ledger.Checkpoint) { replace(s.next, c) }

func (s *stamper) run(ctx context.Context) {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		wait(ctx, pause)
		at, err := s.log.o.Store.LastSignatureAt(ctx, ledger.TimestampSignature)
		if err == nil {
			// the clock may have been set back
			wait(ctx, min(time.Until(at.Add(s.log.o.TimestampEvery)), s.log.o.TimestampEvery))
			select {
			case c := <-s.next:
				err = s.stamp(ctx, c)
				if err != nil {
					s.offerAgain(c)
				}
			case <-ctx.Done():
				return
			}
		}
		if pause = min(max(2*pause, stampMin), stampMax); err == nil {
			pause = 0
		}
		s.say(ctx, err)
	}
}

// offerAgain puts a checkpoint back unless there is a newer one.
func (s *stamper) offerAgain(c ledger.Checkpoint) {
	select {
	case s.next <- c:
	default:
	}
}

func (s *stamper) say(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.log.metrics.timestamps.WithLabelValues("failed").Inc()
		if !s.failed {
			s.log.o.Log.Warn().Err(err).Str("url", s.log.o.TimestampURL).Msg(logevent.LedgerLogNotTimestamped)
		}
		s.failed = true
	default:
		s.log.metrics.timestamps.WithLabelValues("granted").Inc()
		s.failed = false
	}
}

// stamp asks for a token over the SHA-256 of the note as it was signed, without
// cosignatures, and stores it once it was found to be about that.
func (s *stamper) stamp(ctx context.Context, c ledger.Checkpoint) error {
	nonce, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 63))
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(c.Note))
	query, err := (&timestamp.Request{HashAlgorithm: crypto.SHA256, HashedMessage: digest[:], Certificates: true,
		Nonce: nonce}).Marshal()
	if err != nil {
		return fmt.Errorf("timestamp request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.log.o.TimestampURL, bytes.NewReader(query))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/timestamp-query")
	resp, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the time stamping authority answered %s", resp.Status)
	}
	t, err := timestamp.ParseResponse(answer) // checks the authority's signature, not who the authority is
	if err != nil {
		return fmt.Errorf("the time stamping authority's answer: %w", err)
	}
	if !bytes.Equal(t.HashedMessage, digest[:]) || t.Nonce == nil || t.Nonce.Cmp(nonce) != 0 {
		return errors.New("the time stamping authority's answer is about something else than was asked")
	}
	return s.log.o.Store.AppendCheckpointSignature(ctx, ledger.CheckpointSignature{Size: c.Size, At: time.Now().UTC(),
		Kind: ledger.TimestampSignature, Signer: s.log.o.TimestampURL,
		Signature: base64.StdEncoding.EncodeToString(t.RawToken)})
}
