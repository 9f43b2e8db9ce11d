package dispatcher

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
)

func TestSinceWhenSomebodyElseCanHaveClaimedAnAttempt(t *testing.T) {
	stored := time.Date(2026, 8, 19, 12, 0, 0, 0, time.UTC)
	before, after := stored.Add(-time.Hour), stored.Add(time.Hour)
	for name, c := range map[string]struct {
		m        stage.Message
		delivery delivery.Delivery
		want     time.Time
	}{
		"since it was owed, whoever stored the message that is here": {stage.Message{StoredAt: stored, Deliveries: 1},
			delivery.Delivery{OwedAt: before}, before},
		"since it was stored, whenever it is due": {stage.Message{StoredAt: stored},
			delivery.Delivery{OwedAt: after, Due: after}, stored},
		"since the message before it, which it states again": {stage.Message{StoredAt: stored},
			delivery.Delivery{OwedAt: before.Add(-time.Hour), HeldSince: before}, before},
		"since the message before it, whoever held this one": {stage.Message{StoredAt: stored, Deliveries: 3},
			delivery.Delivery{HeldSince: before}, before},
		"since it was stored, when what it states came later": {stage.Message{StoredAt: stored, Deliveries: 2},
			delivery.Delivery{HeldSince: after}, stored},
	} {
		if got := heldSince(c.m, c.delivery); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
