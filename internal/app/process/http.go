package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// Listen opens a TCP listener. flag names the setting in the error of a taken port.
func Listen(flag, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l, nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("address %s is already in use by another process; choose another with --%s", addr, flag)
	}
	return nil, fmt.Errorf("cannot listen on %q: %w; choose another with --%s", addr, err, flag)
}

// Health collects the checks behind /readyz.
type Health struct {
	mu     sync.Mutex
	checks map[string]func(context.Context) error
	notes  map[string]func() string
}

// AddNote registers what /readyz says besides: what people should know though
// the process works. "" means that there is nothing to say.
func (h *Health) AddNote(name string, note func() string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.notes == nil {
		h.notes = map[string]func() string{}
	}
	h.notes[name] = note
}

// Notes returns what there is to say, a line each.
func (h *Health) Notes() []string {
	h.mu.Lock()
	notes := maps.Clone(h.notes)
	h.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(notes)) {
		if text := notes[name](); text != "" {
			out = append(out, name+": "+text)
		}
	}
	return out
}

// Add registers a check; ready means that every check returns nil.
func (h *Health) Add(name string, check func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.checks == nil {
		h.checks = map[string]func(context.Context) error{}
	}
	h.checks[name] = check
}

func (h *Health) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.checks))
}

// Failures returns what is not ready, by name.
func (h *Health) Failures(ctx context.Context) map[string]string {
	h.mu.Lock()
	checks := maps.Clone(h.checks)
	h.mu.Unlock()
	failures := map[string]string{}
	for name, check := range checks {
		if err := check(ctx); err != nil {
			failures[name] = err.Error()
		}
	}
	return failures
}

// readyBound keeps a probe from hanging on a dependency that does not answer.
const readyBound = 2 * time.Second

// Routes adds /healthz (the process is alive), /readyz (it can work) and
// /metrics to mux.
func Routes(mux *http.ServeMux, health *Health, metrics *prometheus.Registry) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyBound)
		defer cancel()
		failures := health.Failures(ctx)
		if len(failures) == 0 {
			fmt.Fprintln(w, "ready")
		} else {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		for _, note := range health.Notes() {
			fmt.Fprintln(w, note)
		}
		for name, why := range failures {
			fmt.Fprintf(w, "%s: %s\n", name, why)
		}
	})
	metrics.MustRegister(newReadiness(health))
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler,
		// A client that sends its header or body a byte at a time MUST NOT hold a connection for ever.
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       60 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
}

func shutdown(ctx context.Context, s *http.Server) error {
	if err := s.Shutdown(ctx); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// ServeUntil answers on l until ctx ends; then the requests in hand get at
// most bound. An error before ctx ends means that nobody listens any more.
func ServeUntil(ctx context.Context, l net.Listener, handler http.Handler, bound time.Duration) error {
	s := newServer(handler)
	failed := make(chan error, 1)
	go func() { failed <- serveBounded(s, l, MostConnections()) }()
	select {
	case err := <-failed:
		return fmt.Errorf("http %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	return shutdown(limit, s)
}

// Serve answers on l until the cleanup stack stops it.
func Serve(l net.Listener, handler http.Handler, cleanup *Cleanup, log zerolog.Logger) {
	s := newServer(handler)
	go func() {
		if err := serveBounded(s, l, MostConnections()); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error().Err(err).Str("addr", l.Addr().String()).Msg(logevent.HTTPFailed)
		}
	}()
	cleanup.Push("http "+l.Addr().String(), 10*time.Second, func(ctx context.Context) error { return shutdown(ctx, s) })
}
