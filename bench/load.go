package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/streams"
)

// endpoints creates the endpoints and returns the numbers of those watched.
func (s scenario) endpoints(w *waybill, receiver string) (map[uint32]bool, error) {
	watched, n := map[uint32]bool{}, 0
	for _, g := range s.Groups {
		for range g.N {
			n++
			url := fmt.Sprintf("http://%s/%s/%d", receiver, g.Path, n)
			if g.Path == "down" {
				url = fmt.Sprintf("http://127.0.0.1:1/%d", n)
			}
			spec := map[string]any{"tenant": "default", "url": url, "types": []string{loadType}}
			for k, v := range g.Spec {
				spec[k] = v
			}
			if err := w.endpoint(spec); err != nil {
				return nil, err
			}
			if g.Watch {
				watched[uint32(n)] = true
			}
		}
	}
	return watched, nil
}

// warmUp sends a few events, so that connections and code are warm, and forgets them.
func warmUp(ctx context.Context, w *waybill, receiver string, watched map[uint32]bool) error {
	const n = 20
	for i := range n {
		if _, err := w.js.PublishMsg(ctx, event("warm-"+strconv.Itoa(i), loadType)); err != nil {
			return err
		}
	}
	_, err := collect(ctx, receiver, watched, n*len(watched), 30*time.Second)
	return err
}

func event(id, eventType string) *nats.Msg {
	pad := strings.Repeat("x", payloadBytes-130)
	return &nats.Msg{Subject: streams.EventSubject("default", eventType), Header: nats.Header{nats.MsgIdHdr: {id}},
		Data: fmt.Appendf(nil, `{"id":%q,"type":%q,"timestamp":"2026-08-19T15:10:00.000Z","data":{"pad":"%s"}}`, id,
			eventType, pad)}
}

// load publishes the events, in the way the scenario says, and returns when each began.
func (s scenario) load(ctx context.Context, w *waybill, out *result) ([]int64, error) {
	if s.Clients == 0 {
		return s.publish(ctx, w)
	}
	times, took, err := s.post(ctx, w)
	if err == nil {
		slices.Sort(took)
		out.PostP50, out.PostP99 = took[len(took)/2], took[len(took)*99/100]
	}
	return times, err
}

// post publishes the events over HTTP: when each was sent, and how many
// milliseconds its answer took.
func (s scenario) post(ctx context.Context, w *waybill) (times []int64, took []float64, err error) {
	times, took = make([]int64, s.Events), make([]float64, s.Events)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.Clients}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range s.Clients {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= s.Events {
					return nil
				}
				began := time.Now()
				if err := postEvent(ctx, client, w.addresses.HTTP, event(eventPrefix+strconv.Itoa(i), loadType).Data); err != nil {
					return err
				}
				times[i], took[i] = began.UnixNano(), time.Since(began).Seconds()*1000
			}
		})
	}
	return times, took, g.Wait()
}

func postEvent(ctx context.Context, client *http.Client, addr string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/events", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("publishing an event: %s", resp.Status)
	}
	return nil
}

// publish publishes the events over NATS and returns when each was handed to the client.
func (s scenario) publish(ctx context.Context, w *waybill) ([]int64, error) {
	times := make([]int64, s.Events)
	futures := make([]jetstream.PubAckFuture, 0, s.Events)
	begin := time.Now()
	for i := range s.Events {
		if s.Rate > 0 {
			due := begin.Add(time.Duration(float64(i) / s.Rate * float64(time.Second)))
			if d := time.Until(due); d > 0 {
				time.Sleep(d)
			}
		}
		times[i] = time.Now().UnixNano()
		f, err := w.js.PublishMsgAsync(event(eventPrefix+strconv.Itoa(i), loadType), jetstream.WithStallWait(time.Minute))
		if err != nil {
			return nil, err
		}
		futures = append(futures, f)
	}
	for _, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return times, nil
}

// flood publishes what comes beside the load, until the returned function ends it.
func (s scenario) flood(ctx context.Context, w *waybill) (end func() error) {
	loading, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.publishFlood(loading, w) }()
	return func() error { stop(); return <-done }
}

func (s scenario) publishFlood(loading context.Context, w *waybill) error {
	begin := time.Now()
	for i := 0; i < s.Flood || s.FloodRate > 0 && loading.Err() == nil; i++ {
		if s.FloodRate > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(float64(i) / s.FloodRate * float64(time.Second)))))
		}
		if _, err := w.other.PublishMsgAsync(event("flood-"+strconv.Itoa(i), floodType),
			jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	<-w.other.PublishAsyncComplete()
	return nil
}

// pile publishes until as many deliveries wait for a retry.
func (s scenario) pile(ctx context.Context, w *waybill) error {
	receivers := 0
	for _, g := range s.Groups {
		if !g.Watch {
			receivers += g.N
		}
	}
	// One in ten succeeds at once, see the receiver.
	events := s.Pile * 10 / 9 / receivers
	for i := range events {
		if _, err := w.js.PublishMsgAsync(event("pile-"+strconv.Itoa(i), floodType),
			jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	<-w.js.PublishAsyncComplete()
	return w.waiting(ctx, func(n uint64) bool { return n >= uint64(s.Pile)*98/100 })
}

// collect waits until the watched endpoints have accepted n requests, and
// returns the log of them.
func collect(ctx context.Context, receiver string, watched map[uint32]bool, n int, patience time.Duration) ([]entry,
	error) {
	var out []entry
	deadline := time.Now().Add(patience)
	for {
		b, err := get("http://" + receiver + "/log")
		if err != nil {
			return nil, err
		}
		for _, e := range parseLog(b) {
			if watched[e.Endpoint] {
				out = append(out, e)
			}
		}
		if len(out) >= n || time.Now().After(deadline) {
			return out, ctx.Err()
		}
		time.Sleep(50 * time.Millisecond)
	}
}
