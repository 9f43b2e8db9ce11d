package testkit

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit/loopback"
)

// Cluster is three NATS servers that hold each stream together.
type Cluster struct {
	Servers []*Server

	t testing.TB
}

// NATSCluster starts three servers with JetStream, and the streams of this
// version applied with three replicas (one partition). It ends with the test.
func NATSCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	var routes []string
	for range 3 {
		routes = append(routes, "nats://"+loopback.Address(t))
	}
	dir := t.TempDir()
	for i, route := range routes {
		name := fmt.Sprintf("n%d", i+1)
		s := &Server{t: t, addr: loopback.Address(t), Dir: filepath.Join(dir, name),
			more: []string{"-server_name", name, "-cluster_name", "test", "-cluster", route, "-routes",
				strings.Join(routes, ",")}}
		t.Cleanup(s.end)
		s.start()
		c.Servers = append(c.Servers, s)
	}
	js := c.JetStream()
	// Until a leader of all is elected, requests get no answer at all.
	c.until("a leader is elected", 2*time.Second,
		func(ctx context.Context) error { _, err := js.AccountInfo(ctx); return err })
	c.until("the streams are applied", startTimeout, func(ctx context.Context) error {
		_, err := streams.Apply(ctx, js, streams.Options{Partitions: 1, Replicas: 3})
		return err
	})
	return c
}

// until repeats a try, each within a bound, until it succeeds.
func (c *Cluster) until(what string, bound time.Duration, try func(context.Context) error) {
	c.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * startTimeout); ; <-tick.C {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		err := try(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: %v", what, err)
		}
	}
}

// URL names all servers.
func (c *Cluster) URL() string {
	var urls []string
	for _, s := range c.Servers {
		urls = append(urls, s.URL)
	}
	return strings.Join(urls, ",")
}

// Connect opens a connection to whichever server answers, closed with the test.
func (c *Cluster) Connect() *nats.Conn {
	c.t.Helper()
	nc, err := nats.Connect(c.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.RetryOnFailedConnect(true),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		c.t.Fatalf("connecting to %s: %v", c.URL(), err)
	}
	c.t.Cleanup(nc.Close)
	return nc
}

// JetStream is a client on a connection of its own.
func (c *Cluster) JetStream() jetstream.JetStream {
	c.t.Helper()
	js, err := jetstream.New(c.Connect())
	if err != nil {
		c.t.Fatal(err)
	}
	return js
}
