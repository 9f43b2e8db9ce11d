package torture_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/test/testkit"
)

// hurt is one way to hurt a part. do hurts at once; what it returns heals, after lasts.
type hurt struct {
	victim string
	how    string
	weight int
	lasts  func(*rand.Rand) time.Duration
	do     func() (heal func())
}

func between(low, high time.Duration) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration { return low + time.Duration(r.Int64N(int64(high-low))) }
}

func programHurts(p *program, ackWait time.Duration) []hurt {
	hurts := []hurt{
		{p.name, "kill -9", 4, between(0, 1500*time.Millisecond), func() func() { p.kill(); return p.start }},
		// Again while it starts.
		{p.name, "kill -9, again and again", 1, between(200*time.Millisecond, 2*time.Second), func() func() {
			p.kill()
			p.start()
			return func() { p.kill(); p.start() }
		}},
		{p.name, "SIGTERM", 2, between(0, time.Second), func() func() { p.stop(); return p.start }},
		{p.name, "SIGSTOP", 2, between(100*time.Millisecond, 3*time.Second), func() func() { p.freeze(); return p.thaw }},
	}
	if ackWait > 0 {
		hurts = append(hurts, hurt{p.name, "SIGSTOP beyond ack_wait", 2, between(ackWait+time.Second, ackWait+7*time.Second),
			func() func() { p.freeze(); return p.thaw }})
	}
	return hurts
}

func natsHurts(n *testkit.Server) []hurt {
	return []hurt{
		{"nats", "kill -9", 3, between(0, 1500*time.Millisecond), func() func() { n.Kill(); return n.Restart }},
		{"nats", "SIGTERM", 1, between(0, time.Second), func() func() { n.Stop(); return n.Restart }},
		{"nats", "SIGSTOP", 1, between(100*time.Millisecond, 4*time.Second), func() func() { n.Freeze(); return n.Thaw }},
	}
}

// engineHurts: whoever supervises the engine starts it again.
func engineHurts(name string, pid func() int) []hurt {
	return []hurt{
		{name, "kill -9", 3, between(0, time.Second), func() func() { signalPID(pid(), syscall.SIGKILL); return func() {} }},
		{name, "SIGSTOP", 1, between(100*time.Millisecond, 4*time.Second), func() func() {
			frozen := pid()
			signalPID(frozen, syscall.SIGSTOP)
			return func() { signalPID(frozen, syscall.SIGCONT) }
		}},
	}
}

func proxyHurt(name string, p *proxy) hurt {
	return hurt{name, "cut", 2, between(0, time.Second), func() func() { p.cut(); return func() {} }}
}

func receiverHurt(r *receiver) hurt {
	return hurt{"receiver " + r.name, "away", 2, between(200*time.Millisecond, 3*time.Second),
		func() func() { r.down(); return r.up }}
}

// chaos hurts one part after the other, several at a time but each only in one
// way, until ctx ends; then everything is healed.
type chaos struct {
	t     *testing.T
	seed  uint64
	hurts []hurt

	mu     sync.Mutex // guards what follows
	busy   map[string]bool
	counts map[string]int
	log    []string
}

func newChaos(t *testing.T, seed uint64, hurts []hurt) *chaos {
	return &chaos{t: t, seed: seed, hurts: hurts, busy: map[string]bool{}, counts: map[string]int{}}
}

func (c *chaos) run(ctx context.Context) {
	r := rand.New(rand.NewPCG(c.seed, 0x9e3779b97f4a7c15))
	var healing sync.WaitGroup
	defer healing.Wait()
	for {
		pause := time.NewTimer(between(100*time.Millisecond, 1500*time.Millisecond)(r))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
		h := c.pick(r)
		lasts := h.lasts(r)
		if !c.begin(h, lasts) {
			continue
		}
		healing.Go(func() {
			heal := h.do()
			over := time.NewTimer(lasts)
			select {
			case <-over.C:
			case <-ctx.Done(): // heal now
			}
			heal()
			c.mu.Lock()
			delete(c.busy, h.victim)
			c.mu.Unlock()
		})
	}
}

func (c *chaos) pick(r *rand.Rand) hurt {
	sum := 0
	for _, h := range c.hurts {
		sum += h.weight
	}
	n := r.IntN(sum)
	for _, h := range c.hurts {
		if n -= h.weight; n < 0 {
			return h
		}
	}
	panic("unreachable")
}

func (c *chaos) begin(h hurt, lasts time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[h.victim] {
		return false
	}
	c.busy[h.victim] = true
	c.counts[h.how]++
	c.log = append(c.log, fmt.Sprintf("%s  %s: %s, for %s", time.Now().UTC().Format("15:04:05.000"), h.victim, h.how,
		lasts.Round(time.Millisecond)))
	return true
}

func (c *chaos) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.log, "\n")
}
