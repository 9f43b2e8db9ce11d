package sink

import (
	"crypto/sha256"

	"github.com/waybill-dev/waybill/internal/ledger"
)

// recent remembers at least the last limit ids, and at most twice as many, by
// half of their SHA-256: ids hold what producers chose, so the hash must not be
// one for which two ids that collide can be made up.
type recent struct {
	limit         int
	current, past map[ledger.Digest]struct{}
}

func newRecent(limit int) *recent {
	return &recent{limit: limit, current: map[ledger.Digest]struct{}{}}
}

func digest(id string) ledger.Digest {
	sum := sha256.Sum256([]byte(id))
	return ledger.Digest(sum[:16])
}

func (r *recent) add(d ledger.Digest) {
	if len(r.current) >= r.limit {
		r.past, r.current = r.current, make(map[ledger.Digest]struct{}, r.limit)
	}
	r.current[d] = struct{}{}
}

func (r *recent) has(d ledger.Digest) bool {
	if _, ok := r.current[d]; ok {
		return true
	}
	_, ok := r.past[d]
	return ok
}
