package registry

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
)

// allocated is how many bytes work takes from the heap.
func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func endpointOf(tenant string, n int) *Endpoint {
	return &Endpoint{ID: fmt.Sprintf("ep_%026d", n), Tenant: tenant, State: Enabled, Types: []string{"order.*"},
		Meta: revision.Meta{Revision: 1}}
}

// One change may cost some hundred bytes of bookkeeping. What it MUST NOT cost
// grows with what is there: a copy of 50,000 pointers is 400,000 bytes.
const perChange = 4096

func TestAChangeOfOneEndpointCostsNoMoreAmongFiftyThousand(t *testing.T) {
	const many, tenants, changes = 50_000, 10_000, 5_000
	for name, tenantOf := range map[string]func(int) string{
		"of one tenant":     func(int) string { return "t" },
		"of 10,000 tenants": func(n int) string { return fmt.Sprintf("t%d", n%tenants) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newEndpointState()
			all := make([]*Endpoint, many)
			for i := range all {
				all[i] = endpointOf(tenantOf(i), i)
				s.Apply(all[i].ID, nil, all[i])
			}
			cost := allocated(func() {
				for n := range changes {
					i := n * 7919 % many // anywhere, and each once
					is := *all[i]
					is.Revision, is.State = 2, []State{Enabled, Disabled}[n%2]
					s.Apply(is.ID, all[i], &is)
					all[i] = &is
				}
			})
			if cost > changes*perChange {
				t.Errorf("%d bytes for a change", cost/changes)
			}
			if got, want := s.enabled.Load(), int64(many-changes/2); got != want {
				t.Errorf("%d are enabled, want %d", got, want)
			}
			matched := 0
			for i := range tenants {
				if name == "of one tenant" && i > 0 {
					break
				}
				matched += len(s.enabledOf.match(tenantOf(i), "order.paid"))
			}
			if matched != many-changes/2 {
				t.Errorf("%d match, want %d", matched, many-changes/2)
			}
		})
	}
}

func TestAChangeOfOneEventTypeCostsNoMoreAmongFiveThousand(t *testing.T) {
	const many, changes = 5_000, 2_000
	s := newEventTypeState()
	all := make([]*EventType, many)
	for i := range all {
		all[i] = &EventType{Tenant: "t", Pattern: fmt.Sprintf("order.%05d.*", i), Meta: revision.Meta{Revision: 1}}
		s.Apply("", nil, all[i])
	}
	cost := allocated(func() {
		for n := range changes {
			i := n * 797 % many
			is := *all[i]
			is.Revision, is.Deleted = 2, n%2 == 1
			s.Apply("", all[i], &is)
			all[i] = &is
		}
	})
	if cost > changes*perChange {
		t.Errorf("%d bytes for a change", cost/changes)
	}
	for i, e := range all {
		if got := s.byTenant.match("t", fmt.Sprintf("order.%05d.x", i)); (len(got) == 1) == e.Deleted || len(got) == 1 &&
			got[0] != e {
			t.Fatalf("type %d, %+v: %v match", i, e, got)
		}
	}
}

func TestAChangeOfOneTenantMakesNobodyElseLookAgain(t *testing.T) {
	const tenants = 10_000
	s := newEndpointState()
	for i := range tenants {
		e := endpointOf(fmt.Sprintf("t%d", i), i)
		s.Apply(e.ID, nil, e)
		s.enabledOf.match(e.Tenant, "order.paid")
	}
	before := s.enabledOf.looked.Load()
	for i := range tenants {
		e := endpointOf("t0", tenants+i)
		s.Apply(e.ID, nil, e)
		if got := s.enabledOf.match(fmt.Sprintf("t%d", max(i, 1)), "order.paid"); len(got) != 1 {
			t.Fatalf("%d match", len(got))
		}
	}
	if looked := s.enabledOf.looked.Load() - before; looked != 0 {
		t.Errorf("%d endpoints were compared again", looked)
	}
	if got := s.enabledOf.match("t0", "order.paid"); len(got) != tenants+1 {
		t.Errorf("%d of the tenant that changed match", len(got))
	}
}

// Types come from producers: what is kept of them has a bound, and what is not
// kept is answered all the same.
func TestWhatIsKeptOfTypesIsBounded(t *testing.T) {
	s := newEndpointState()
	const endpoints, types = 1000, 3000
	for i := range endpoints {
		e := endpointOf("t", i)
		e.Types = []string{">"}
		s.Apply(e.ID, nil, e)
	}
	other := endpointOf("other", endpoints)
	s.Apply(other.ID, nil, other)
	s.enabledOf.match("other", "order.paid")
	for i := range types {
		if got := s.enabledOf.match("t", fmt.Sprintf("a.b%d", i)); len(got) != endpoints {
			t.Fatalf("%d match", len(got))
		}
	}
	if kept := s.enabledOf.cached.Load(); kept > maxCached || kept < endpoints {
		t.Errorf("%d are kept, at most %d", kept, maxCached)
	}
	before := s.enabledOf.looked.Load()
	s.enabledOf.match("other", "order.paid")
	if s.enabledOf.looked.Load() != before {
		t.Error("another tenant lost what was kept for it")
	}
}

func TestAnEndpointIsOwedNothingWhileDisabledAndKeepsItsPlaceAmongThoseThatKeepOrder(t *testing.T) {
	s := newEndpointState()
	e := endpointOf("t", 1)
	e.Ordering = FIFO
	s.Apply(e.ID, nil, e)
	off := *e
	off.State = Disabled
	s.Apply(e.ID, e, &off)
	if len(s.enabledOf.match("t", "order.paid")) != 0 || s.enabled.Load() != 0 || len(*s.fifo.Load()) != 1 ||
		(*s.fifo.Load())[0].State != Disabled {
		t.Errorf("disabled: %d enabled, %d keep order", s.enabled.Load(), len(*s.fifo.Load()))
	}
	moved := *e
	moved.Tenant = "u"
	s.Apply(e.ID, &off, &moved)
	back := moved
	back.Tenant = "t"
	s.Apply(e.ID, &moved, &back)
	if got := s.enabledOf.match("t", "order.paid"); len(got) != 1 || got[0] != &back ||
		len(s.enabledOf.match("u", "order.paid")) != 0 {
		t.Errorf("moved there and back: %v", got)
	}
	s.Apply(e.ID, &back, nil)
	if _, ok := s.byID.Load(e.ID); ok || len(*s.fifo.Load()) != 0 || s.enabled.Load() != 0 ||
		len(s.enabledOf.match("t", "order.paid")) != 0 {
		t.Error("it is not gone")
	}
}
