package watchdog

import (
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/streams"
)

// ClaimsForgotten says that CLAIMS has no room for as long as it must keep claims.
const ClaimsForgotten Code = "claims_forgotten"

const (
	// claimsFull is the part of CLAIMS' room from which on the next claims push
	// the oldest ones out: the server keeps a stream just below its limit.
	claimsFull = 0.95
	// claimsSlack is how much earlier than its day a claim may go: by the
	// server's own clock, when it gets to it.
	claimsSlack = time.Hour
)

// judgeClaims: a number whose claim is forgotten can be used for a second request.
func judgeClaims(c Stream, now time.Time) []Finding {
	if c.MaxBytes <= 0 || c.MaxAge <= 0 || c.Messages == 0 || float64(c.Bytes) < claimsFull*float64(c.MaxBytes) {
		return nil
	}
	kept := now.Sub(c.FirstAt)
	if kept < 0 || kept >= c.MaxAge-claimsSlack {
		return nil
	}
	return []Finding{{ClaimsForgotten, Wrong, streams.Claims,
		fmt.Sprintf("it is full and keeps claims for %s, not for %s: a delivery that comes back later than that can be "+
			"made twice under one number",
			kept.Round(time.Minute), c.MaxAge),
		"give it more room: waybill streams limit CLAIMS --max-bytes, as much more as the time is short"}}
}
