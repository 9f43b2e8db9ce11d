package testkit

import (
	"slices"
	"sync"
	"time"
)

// patience bounds every wait for what a test has to see; none waits that long
// unless something is wrong.
const patience = 60 * time.Second

// seen is what has come so far, for tests that wait for more of it.
type seen[T any] struct {
	mu   sync.Mutex
	all  []T
	more chan struct{} // closed and replaced each time
}

func newSeen[T any]() *seen[T] { return &seen[T]{more: make(chan struct{})} }

func (s *seen[T]) add(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, v)
	close(s.more)
	s.more = make(chan struct{})
}

func (s *seen[T]) got() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// wait returns true once enough has come, and false when patience is at its end.
func (s *seen[T]) wait(enough func() bool) bool {
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		more := s.more
		s.mu.Unlock()
		if enough() {
			return true
		}
		select {
		case <-more:
		case <-deadline:
			return false
		}
	}
}
