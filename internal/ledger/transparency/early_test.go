package transparency_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger/transparency"
)

// early is a store on which more records land while the log reads its tiles.
type early struct {
	transparency.Store
	once  sync.Once
	lands chan func()
}

func (s *early) Tiled(ctx context.Context) ([]uint64, error) {
	s.once.Do(func() { (<-s.lands)() })
	return s.Store.Tiled(ctx)
}

// The tree begins at its last full tile, which lies before the last checkpoint: that
// is no ledger that became shorter, whatever comes first.
func TestRecordsThatLandWhileTheTreeIsReadAreNoShorterLedger(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := h.start(h.db, nil)
	r.Landed(h.append(300))
	h.waitSigned(300)
	r.end()

	store := &early{Store: h.db, lands: make(chan func(), 1)}
	r = h.start(store, nil)
	store.lands <- func() { r.Landed(h.append(40)) }
	h.waitSigned(340)
	if said := h.log.String(); strings.Contains(said, "ledger_log.signs_nothing") ||
		strings.Contains(said, "agrees_again") {
		t.Error("the ledger was called shorter than what is signed")
	}
	h.check()
}
