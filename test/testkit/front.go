package testkit

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/pipeline/ingest"
)

// Front runs an ingest, so that what a test publishes to events.> is taken, and
// returns once it listens. It ends with the test.
func (s *Server) Front() *Running {
	s.t.Helper()
	stage, err := ingest.New(ingest.Options{NC: s.Connect(), Metrics: prometheus.NewRegistry(),
		DrainTimeout: 5 * time.Second})
	if err != nil {
		s.t.Fatal(err)
	}
	running := Start(s.t, stage.Run)
	select {
	case <-stage.Listening():
	case <-time.After(patience):
		s.t.Fatal("ingest does not listen to NATS")
	}
	return running
}
