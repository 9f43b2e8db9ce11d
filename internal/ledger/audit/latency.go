package audit

import "math"

// bucketsPerDoubling of the latency histogram: a quantile is good to one part in
// a hundred, and histograms of any number of days can be added.
const bucketsPerDoubling = 64

// Latency is from when EVENTS stored an event to the record of its delivery.
type Latency struct {
	Count uint64 `json:"count"`
	P50US int64  `json:"p50_us"`
	P95US int64  `json:"p95_us"`
	P99US int64  `json:"p99_us"`
	MaxUS int64  `json:"max_us"`
}

// LatencyOf adds the histograms of rows.
func LatencyOf(rows []Balance) Latency {
	sum := map[int32]uint64{}
	var l Latency
	var lowest, highest int32 = math.MaxInt32, math.MinInt32
	for _, r := range rows {
		for i, b := range r.Buckets {
			if i >= len(r.Counts) || r.Counts[i] == 0 {
				continue
			}
			sum[b] += r.Counts[i]
			l.Count += r.Counts[i]
			lowest, highest = min(lowest, b), max(highest, b)
		}
	}
	if l.Count == 0 {
		return l
	}
	quantile := func(q float64) int64 {
		rank, seen := uint64(math.Ceil(q*float64(l.Count))), uint64(0)
		for b := lowest; b <= highest; b++ {
			if seen += sum[b]; seen >= rank {
				return upper(b)
			}
		}
		return upper(highest)
	}
	l.P50US, l.P95US, l.P99US, l.MaxUS = quantile(0.5), quantile(0.95), quantile(0.99), upper(highest)
	return l
}

// Bucket of a latency; the ledger's query computes the same.
func Bucket(us int64) int32 {
	return int32(math.Floor(math.Log2(float64(max(us, 1))) * bucketsPerDoubling))
}

// upper is the greatest latency of a bucket.
func upper(b int32) int64 { return int64(math.Exp2(float64(b+1) / bucketsPerDoubling)) }
