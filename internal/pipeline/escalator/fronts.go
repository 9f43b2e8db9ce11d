package escalator

import (
	"fmt"

	"github.com/waybill-dev/waybill/internal/notify/escalation"
)

// front of a tenant under a policy. mu is held.
func (s *session) front(tenant string, p escalation.Policy) *front {
	name := fmt.Sprintf("%s %s %d", tenant, p.Name, p.Revision)
	f := s.fronts[name]
	if f == nil {
		f = &front{own: map[string]*group{}}
		f.many = &group{front: f, scope: escalation.ManyEndpoints}
		f.rest = &group{front: f, scope: escalation.NoEndpoint}
		s.fronts[name] = f
	}
	return f
}

func (f *front) group(scope escalation.Scope, endpoint string) *group {
	switch scope {
	case escalation.ManyEndpoints:
		return f.many
	case escalation.NoEndpoint:
		return f.rest
	}
	g := f.own[endpoint]
	if g == nil {
		g = &group{front: f, scope: escalation.OneEndpoint, endpoint: endpoint}
		f.own[endpoint] = g
	}
	return g
}

// groupFor is the group that a problem belongs to now.
func (s *session) groupFor(t escalation.Problem, p escalation.Policy) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.front(t.Tenant, p)
	return f.group(f.Place(t), t.EndpointID)
}

// groupOf is the group of an incident that is stored.
func (s *session) groupOf(doc *escalation.Incident) *group {
	scope, endpoint := doc.About()
	if scope == "" {
		return &group{} // it ends as it is
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.front(doc.Tenant, doc.Policy).group(scope, endpoint)
}

// open notes that a group has an open incident; its gate is held alone.
func (s *session) open(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.front != nil {
		g.front.Open(g.scope, g.endpoint)
	}
}

// close notes that a group has none; its gate is held alone.
func (s *session) close(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.front != nil {
		g.front.Close(g.scope, g.endpoint)
	}
}
