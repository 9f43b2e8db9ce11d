package transparency

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// rotated puts on record that another key signs from now on than signed the last
// checkpoint, before it does. waybill ledger key rotate has said so already, under
// the same id; a key that was put into the environment or into the file by hand
// is known here only.
func (s *signing) rotated(ctx context.Context, now time.Time) error {
	l := s.log
	if s.bound.Size == 0 || s.bound.Key == "" {
		return nil // nobody signed before, or nobody knows who
	}
	keys, _ := l.o.Keys.Current() // that the file cannot be read is said when it is signed with
	key := keys[0]
	if key.ID == s.bound.Key {
		return nil
	}
	before := s.bound.Key // its verifier key, if it is still at hand
	for _, k := range keys[1:] {
		if k.ID == before {
			before = k.Verifier
		}
	}
	r := record.LedgerKeyRotated(s.bound.Origin, key.Verifier, before)
	r.At, r.Actor = now, "waybill"
	r.Reason, r.Detail = "key_file_changed", "the key file begins with another key than signed the last checkpoint; "+
		"whoever changed the file is not known"
	if l.o.Keys.Inline() {
		r.Reason, r.Detail = "environment_changed", checkpoint.EnvKey+
			" begins with another key than signed the last checkpoint; whoever set it is not known"
	}
	ctx, cancel := context.WithTimeout(ctx, publishBound)
	defer cancel()
	m, err := r.Message()
	if err != nil {
		return err
	}
	if _, err := l.js.PublishMsg(ctx, m); err != nil {
		return fmt.Errorf("the new key %s is not on record, so it does not sign yet: %w", key.ID, err)
	}
	l.o.Log.Warn().Str("key", key.ID).Str("before", s.bound.Key).Str("why", r.Reason).Msg(logevent.LedgerLogKeyRotated)
	return nil
}
