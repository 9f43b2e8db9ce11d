package escalation

// Scope is what an incident is about, so that whoever acknowledges it takes
// what they saw and nothing else.
type Scope string

const (
	// OneEndpoint is the dead letters of the endpoint of its first problem.
	OneEndpoint Scope = "endpoint"
	// ManyEndpoints is the dead letters of all endpoints that have no incident
	// of their own: so many fail at once that one message is better.
	ManyEndpoints Scope = "endpoints"
	// NoEndpoint is what concerns no endpoint: rejected events and alarms.
	NoEndpoint Scope = "tenant"
)

// MaxOwn is how many endpoints of a tenant have an incident of their own at
// once. When more fail, the cause is rarely with each of them, and a person can
// read five messages: the others are one incident together.
const MaxOwn = 5

// scope is that of the incident that a problem begins on its own.
func (t Problem) scope() Scope {
	if t.EndpointID == "" {
		return NoEndpoint
	}
	return OneEndpoint
}

// About is the scope of an incident, and the endpoint of one that is about an
// endpoint. Incidents that were stored before they had a scope are read by what
// they count; "" is one that mixes, which nothing joins any more.
func (i *Incident) About() (Scope, string) {
	switch {
	case i.Scope == OneEndpoint:
		return i.Scope, i.First.EndpointID
	case i.Scope != "":
		return i.Scope, ""
	case len(i.Endpoints) == 0:
		return NoEndpoint, ""
	case len(i.Endpoints) == 1 && i.Endpoints[i.First.EndpointID] == i.Count:
		return OneEndpoint, i.First.EndpointID
	}
	return "", ""
}

// Front decides which incident of a tenant under a policy a problem belongs to,
// by the endpoints that have an open one of their own. The zero value is ready.
type Front struct {
	Own  map[string]bool // endpoints
	Many bool            // the incident of all others is open
}

// Place gives the scope of the incident for a problem, and notes that it is open.
// While the incident of the many is open, everybody without one of their own
// joins it: a person hears of an endpoint in one place.
func (f *Front) Place(t Problem) Scope {
	switch {
	case t.EndpointID == "":
		return NoEndpoint
	case f.Own[t.EndpointID]:
		return OneEndpoint
	case f.Many || len(f.Own) >= MaxOwn:
		f.Many = true
		return ManyEndpoints
	}
	f.Open(OneEndpoint, t.EndpointID)
	return OneEndpoint
}

// Open notes that an incident is open.
func (f *Front) Open(s Scope, endpoint string) {
	switch s {
	case OneEndpoint:
		if f.Own == nil {
			f.Own = map[string]bool{}
		}
		f.Own[endpoint] = true
	case ManyEndpoints:
		f.Many = true
	}
}

// Close notes that an incident is over.
func (f *Front) Close(s Scope, endpoint string) {
	switch s {
	case OneEndpoint:
		delete(f.Own, endpoint)
	case ManyEndpoints:
		f.Many = false
	}
}
