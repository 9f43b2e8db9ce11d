package endpointhealth

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/test/testkit"
)

// lateAnswers is a bucket whose answer to a write comes after what somebody
// else did next has been heard.
type lateAnswers struct {
	jetstream.KeyValue
	before func(revision uint64)
}

func (l lateAnswers) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64,
	error) {
	revision, err := l.KeyValue.Create(ctx, key, value, opts...)
	if err == nil {
		l.before(revision)
	}
	return revision, err
}

// A success elsewhere clears what failed before. An answer that comes late must
// not bring it back: nothing that failed later could be stored any more.
func TestAnAnswerThatComesAfterASuccessElsewhereIsOutOfDate(t *testing.T) {
	server := testkit.NATS(t)
	js := server.JetStream()
	store, err := registry.OpenStore(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := New(t.Context(), Options{JS: js, Store: store, Log: zerolog.Nop(), Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	const id = "ep_1"
	bucket, cleared := tr.kv, false
	wait := time.NewTicker(time.Millisecond)
	defer wait.Stop()
	until := func(what string, cond func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !cond(); <-wait.C {
			if time.Now().After(deadline) {
				t.Error("it did not happen: " + what)
				return
			}
		}
	}
	tr.kv = lateAnswers{bucket, func(revision uint64) {
		if cleared {
			return
		}
		cleared = true
		if err := bucket.Delete(t.Context(), id, jetstream.LastRevision(revision)); err != nil {
			t.Error(err)
		}
		until("the deletion is heard of", func() bool {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			return tr.failing[id].heard > revision
		})
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = tr.Run(ctx) }()
	defer func() { cancel(); <-done }()
	e := &registry.Endpoint{ID: id, Tenant: "default", DisableAfter: time.Hour, Meta: revision.Meta{Revision: 1}}
	tr.Observe(e, false)
	until("a failure after the success is stored", func() bool {
		tr.Observe(e, false)
		kv, err := bucket.Get(t.Context(), id)
		return err == nil && kv.Revision() > 2
	})
}
