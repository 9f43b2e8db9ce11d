package redact

import (
	"bytes"
	"encoding/binary"
)

// Known is what must not be in a text whatever it looks like.
type Known struct {
	// Values that somebody keeps secret. Short ones are left: "1" is everywhere.
	Values []string
	// Payload is what the text's author was sent; it may have been sent back.
	Payload []byte
}

const (
	minValue = 6  // shorter values are no secrets
	cutValue = 64 // how much of the start of a value is known for it where the text ends
	echoed   = 24 // so many bytes of the payload in a row are the payload's
	block    = 12 // of the payload that is looked for: echoed always holds a whole one
)

// values finds what somebody keeps secret, also cut off by the text's end.
func (s *scanner) values() {
	for _, v := range s.known.Values {
		if len(v) < minValue {
			continue
		}
		for i := 0; ; {
			n := bytes.Index(s.t[i:], []byte(v))
			if n < 0 {
				break
			}
			s.add(Own, "a value that the endpoint keeps secret", i+n, i+n+len(v))
			i += n + len(v)
		}
		head := v[:min(len(v), cutValue)]
		if i := bytes.LastIndex(s.t, []byte(head)); i >= 0 && len(s.t)-i < len(v) && bytes.HasPrefix([]byte(v), s.t[i:]) {
			s.add(Own, "a value that the endpoint keeps secret", i, len(s.t))
		}
	}
}

// payload finds pieces of what was sent.
func (s *scanner) payload() {
	p, t := s.known.Payload, s.t
	if len(p) < echoed {
		if len(p) >= echoed/3 {
			if i := bytes.Index(t, p); i >= 0 {
				s.add(Payload, "what was sent", i, i+len(p))
			}
		}
		return
	}
	if len(t) < echoed {
		return
	}
	blocks := newBlocks(t)
	for i := 0; i+block <= len(p); i++ {
		longest := 0
		slot, tag := blocks.first(p[i:])
		for seen := 0; blocks.at[slot] != 0 && seen < probes; slot, seen = blocks.next(slot), seen+1 {
			j := int(blocks.at[slot]&0xffff) - 1
			if blocks.at[slot]&^0xffff != tag || !bytes.Equal(t[j:j+block], p[i:i+block]) {
				continue
			}
			left, right := 0, block
			for left < i && left < j && t[j-left-1] == p[i-left-1] {
				left++
			}
			for i+right < len(p) && j+right < len(t) && t[j+right] == p[i+right] {
				right++
			}
			if left+right >= echoed {
				s.add(Payload, "what was sent", j-left, j+right)
			}
			longest = max(longest, right)
		}
		if longest > block {
			i += longest - block
		}
	}
}

// probes bounds how many equal pieces of the text are compared at each place.
const probes = 8

// blocks is a table of pieces of a text, by what they are: 1 + where in the
// text, and above that some bits of the piece's hash. 0: free.
type blocks struct {
	at   []uint32
	mask uint64
}

func newBlocks(t []byte) blocks {
	t = t[:min(len(t), 0xfff0)]
	size := 64
	for size < len(t)/block*8 {
		size *= 2
	}
	b := blocks{make([]uint32, size), uint64(size - 1)}
	for j := 0; j+block <= len(t); j += block {
		slot, tag := b.first(t[j:])
		for seen := 0; b.at[slot] != 0 && seen < probes; seen++ {
			slot = b.next(slot)
		}
		if b.at[slot] == 0 {
			b.at[slot] = uint32(j+1) | tag
		}
	}
	return b
}

func (b *blocks) first(p []byte) (slot uint64, tag uint32) {
	h := binary.LittleEndian.Uint64(p)*0x9e3779b97f4a7c15 ^ uint64(binary.LittleEndian.Uint32(p[8:]))*0xc2b2ae3d27d4eb4f
	return (h ^ h>>29) & b.mask, uint32(h>>32) &^ 0xffff
}

func (b *blocks) next(slot uint64) uint64 { return (slot + 1) & b.mask }
