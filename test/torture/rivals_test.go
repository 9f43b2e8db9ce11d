package torture_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit/invariants"
)

// rivalTenant has no endpoints, and uses the ids of the other one.
const rivalTenant = "rival"

// rivalPrefix begins each contested id.
const rivalPrefix = "rival-"

// contend publishes different events under one id at once, until ctx ends: over
// HTTP, over NATS, and past every door into EVENTS, as two ingests do that take an
// id at the same moment; and again under the same id in another tenant.
func (l *load) contend(ctx context.Context, t *testing.T, every time.Duration) {
	nc, err := nats.Connect("nats://"+l.s.producers.addr(), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond),
		nats.RetryOnFailedConnect(true), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Error(err)
		return
	}
	for n := range ticks(ctx, every) {
		id, eventType := fmt.Sprint(rivalPrefix, n), eventTypes[n%len(eventTypes)]
		var all sync.WaitGroup
		publish := func(one func() error) { all.Go(func() { l.untilStored(one) }) }
		publish(func() error { return l.offerHTTP(id, envelopeOf(id, eventType, 4*n)) })
		publish(func() error { return offerNATS(js, id, eventType, envelopeOf(id, eventType, 4*n+1)) })
		for i := range 2 {
			publish(func() error { return l.lay(tenant, eventType, envelopeOf(id, eventType, 4*n+2+i)) })
			publish(func() error { return l.lay(rivalTenant, eventType, envelopeOf(id, eventType, 4*n+2+i)) })
		}
		all.Wait()
		l.mu.Lock()
		l.contested = append(l.contested, invariants.Contested{Tenant: tenant, ID: id},
			invariants.Contested{Tenant: rivalTenant, ID: id})
		l.mu.Unlock()
	}
}

// offerHTTP publishes through ingest. That the id is in use is an answer as good.
func (l *load) offerHTTP(id string, event []byte) error {
	client := &http.Client{Timeout: 4 * time.Second}
	res, err := client.Post("http://"+l.s.http+"/v1/events?tenant="+tenant, "application/json", bytes.NewReader(event))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 == 2 || res.StatusCode == http.StatusConflict {
		return nil
	}
	return fmt.Errorf("%s: status %d", id, res.StatusCode)
}

func offerNATS(js jetstream.JetStream, id, eventType string, event []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	m := nats.NewMsg(streams.EventSubject(tenant, eventType))
	m.Header.Set(jetstream.MsgIDHeader, id)
	m.Data = event
	_, err := js.PublishMsg(ctx, m)
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code < 500 {
		return nil // the id is in use
	}
	return err
}

// lay puts an event into EVENTS itself.
func (l *load) lay(tenant, eventType string, event []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := l.s.js.Publish(ctx, streams.IngestSubject(streams.EventSubject(tenant, eventType)), event)
	return err
}
