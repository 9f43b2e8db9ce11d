package ledgersink_test

import (
	"testing"
)

func TestEveryRecordIsStoredOnceAndInOrder(t *testing.T) {
	h := newHarness(t)
	h.publish(2345)
	r := h.start(&faulty{Ledger: h.db()}, nil)
	r.waitStored(2345)
	h.publish(10)
	r.waitStored(2355)
	r.end()
	h.check(h.sent)
}
