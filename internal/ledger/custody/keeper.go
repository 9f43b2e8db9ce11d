package custody

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/streams"
)

// allTenants is the tenant of what is nobody's alone.
const allTenants = "default"

// landPoll is how often the ledger is asked for a record that was published.
const landPoll = 100 * time.Millisecond

// Keeper acts on a ledger: it reads ClickHouse as one who may drop parts, and
// puts what it does on record through the stream, as everything else.
type Keeper struct {
	DB  *ledger.DB
	JS  jetstream.JetStream
	Log zerolog.Logger
	Now func() time.Time
	// Before is told before each drop. Optional; tests stop here.
	Before func(month uint32) error
}

// State reads what holds and retirements there are.
func (k *Keeper) State(ctx context.Context) (State, error) {
	actions, err := k.DB.Actions(ctx)
	if err != nil {
		return State{}, err
	}
	return Fold(actions)
}

// putOnRecord publishes an action and returns its place in ClickHouse, once it
// is there. The error says when it is stored and not there yet.
func (k *Keeper) putOnRecord(ctx context.Context, action, actor, reason, detail string,
	settings map[string]string) (uint64, error) {
	at := k.Now().UTC()
	r := record.Record{ID: fmt.Sprintf("%s/%s/%s", record.OperatorAction, action, ids.New("act_", at)),
		Kind: record.OperatorAction, At: at,
		Tenant: allTenants, Action: action, Actor: actor, Reason: reason, Detail: detail, Settings: settings}
	m, err := r.Message()
	if err != nil {
		return 0, err
	}
	from, err := k.DB.Last(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := k.JS.PublishMsg(ctx, m, jetstream.WithExpectStream(streams.Ledger)); err != nil {
		return 0, fmt.Errorf("%s is not known to be on record: %w; look with: waybill hold list", action, err)
	}
	poll := time.NewTicker(landPoll)
	defer poll.Stop()
	for {
		idx, found, err := k.DB.IdxOf(ctx, from.Next, r.ID)
		if found && err == nil {
			return idx, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("%s is stored in LEDGER and not in ClickHouse yet, so it is not in force; is the ledger "+
				"sink running? %w", action, context.Cause(ctx))
		}
	}
}

// Add puts a hold in force. Months returned were retired before it, or were
// about to be: what they held cannot be kept any more.
func (k *Keeper) Add(ctx context.Context, h Hold) (Hold, []uint32, error) {
	h.ID = ids.New("hold_", k.Now())
	idx, err := k.putOnRecord(ctx, record.ActionHoldAdded, h.Actor, h.Reason, h.Covers(), h.settings())
	if err != nil {
		return h, nil, err
	}
	s, err := k.State(ctx)
	if err != nil {
		return h, nil, err
	}
	for _, have := range s.Holds {
		if have.ID == h.ID {
			h = have
		}
	}
	var late []uint32
	for _, r := range s.Retirements {
		if r.Complete() && r.Idx < idx && overlaps(r.Month, h) {
			late = append(late, r.Month)
		}
	}
	return h, late, nil
}

// Kept are the months that a hold keeps now.
func (k *Keeper) Kept(ctx context.Context, h Hold) ([]uint32, error) {
	months, err := k.DB.Months(ctx)
	if err != nil {
		return nil, err
	}
	var out []uint32
	for _, m := range months {
		touched, err := k.DB.Touches(ctx, m.Month, h.Scope())
		if err != nil {
			return nil, err
		}
		if touched {
			out = append(out, m.Month)
		}
	}
	return out, nil
}

// overlaps says whether a month lies in the hold's period; a hold without one
// has no bounds.
func overlaps(month uint32, h Hold) bool {
	begin := Begin(month)
	return (h.To.IsZero() || begin.Before(h.To)) && (h.From.IsZero() || begin.AddDate(0, 1, 0).After(h.From))
}

// Release ends a hold.
func (k *Keeper) Release(ctx context.Context, id, actor, reason string) (Hold, error) {
	find := func() (Hold, error) {
		s, err := k.State(ctx)
		if err != nil {
			return Hold{}, err
		}
		for _, h := range s.Holds {
			if h.ID == id {
				return h, nil
			}
		}
		return Hold{}, fmt.Errorf("there is no hold %s; see: waybill hold list", id)
	}
	h, err := find()
	if err != nil || !h.Active() {
		return h, err
	}
	if _, err := k.putOnRecord(ctx, record.ActionHoldReleased, actor, reason, h.Covers(),
		map[string]string{"hold": id}); err != nil {
		return h, err
	}
	return find()
}
