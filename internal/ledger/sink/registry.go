package sink

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// registryBound bounds one look at the registry.
const registryBound = 30 * time.Second

// watchRegistry compares the registry with the ledger, for as long as this sink
// writes: only here both are known. What cannot be asked now is asked again later;
// the figure stays as it was last seen.
func (s *Sink) watchRegistry(ctx context.Context) {
	if s.o.LostEndpoints == nil {
		return
	}
	defer s.metrics.lost.Set(0) // another sink says it now, or nobody knows
	t := time.NewTicker(s.o.RegistryEvery)
	defer t.Stop()
	for last := 0; ; {
		bounded, cancel := context.WithTimeout(ctx, registryBound)
		lost, err := s.o.LostEndpoints(bounded, s.js)
		cancel()
		if err == nil {
			s.metrics.lost.Set(float64(len(lost)))
			if len(lost) > 0 && len(lost) != last {
				s.o.Log.Error().Int("endpoints", len(lost)).Str("endpoint_id", lost[0]).Msg(logevent.RegistryEndpointsLost)
			}
			last = len(lost)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
