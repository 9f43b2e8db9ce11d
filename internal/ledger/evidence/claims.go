package evidence

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// hexDigest is the SHA-256 of bytes, hex.
func hexDigest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// aboutLedger is what claims are about that are not of one delivery.
const (
	aboutLedger  = "ledger"
	aboutEvent   = "event"
	aboutPayload = "payload"
)

func (r *Report) say(about, format string, args ...any) {
	r.Claims = append(r.Claims, Claim{about, fmt.Sprintf(format, args...)})
}

// claim says in plain words what a file proves that nothing is wrong with.
func (r *Report) claim(f *File) {
	payload := r.Claims
	r.Claims = nil
	r.say(aboutLedger, "These %s were in the ledger %q, at places %d to %d, when its checkpoint over %s was signed by "+
		"the key %s. Not a bit of them has changed since.",
		text.Count(len(f.Records), "record", "records"), r.Origin, f.Records[0].Idx, f.Records[len(f.Records)-1].Idx,
		text.Count(int(r.Size), "record", "records"), r.SignedBy)
	timed := false
	for _, w := range r.Witnessed {
		switch {
		case w.Verified && !w.At.IsZero():
			timed = true
			r.say(aboutLedger, "The witness %s saw this checkpoint by %s.", w.Key, moment(w.At))
		case w.Verified:
			r.say(aboutLedger, "The witness %s saw this checkpoint.", w.Key)
		}
	}
	for _, s := range r.Stamps {
		if s.Verified {
			timed = true
			r.say(aboutLedger, "The checkpoint existed at %s: the time stamping authority %s vouches for it, and a root that "+
				"was given for the authority.", moment(s.At), s.Authority)
		}
	}
	r.Claims = append(r.Claims, r.Story.claims()...)
	r.Claims = append(r.Claims, payload...)
	r.notProven(f, timed)
}

func (r *Report) notProven(f *File, timed bool) {
	no := func(format string, args ...any) { r.NotProven = append(r.NotProven, fmt.Sprintf(format, args...)) }
	no("That the ledger has no further record of this event. That is shown on the whole ledger: waybill ledger verify, " +
		"waybill audit completeness.")
	no("That what the records say is true. Waybill recorded it, by the clocks of its machines; what is proven is that " +
		"it is on record and was not changed since.")
	if !timed {
		said := ""
		if at := f.Statement.CheckpointAt; !at.IsZero() {
			said = " Whoever exported the file says that the ledger says " + moment(at) + "."
		}
		no("When the checkpoint was signed: no witness and no time stamping authority that you gave the key of vouches "+
			"for the time.%s", said)
	}
	for _, w := range r.Witnessed {
		switch {
		case w.Verified:
		case w.Ledgers:
			no("That the ledger's other key, %s, signed too: that key was not given. It need not be.", w.Key)
		default:
			no("That the signature %s is genuine: give its key with --witness-key.", w.Key)
		}
	}
	for _, s := range r.Stamps {
		if !s.Verified {
			no("That the time stamp of %s, %s, is by an authority that you trust: give its root certificate with --timestamp-ca.", s.Authority, moment(s.At))
		}
	}
	if n := len(f.Statement.Uncovered); n > 0 {
		no("What %s found besides: no checkpoint covered %s yet. Export again later.",
			text.Count(n, "record says that was", "records say that were"), pronoun(n))
	}
	if e := f.Statement.Events; e == nil {
		no("That the event came in: EVENTS was not asked for it when the file was written.")
	} else if e.Vouched+e.Beyond > 0 && len(e.Findings) == 0 {
		no("That the event came in. %s", e.text())
	}
	no("The statement of who exported this file, when and with which queries: it is the exporter's word.")
	r.NotProven = append(r.NotProven, r.Story.Gaps()...)
}

func pronoun(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

func (s *Story) claims() []Claim {
	var out []Claim
	say := func(about, format string, args ...any) {
		out = append(out, Claim{about, fmt.Sprintf(format, args...)})
	}
	for i := range s.Event {
		say(aboutEvent, "%s", eventClaim(&s.Event[i]))
	}
	for i := range s.Other {
		say(aboutEvent, "%s", actionClaim(&s.Other[i]))
	}
	for i := range s.Rules {
		x := &s.Rules[i]
		say(aboutEvent, "For event types %s, %s set at %s: %s.", strings.Join(x.EventTypes, ", "), by(x.Actor), moment(x.At),
			or(or(x.Detail, x.Action), "no settings"))
	}
	for i := range s.Policies {
		x := &s.Policies[i]
		say(aboutEvent, "%s made %s%s as it is in revision %d: %s, at %s.", by(x.Actor),
			or(prefixed("policy ", x.EscalationPolicy), "channel "), x.Channel, x.Revision, x.Action, moment(x.At))
	}
	for i := range s.Deliveries {
		d := &s.Deliveries[i]
		for _, c := range d.claims() {
			say(d.EndpointID, "%s", c)
		}
	}
	return out
}

func eventClaim(x *Fact) string {
	switch x.Kind {
	case record.EventAccepted:
		return fmt.Sprintf("The event of type %s was accepted at %s and came to be owed to %s%s. Its data had %s with "+
			"SHA-256 %s.",
			x.EventType, moment(x.At), text.Count(x.Endpoints, "endpoint", "endpoints"), until(x.DeliverBy),
			text.Count(x.DataBytes, "byte", "bytes"), or(x.DataDigest, "not on record"))
	case record.EventUnmatched:
		return fmt.Sprintf("The event of type %s came in at %s, and no endpoint subscribed to it: %s.", x.EventType,
			moment(x.At), or(x.Reason, "no reason on record"))
	}
	if x.Kind == record.EventDuplicate {
		return fmt.Sprintf("The same event came in again at %s, and nothing more came to be owed: %s.", moment(x.At),
			or(x.Detail, "no detail on record"))
	}
	return fmt.Sprintf("The event was rejected at %s: %s.", moment(x.At), reasoned(x.Reason, x.Detail))
}

func until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", to be delivered by " + moment(t)
}

// claims tell of one delivery, in the order of its records.
func (d *Delivery) claims() []string {
	type told struct {
		idx  uint64
		text string
	}
	var all []told
	each := func(list []Fact, claim func(*Fact) string) {
		for i := range list {
			all = append(all, told{list[i].Idx, claim(&list[i])})
		}
	}
	each(d.Revisions, revisionClaim)
	each(d.Owed, func(x *Fact) string {
		return fmt.Sprintf("The delivery came to be owed at %s%s%s.", moment(x.At), until(x.DeliverBy),
			prefixed(", by replay ", x.ReplayID))
	})
	each(d.Replays, actionClaim)
	each(d.Attempts, attemptClaim)
	each(d.Ends, endClaim)
	each(d.Escalations, escalationClaim)
	each(d.Acks, actionClaim)
	slices.SortStableFunc(all, func(a, b told) int { return cmp.Compare(a.idx, b.idx) })
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].text
	}
	return out
}

func revisionClaim(x *Fact) string {
	return fmt.Sprintf("%s made revision %d of the endpoint's settings (%s) at %s, with the URL %s.", by(x.Actor),
		x.EndpointRevision, or(x.Action, "changed"), moment(x.At), or(x.URL, "not on record"))
}

func endClaim(x *Fact) string {
	how := "was cancelled"
	if x.Kind == record.DeliveryDeadLetter {
		how = "became a dead letter"
	}
	return fmt.Sprintf("The delivery %s at %s after %s: %s.", how, moment(x.At),
		text.Count(x.Attempts, "attempt", "attempts"), reasoned(x.Reason, x.Detail))
}

func escalationClaim(x *Fact) string {
	if x.Outcome == string(outcome.HandedOver) { // no try to tell anybody
		return fmt.Sprintf("The watchdog found at %s that nobody had been told yet, and asked the escalator to.",
			moment(x.At))
	}
	where := prefixed(" on channel ", x.Channel)
	if x.Step > 0 {
		where += fmt.Sprintf(", step %d of policy %s", x.Step, or(x.EscalationPolicy, "none"))
	}
	return fmt.Sprintf("People were %s%s at %s: %s%s.", told(x), where, moment(x.At),
		or(x.Outcome, "no outcome on record"), prefixed(", ", x.Error))
}

// signedAndSent says no more than an answer shows: without one, nobody knows
// how much of the body left.
func signedAndSent(x *Fact) string {
	if x.Status > 0 {
		return "signed and sent"
	}
	return "signed"
}

func told(x *Fact) string {
	if x.Outcome == string(outcome.Delivered) {
		return "told"
	}
	return "not told"
}

func attemptClaim(x *Fact) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Attempt %d was made at %s", x.Attempt, moment(x.StartedAt))
	if x.URL != "" {
		fmt.Fprintf(&b, " to %s", x.URL)
	}
	if x.Status > 0 {
		fmt.Fprintf(&b, ", answered %d after %s", x.Status, took(x.DurationUS))
	}
	fmt.Fprintf(&b, ": outcome %s, decided %s%s", x.Outcome, or(x.Decision, "nothing"), prefixed(" for ", x.Reason))
	if !x.NextAttemptAt.IsZero() {
		fmt.Fprintf(&b, ", the next due at %s", moment(x.NextAttemptAt))
	}
	b.WriteString(".")
	if x.PayloadDigest != "" {
		fmt.Fprintf(&b, " The body that was %s had %s with SHA-256 %s, signed by scheme %s with %s.",
			signedAndSent(x), text.Count(x.PayloadBytes, "byte", "bytes"), x.PayloadDigest, or(x.SignatureScheme, "none"),
			or(strings.Join(x.KeyIDs, ", "), "no key"))
	}
	return b.String()
}

func actionClaim(x *Fact) string {
	what := string(x.Kind)
	switch {
	case x.Kind == record.EscalationAcked:
		what = "took it on"
	case x.Kind == record.ReplayRequested:
		what = "asked for replay " + x.ReplayID
	case x.Action != "":
		what = "did " + x.Action
	}
	return fmt.Sprintf("%s %s at %s%s.", by(x.Actor), what, moment(x.At), prefixed(": ", reasoned(x.Reason, x.Detail)))
}

func took(us int64) string { return (time.Duration(us) * time.Microsecond).String() }

func by(actor string) string { return or(actor, "Waybill") }

func or(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func reasoned(reason, detail string) string {
	switch {
	case reason == "":
		return detail
	case detail == "":
		return reason
	}
	return reason + " (" + detail + ")"
}

// payload compares bytes with the digests on record: of the event's data, of
// the data within a whole event or request, and of request bodies.
func (r *Report) payload(b []byte) {
	digest := envelope.DigestHex(b)
	matched := r.payloadDigest(digest, "The bytes given")
	if !matched {
		if e, err := envelope.Parse(b); err == nil && e.Data != nil && e.ID == r.Subject.EventID {
			matched = r.payloadDigest(envelope.DigestHex(e.Data), "The data within the event given")
		}
	}
	if r.Payload = PayloadMatches; matched {
		return
	}
	r.Payload = PayloadDiffers
	hint := ""
	if t := strings.TrimRight(string(b), "\r\n"); len(t) < len(b) && r.payloadDigest(envelope.DigestHex([]byte(t)), "") {
		hint = "; without the line end behind it, it would be"
	}
	r.PayloadProblem = fmt.Sprintf("the payload given has SHA-256 %s, which is neither that of the event's data nor of "+
		"any request in this file%s", digest, hint)
}

// payloadDigest claims every match of a digest; without words it only looks.
func (r *Report) payloadDigest(digest, words string) (found bool) {
	for _, f := range r.Facts {
		what := ""
		switch digest {
		case f.DataDigest:
			what = "are the event's data"
		case f.PayloadDigest:
			what = fmt.Sprintf("are the body that was %s in attempt %d to %s", signedAndSent(&f), f.Attempt, f.EndpointID)
		}
		if f.Role != OfEvent || what == "" {
			continue
		}
		found = true
		if words != "" {
			r.say(aboutPayload, "%s %s: SHA-256 %s.", words, what, digest)
		}
	}
	return found
}
