package eventids

import (
	"fmt"
	"time"
)

const (
	// segmentEvents are covered by one segment: of 65,536 sequences, beginning at a
	// multiple of it, so that whoever makes a segment makes the same.
	segmentEvents = 1 << 16
	entryBytes    = hashBits / 8
	segmentBytes  = segmentEvents * entryBytes // 320 KiB
)

// segment is the hashes of the events of one segment; 0: none.
type segment struct {
	number uint64 // it begins at number * segmentEvents
	hashes []uint64
	last   uint64 // the last sequence that is in it
	lastAt time.Time
}

func newSegment(number uint64) *segment {
	return &segment{number: number, hashes: make([]uint64, segmentEvents)}
}

func (s *segment) first() uint64 { return s.number * segmentEvents }

// end is the first sequence behind it.
func (s *segment) end() uint64 { return (s.number + 1) * segmentEvents }

func (s *segment) add(seq, h uint64, at time.Time) {
	s.hashes[seq-s.first()], s.last, s.lastAt = h, seq, at
}

// encode gives the bytes that are kept.
func (s *segment) encode() []byte {
	b := make([]byte, 0, segmentBytes)
	for _, h := range s.hashes {
		b = append(b, byte(h>>32), byte(h>>24), byte(h>>16), byte(h>>8), byte(h))
	}
	return b
}

// decode reads what encode gave.
func (s *segment) decode(b []byte) error {
	if len(b) != segmentBytes {
		return fmt.Errorf("a segment of %d bytes; want %d", len(b), segmentBytes)
	}
	for i := range s.hashes {
		e := b[i*entryBytes:]
		s.hashes[i] = uint64(e[0])<<32 | uint64(e[1])<<24 | uint64(e[2])<<16 | uint64(e[3])<<8 | uint64(e[4])
	}
	return nil
}
