package registry_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/test/testkit"
)

// BenchmarkOpen is what an attempt pays for its endpoint's secrets: as a view
// gives it, opened once a revision, and if it were opened each time.
func BenchmarkOpen(b *testing.B) {
	server, ring := testkit.NATS(b), testkit.Keys(b)
	store, err := registry.OpenStore(b.Context(), server.JetStream())
	if err != nil {
		b.Fatal(err)
	}
	k, err := envelope.GenerateHMAC(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	pair := testkit.NewCA(b, "ours").Client("c", time.Now().Add(time.Hour))
	e := registry.Endpoint{ID: ids.New(ids.Endpoint, time.Now()), Tenant: "default", URL: "https://example.com/",
		Types: []string{">"},
		State: registry.Enabled, Scheme: envelope.SchemeHMAC, Timeout: time.Second, MaxInFlight: 1}
	e.Secrets = []registry.Secret{e.SealSecret(ring, k)}
	if err := e.SetClientCertificate(ring, pair.Cert, pair.Key, time.Now()); err != nil {
		b.Fatal(err)
	}
	if e, err = store.Create(b.Context(), e, "test"); err != nil {
		b.Fatal(err)
	}
	view := registry.NewView(server.JetStream(), zerolog.Nop())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = view.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-done })
	<-view.Ready()
	seen, ok := view.Get(e.ID)
	if !ok {
		b.Fatal("the view lacks the endpoint")
	}
	for name, of := range map[string]*registry.Endpoint{"of a view": seen, "each time": &e} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o, err := of.Open(ring)
				if err != nil {
					b.Fatal(err)
				}
				if keys, err := o.Keys(time.Now()); err != nil || len(keys) != 1 {
					b.Fatal(err)
				}
			}
		})
	}
}
