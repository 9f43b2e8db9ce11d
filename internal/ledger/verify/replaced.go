package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

// strange is a checkpoint of a ledger whose key was given, that this key did not sign.
type strange struct {
	Checkpoint
	note string
}

// addStrange keeps c if it is signed in the name of a key that was given, and by
// none that was.
func (g *gathered) addStrange(c Checkpoint, p Published, keys []note.Verifier) {
	named := slices.ContainsFunc(keys, func(v note.Verifier) bool {
		return v.Name() == c.Origin &&
			!checkpoint.IsWitness(v)
	})
	if !named || c.Signer != "" || len(c.signers) == 0 {
		return
	}
	c.At = p.At
	g.strange = append(g.strange, strange{c, p.Note})
}

// replaced finds checkpoints that follow those of the keys that were given, and
// that another key signed which nothing endorses. A key is endorsed by a record
// that says that it follows, which a checkpoint covers that a given key signed,
// or one that is endorsed itself: whoever takes the place of a key file cannot
// have that.
func (r *run) replaced(ctx context.Context) ([]Finding, error) {
	signed := uint64(0)
	for _, c := range r.g.trusted {
		if c.Signer != "" {
			signed = max(signed, c.Size)
		}
	}
	later := slices.DeleteFunc(slices.Clone(r.g.strange), func(c strange) bool { return c.Size <= signed })
	if signed == 0 || len(later) == 0 {
		return nil, nil // that nothing is signed by a key that was given is said already
	}
	endorsed, err := r.endorsed(ctx)
	if err != nil {
		return nil, err
	}
	by := map[string][]strange{}
	for _, c := range later {
		if !slices.ContainsFunc(c.signers, func(id string) bool { return endorsed[id] }) {
			id := strings.Join(c.signers, " and ")
			by[id] = append(by[id], c)
		}
	}
	var out []Finding
	for id, all := range by {
		first := slices.MinFunc(all, func(a, b strange) int { return int(a.Size) - int(b.Size) })
		out = append(out, Finding{Code: KeyReplaced,
			Text: fmt.Sprintf("%s signed by %s and by no key that was given, the first of %s (%s), "+
				"and nothing that a given key signed says that this key follows it: the checkpoint key was replaced. If you "+
				"replaced it, verify with both keys, and next time use "+
				"waybill ledger key rotate; if you did not, what came after %s is not proven",
				text.Count(len(all), "checkpoint is", "checkpoints are"), id, text.Count(first.Size, "record", "records"),
				instant(first.At), text.Count(signed, "record", "records"))})
	}
	slices.SortFunc(out, func(a, b Finding) int { return strings.Compare(a.Text, b.Text) })
	return out, nil
}

// endorsed are the keys, as name+hash, that follow one that was given.
func (r *run) endorsed(ctx context.Context) (map[string]bool, error) {
	actions, err := r.source.Actions(ctx, record.ActionKeyRotated)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	covered := r.w.good
	for more := true; more; {
		more = false
		for _, a := range actions {
			v := rotatedTo(a)
			if v == nil || a.Idx >= covered || out[checkpoint.KeyID(v)] {
				continue
			}
			out[checkpoint.KeyID(v)], more = true, true
			for _, c := range r.g.strange {
				if again, err := ParseCheckpoint(c.note, []note.Verifier{v}); err == nil && again.Signer != "" {
					covered = max(covered, min(again.Size, r.ledger))
				}
			}
		}
	}
	return out, nil
}

// rotatedTo is the key that a record says to follow; nil: it says none.
func rotatedTo(a Record) note.Verifier {
	x, err := record.Decode(a.Body)
	if err != nil {
		return nil
	}
	v, err := checkpoint.NewVerifier(x.Settings["key"])
	if err != nil {
		return nil
	}
	return v
}

// Kept is what is known of the stream CHECKPOINTS.
type Kept struct {
	Missing  bool
	Created  time.Time
	Messages uint64
	// LedgerCreated is when LEDGER was made.
	LedgerCreated time.Time
}

// anewSlack is how much later than its streams a first checkpoint is, by another clock.
const anewSlack = time.Minute

// kept says what is wrong with the stream that keeps the checkpoints out of the
// database's reach.
func (r *run) kept() []Finding {
	k := r.o.Kept
	if k == nil {
		return nil
	}
	const next = ". Compare with a checkpoint that was kept elsewhere (--checkpoint FILE), and see who may delete streams"
	switch {
	case k.Missing && r.g.oldest.IsZero():
		r.report.Notes = append(r.report.Notes, "the stream CHECKPOINTS is not there; make it with: waybill streams apply")
		return nil
	case k.Missing:
		return []Finding{{Code: CheckpointsGone, Text: fmt.Sprintf("the stream CHECKPOINTS is not there, though "+
			"checkpoints have been signed since %s: somebody deleted it. "+
			"Make it anew with waybill streams apply", instant(r.g.oldest)) + next}}
	case r.g.oldest.IsZero() || !k.Created.After(r.g.oldest.Add(anewSlack)):
		return nil
	}
	text := fmt.Sprintf("the stream CHECKPOINTS was made anew at %s and holds %s, though checkpoints have been signed "+
		"since %s: what it kept before is gone",
		instant(k.Created), text.Count(k.Messages, "message", "messages"), instant(r.g.oldest))
	if k.LedgerCreated.After(k.Created.Add(-anewSlack)) {
		r.report.Notes = append(r.report.Notes, text+". LEDGER was made anew with it: all of NATS was")
		return nil
	}
	return []Finding{{Code: CheckpointsGone, Text: text + next}}
}
