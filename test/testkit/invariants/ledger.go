package invariants

import "bytes"

// ledger compares ClickHouse with LEDGER. A record that a stage stated again
// after LEDGER had forgotten its id is in the stream twice, and in the ledger once.
func (c *checker) ledger() {
	ids := make(map[string]uint64, len(c.h.Ledger))
	for i, row := range c.h.Ledger {
		if row.Idx != uint64(i) {
			c.violated(RuleIndex, pair{}, "row %d has index %d", i, row.Idx)
		}
		if first, ok := ids[row.Record.ID]; ok {
			c.violated(RuleIndex, pair{row.Record.EventID, row.Record.EndpointID}, "%q has the indices %d and %d", row.Record.ID,
				first, row.Idx)
		}
		ids[row.Record.ID] = row.Idx
	}
	stated := make(map[string]bool, len(c.h.Stream))
	i := 0
	for _, m := range c.h.Stream {
		if stated[m.ID] {
			continue
		}
		stated[m.ID] = true
		if i >= len(c.h.Ledger) {
			c.violated(RuleEqual, pair{}, "the ledger ends with index %d; LEDGER goes on with message %d, %q", i-1, m.Seq, m.ID)
			return
		}
		if row := c.h.Ledger[i]; row.StreamSeq != m.Seq || !bytes.Equal(row.Body, m.Body) {
			// What follows is shifted: one violation says it all.
			c.violated(RuleEqual, pair{row.Record.EventID, row.Record.EndpointID},
				"index %d is %q of message %d; LEDGER has %q in message %d there",
				row.Idx, row.Record.ID, row.StreamSeq, m.ID, m.Seq)
			return
		}
		i++
	}
	if i < len(c.h.Ledger) {
		c.violated(RuleEqual, pair{}, "LEDGER ends before index %d of %d", i, len(c.h.Ledger))
	}
}

// Restated counts the messages of LEDGER whose record was there before.
func (h History) Restated() int {
	seen, n := make(map[string]bool, len(h.Stream)), 0
	for _, m := range h.Stream {
		if seen[m.ID] {
			n++
		}
		seen[m.ID] = true
	}
	return n
}
