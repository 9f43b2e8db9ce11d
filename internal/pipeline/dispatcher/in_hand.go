package dispatcher

import "sync"

// inHand are the deliveries that this process works on, so that two messages for
// one delivery do not take each other for one whose process died.
type inHand struct {
	mu sync.Mutex // guards by
	by map[string]struct{}
}

// hold marks a delivery as being worked on; false means that it is already.
// release MUST follow a true.
func (h *inHand) hold(delivery string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.by[delivery]; ok {
		return false
	}
	if h.by == nil {
		h.by = map[string]struct{}{}
	}
	h.by[delivery] = struct{}{}
	return true
}

func (h *inHand) release(delivery string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.by, delivery)
}
