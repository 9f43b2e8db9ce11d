package stage_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/jetstream/stage"
)

const (
	// said is the stream of statements of these tests. It forgets ids soon.
	said       = "SAID"
	saidWindow = 500 * time.Millisecond
	// stall is longer than the client waits for messages that it asked for.
	stall = 1300 * time.Millisecond
)

// staller passes bytes on between a client and a server. What the client asks
// for arrives late, when one of its requests is chosen.
type staller struct {
	address string
	nth     atomic.Int64 // the request for messages that is held up; 0: none
	seen    atomic.Int64 // requests for messages
	held    atomic.Int64 // of them, those that were held up
}

func newStaller(t *testing.T, server string) *staller {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	s := &staller{address: "nats://" + listener.Addr().String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", strings.TrimPrefix(server, "nats://"))
			if err != nil {
				_ = client.Close()
				return
			}
			go func() { _, _ = io.Copy(client, upstream); _ = client.Close() }()
			go func() { s.pass(upstream, client); _ = upstream.Close() }()
		}
	}()
	return s
}

// pass copies what the client sends, and holds it up at the chosen request.
func (s *staller) pass(to io.Writer, from io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			for range bytes.Count(buf[:n], []byte("CONSUMER.MSG.NEXT")) {
				if s.seen.Add(1) == s.nth.Load() {
					s.held.Add(1)
					<-time.After(stall)
				}
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// journal is what a stage that starts has: nothing read yet.
func journal(t *testing.T, js jetstream.JetStream) *stage.Journal {
	t.Helper()
	pub, err := stage.NewPublisher(js.Conn(), zerolog.Nop())
	must(t, err)
	j, err := stage.OpenJournal(t.Context(), js, pub, said)
	must(t, err)
	return j
}

func statement(id, word string) *nats.Msg {
	return &nats.Msg{Subject: "said.a", Header: nats.Header{nats.MsgIdHdr: {id}}, Data: []byte(word)}
}

// statements stores n of them under the ids 0, 1, 2 …, waits until the stream has
// forgotten the ids, and returns when the first was stored.
func (r *rig) statements(n int) time.Time {
	r.t.Helper()
	s, err := r.js.CreateStream(r.t.Context(), jetstream.StreamConfig{Name: said, Subjects: []string{"said.>"},
		Duplicates: saidWindow})
	must(r.t, err)
	for i := range n {
		_, err := r.js.PublishMsgAsync(statement(fmt.Sprint(i), "first"))
		must(r.t, err)
	}
	select {
	case <-r.js.PublishAsyncComplete():
	case <-time.After(patience):
		r.t.Fatal("the statements were not stored")
	}
	info, err := s.Info(r.t.Context())
	must(r.t, err)
	first := info.State.FirstTime
	r.forgets(info.State.LastTime)
	return first
}

// forgets stores other things until the stream has forgotten what it stored until
// a time: it looks for what to forget when it stores.
func (r *rig) forgets(until time.Time) {
	r.t.Helper()
	for n := 0; ; n++ {
		_, err := r.js.PublishMsg(r.t.Context(), &nats.Msg{Subject: "said.other",
			Header: nats.Header{nats.MsgIdHdr: {fmt.Sprint("other-", until.UnixNano(), n)}}})
		must(r.t, err)
		s, err := r.js.Stream(r.t.Context(), said)
		must(r.t, err)
		if s.CachedInfo().State.LastTime.Sub(until) > 2*saidWindow {
			return
		}
		<-time.After(saidWindow / 5)
	}
}

// A client that waits for messages gives up after a second without an error. A
// server that was slow is not one that has nothing, whichever request it was slow to.
func TestAServerThatStallsDuringASearchHasNotForgotten(t *testing.T) {
	r := newRig(t)
	first := r.statements(3000)
	proxy := newStaller(t, r.server.URL)
	nc, err := nats.Connect(proxy.address, nats.MaxReconnects(-1))
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	for try := range 3 {
		proxy.seen.Store(0)
		proxy.held.Store(0)
		proxy.nth.Store(int64(1 + try%3)) // of three or four that a search makes
		id := fmt.Sprint(2999 - try)
		stands, mine, err := journal(t, js).PutFirst(t.Context(), statement(id, "second"), first)
		if err != nil || mine || string(stands) != "first" || proxy.held.Load() != 1 {
			t.Errorf("request %d was held up: %q stands, mine %v: %v (%d were held up)", 1+try, stands, mine, err,
				proxy.held.Load())
		}
	}
}

// The same with the whole server standing still, wherever the search is.
func TestAServerThatStandsStillDuringASearchHasNotForgotten(t *testing.T) {
	r := newRig(t)
	first := r.statements(3000)
	js := r.server.JetStream()
	for try := range 3 {
		j := journal(t, js)
		thawed := make(chan struct{})
		begun := make(chan struct{})
		go func() {
			defer close(thawed)
			<-begun
			<-time.After(time.Duration(try) * 4 * time.Millisecond)
			r.server.Freeze()
			<-time.After(stall)
			r.server.Thaw()
		}()
		close(begun)
		stands, mine, err := j.PutFirst(t.Context(), statement(fmt.Sprint(try), "second"), first)
		if err != nil || mine || string(stands) != "first" {
			t.Errorf("try %d: %q stands, mine %v: %v", try, stands, mine, err)
		}
		<-thawed
	}
}

// A search that cannot be completed is an error, and not the absence of what it
// searches; what follows it finds.
func TestASearchThatIsCutShortIsAnError(t *testing.T) {
	r := newRig(t)
	first := r.statements(3000)
	j := journal(t, r.server.JetStream())
	r.server.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), stall)
	defer cancel()
	stands, mine, err := j.PutFirst(ctx, statement("7", "second"), first)
	r.server.Thaw()
	if err == nil {
		t.Errorf("%q stands, mine %v", stands, mine)
	}
	if stands, mine, err = j.PutFirst(t.Context(), statement("7", "second"), first); err != nil || mine ||
		string(stands) != "first" {
		t.Errorf("%q stands, mine %v: %v", stands, mine, err)
	}
}

// What a process stored longer ago than the stream remembers, and was told too
// late that it had, stands once; so does what somebody else stored meanwhile.
func TestAStatementThatTakesTooLongToStoreIsSearchedFor(t *testing.T) {
	r := newRig(t)
	r.statements(1)
	j := journal(t, r.server.JetStream())
	since := time.Now()
	_, err := r.js.PublishMsg(t.Context(), statement("slow", "first")) // by somebody else, who is gone
	must(t, err)
	r.server.Freeze()
	thaw := time.AfterFunc(3*saidWindow, r.server.Thaw) // when the stream may have forgotten it
	defer thaw.Stop()
	stands, mine, err := j.PutFirst(t.Context(), statement("slow", "second"), since)
	if err != nil || mine || string(stands) != "first" {
		t.Errorf("%q stands, mine %v: %v", stands, mine, err)
	}
}
