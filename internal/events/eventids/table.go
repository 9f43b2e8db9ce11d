package eventids

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

const (
	// hashBits are kept of an id's digest: with 100 million events every ten
	// thousandth new id seems to be there, and is looked at.
	hashBits = 40
	// shardBits of them choose a shard, the rest is kept in the entry.
	shardBits = 12
	printBits = hashBits - shardBits
	// seqBits are kept of a sequence: no stream holds so many events at once.
	seqBits = 64 - printBits
	seqMask = 1<<seqBits - 1
)

// hash is the digest of an id of a tenant; never 0, which means that there is none.
// It is cryptographic: producers choose ids, and MUST NOT make them meet.
func hash(tenant, id string) uint64 {
	var room [256]byte
	b := append(append(append(room[:0], tenant...), '/'), id...)
	sum := sha256.Sum256(b)
	return max(binary.BigEndian.Uint64(sum[:])>>(64-hashBits), 1)
}

// table says at which sequences a hash was seen. An entry takes 8 bytes, the
// table 10 to 13 for each: it grows shard by shard, by a quarter.
type table struct {
	shards [1 << shardBits]shard
	first  uint64 // entries below it are void
}

type shard struct {
	slots []uint64 // fingerprint and sequence; 0: free. Open addressing, in the order of fingerprints
	used  int
}

func entry(h, seq uint64) uint64 { return h<<seqBits | seq&seqMask }

// home is where the search for a fingerprint begins.
func (s *shard) home(e uint64) int { return int((e >> seqBits) * uint64(len(s.slots)) >> printBits) }

// full leaves a sixth free, so that searches stay short.
func (s *shard) full() bool { return s.used*6 >= len(s.slots)*5 }

func (t *table) add(h, seq uint64) {
	if h == 0 {
		return
	}
	s := &t.shards[h>>printBits]
	if s.full() {
		t.rebuild(s)
	}
	s.put(entry(h, seq))
}

func (s *shard) put(e uint64) {
	for i := s.home(e); ; i++ {
		if i == len(s.slots) {
			i = 0
		}
		switch s.slots[i] {
		case 0:
			s.slots[i] = e
			s.used++
			return
		case e:
			return
		}
	}
}

// rebuild drops what is void, and makes room for a quarter more than is left.
func (t *table) rebuild(s *shard) {
	old := s.slots
	live := old[:0:0]
	for _, e := range old {
		if e != 0 && t.sequence(e) >= t.first {
			live = append(live, e)
		}
	}
	s.slots, s.used = make([]uint64, max(8, len(live)*5/4*6/5+1)), 0
	for _, e := range live {
		s.put(e)
	}
}

// sequence of an entry: the one at or above first, or close below it, that has
// its last bits.
func (t *table) sequence(e uint64) uint64 {
	const half = 1 << (seqBits - 1)
	low := t.first - min(t.first, half)
	return low + (e-low)&seqMask
}

// before lists the sequences below seq at which a hash was seen, in order.
func (t *table) before(h, seq uint64) []uint64 {
	s := &t.shards[h>>printBits]
	if len(s.slots) == 0 {
		return nil
	}
	var out []uint64
	want := entry(h, 0)
	for i := s.home(want); ; i++ {
		if i == len(s.slots) {
			i = 0
		}
		e := s.slots[i]
		if e == 0 {
			break
		}
		if at := t.sequence(e); e&^seqMask == want && at >= t.first && at < seq {
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return out
}

// bytes is what the entries take.
func (t *table) bytes() (n int) {
	for i := range t.shards {
		n += 8 * len(t.shards[i].slots)
	}
	return n
}
