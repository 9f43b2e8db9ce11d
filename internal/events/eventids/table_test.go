package eventids

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// model is what a table is to say, plainly.
type model map[uint64][]uint64

func (m model) before(h, first, seq uint64) (out []uint64) {
	for _, s := range m[h] {
		if s >= first && s < seq {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

// check compares after each step: a step adds an id, or lets old ones expire.
func check(t *testing.T, steps []byte, start uint64) {
	t.Helper()
	var x table
	m := model{}
	x.first = start
	seq := start
	for i, step := range steps {
		// Few hashes, of few shards: so that they meet.
		h := hash("t", fmt.Sprint(step%61))
		h = h&(1<<printBits-1) | uint64(step%3)<<printBits
		switch {
		case step%17 == 0:
			x.first += uint64(step)
		case step%19 == 0:
			seq += 1 + uint64(step)
		default:
			seq = max(seq+1, x.first)
			x.add(h, seq)
			m[h] = append(m[h], seq)
		}
		for _, at := range []uint64{seq, seq + 1, seq - uint64(i%7)} {
			if got, want := x.before(h, at), m.before(h, x.first, at); !slices.Equal(got, want) {
				t.Fatalf("step %d: below %d it says %v, want %v (first %d)", i, at, got, want, x.first)
			}
		}
	}
}

func TestATableSaysWhatAMapSays(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		steps := make([]byte, 3000)
		for i := range steps {
			steps[i] = byte(random.Uint32())
		}
		check(t, steps, []uint64{1, 1 << 20, 1<<36 - 900, 3 << 36}[seed%4])
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte{1, 2, 3, 1, 2, 17, 19, 1}, uint64(1))
	f.Add([]byte{1, 1, 1, 1, 1, 34, 1}, uint64(1<<36-3))
	f.Fuzz(func(t *testing.T, steps []byte, start uint64) {
		if len(steps) > 3000 {
			return
		}
		check(t, steps, max(start%(1<<40), 1000))
	})
}

// An id costs what docs/operations.md says that it does, or less.
func TestAnIDTakesThirteenBytesAtMost(t *testing.T) {
	var x table
	const n = 500_000
	x.first = 1
	for seq := range uint64(n) {
		x.add(hash("default", fmt.Sprintf("order-%d", seq)), seq+1)
	}
	if per := float64(x.bytes()) / n; per > 13 {
		t.Errorf("%.1f bytes an id", per)
	}
	// What expires makes room: as many again, and no more memory than for these.
	for seq := range uint64(2 * n) {
		x.first = seq + 1
		x.add(hash("default", fmt.Sprintf("order-%d", n+seq)), n+seq+1)
	}
	if per := float64(x.bytes()) / n; per > 16 {
		t.Errorf("%.1f bytes an id after as many have expired", per)
	}
}

func TestASegmentIsReadAsItWasWritten(t *testing.T) {
	s := newSegment(3)
	for i := range s.hashes {
		s.hashes[i] = hash("t", fmt.Sprint(i)) * uint64(i%2)
	}
	again := newSegment(3)
	if err := again.decode(s.encode()); err != nil || !slices.Equal(s.hashes, again.hashes) {
		t.Errorf("it differs: %v", err)
	}
	if err := again.decode(s.encode()[1:]); err == nil {
		t.Error("one that is too short is read")
	}
}

func BenchmarkAdd(b *testing.B) {
	var x table
	x.first = 1
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	for seq := range uint64(b.N) {
		x.add(hash("default", fmt.Sprintf("order-%d", seq)), seq+1)
	}
	b.StopTimer()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "B/id")
	runtime.KeepAlive(&x)
}

func BenchmarkBefore(b *testing.B) {
	var x table
	x.first = 1
	for seq := range uint64(10_000_000) {
		x.add(hash("default", fmt.Sprintf("order-%d", seq)), seq+1)
	}
	b.ResetTimer()
	seen := 0
	for i := range b.N {
		seen += len(x.before(hash("default", fmt.Sprintf("new-%d", i)), 1<<40))
	}
	b.ReportMetric(float64(seen)/float64(b.N)*1e6, "false/million")
}
