package outside

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/streams"
)

// claimKey is a digest of an attempt's id and of the number that it claims: so
// many claims as CLAIMS holds fit in memory.
type claimKey [16]byte

func keyOf(attempt, number string) claimKey {
	sum := sha256.Sum256([]byte(attempt + "\n" + number))
	return claimKey(sum[:16])
}

// again is what a number's id ends in that is claimed once more, after a void claim.
var again = regexp.MustCompile(`/v[0-9]+$`)

// claims are all that CLAIMS held when it was read.
type claims struct {
	held audit.ClaimsHeld
	made map[claimKey]struct{}
}

// readClaims reads CLAIMS. What it forgets meanwhile was read before, or is
// older than what was read first.
func readClaims(ctx context.Context, js jetstream.JetStream, now time.Time) (*claims, error) {
	s, err := js.Stream(ctx, streams.Claims)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", streams.Claims, err)
	}
	i := s.CachedInfo()
	out := &claims{made: map[claimKey]struct{}{}, held: audit.ClaimsHeld{Since: i.Created, Whole: i.State.FirstSeq <= 1}}
	if i.State.Msgs == 0 {
		if i.State.LastSeq > 0 && i.Config.MaxAge > 0 {
			out.held = audit.ClaimsHeld{Since: now.Add(-i.Config.MaxAge)} // all are older
		}
		return out, nil
	}
	first := true
	err = each(ctx, js, streams.Claims, i.State.FirstSeq, i.State.LastSeq,
		func(m jetstream.Msg, meta *jetstream.MsgMetadata) {
			if first && meta.Sequence.Stream > 1 {
				out.held = audit.ClaimsHeld{Since: meta.Timestamp}
			}
			first = false
			var c struct {
				AttemptID string `json:"attempt_id"`
			}
			if json.Unmarshal(m.Data(), &c) == nil {
				out.made[keyOf(c.AttemptID, again.ReplaceAllString(m.Headers().Get(nats.MsgIdHdr), ""))] = struct{}{}
			}
		})
	return out, err
}

func (c *claims) has(r audit.AttemptRecord) bool {
	_, ok := c.made[keyOf(r.ID, streams.AttemptID(r.EventID, r.EndpointID, int(r.Attempt)))]
	return ok
}

// Vouch asks EVENTS and CLAIMS about the ledger's records with idx < before:
// those that ClickHouse had before the streams are asked, so that none of them
// can be ahead of its event or claim.
func Vouch(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, db Records, f audit.Filter,
	before uint64) (Finding, error) {
	var out Finding
	events, err := OpenEvents(nc, js)
	if err != nil {
		return out, err
	}
	err = db.AuditEventRecords(ctx, f, before,
		func(rows []audit.EventRecord) error { return events.Vouch(ctx, rows, &out) })
	if err != nil {
		return out, err
	}
	claims, err := readClaims(ctx, js, time.Now())
	if err != nil {
		return out, err
	}
	out.Vouched.ClaimsSince = claims.held.Since.UTC()
	err = db.AuditAttemptRecords(ctx, f, before, func(r audit.AttemptRecord) error {
		found, beyond := audit.VouchAttempt(r, claims.held, claims.has(r))
		switch {
		case found != nil:
			out.add(found)
		case beyond:
			out.Vouched.AttemptsBeyond++
		default:
			out.Vouched.Attempts++
		}
		return nil
	})
	return out, err
}
