package eventids

// SegmentEvents is how many events a segment covers.
const SegmentEvents = segmentEvents

// Altered is a kept segment in which the entry of a sequence is the hash of another id.
func Altered(kept []byte, seq uint64, tenant, id string) ([]byte, error) {
	s := newSegment(0)
	if err := s.decode(kept); err != nil {
		return nil, err
	}
	s.hashes[seq] = hash(tenant, id)
	return s.encode(), nil
}
