package stage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/jetstream/stage"
)

// A journal whose stream forgets ids at once finds what stands all the same:
// what was stated before what it has read, after it, and on other subjects; not
// what the stream has lost.
func TestWhatTheStreamHasForgottenStandsAllTheSame(t *testing.T) {
	r := newRig(t)
	const name = "SAID"
	_, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{"said.>"},
		Duplicates: 100 * time.Millisecond})
	must(t, err)
	pub, err := stage.NewPublisher(r.js.Conn(), zerolog.Nop())
	must(t, err)
	j, err := stage.OpenJournal(t.Context(), r.js, pub, name)
	must(t, err)
	// state says a word under an id, and returns what stands.
	state := func(subject, id, word string, since time.Time, also ...string) string {
		t.Helper()
		stands, mine, err := j.PutFirst(t.Context(), &nats.Msg{Subject: subject, Header: nats.Header{nats.MsgIdHdr: {id}},
			Data: []byte(word)}, since, also...)
		must(t, err)
		if mine != (string(stands) == word) {
			t.Errorf("%s: %q stands, mine: %v", id, stands, mine)
		}
		return string(stands)
	}
	lastAt := func() time.Time {
		s, err := r.js.Stream(t.Context(), name)
		must(t, err)
		return s.CachedInfo().State.LastTime
	}
	forget := func() { // the stream looks for what to forget when it stores
		for deadline, id := lastAt().Add(300*time.Millisecond), 0; lastAt().Before(deadline); id++ {
			state("said.other", fmt.Sprintf("probe-%d-%d", deadline.UnixNano(), id), "x", time.Time{})
		}
	}

	var at []time.Time // when each of the first was stated
	for i := range 2500 {
		state("said.a", fmt.Sprint("early-", i), "first", time.Time{})
		at = append(at, lastAt())
	}
	forget()
	for _, i := range []int{2400, 2499, 1200, 0, 1} { // before what is known already, too
		if got := state("said.a", fmt.Sprint("early-", i), "second", at[i]); got != "first" {
			t.Errorf("early-%d: %q stands", i, got)
		}
	}
	state("said.a", "late", "first", time.Time{})
	late := lastAt()
	forget()
	if got := state("said.a", "late", "second", late); got != "first" {
		t.Errorf("what was stated after the last search: %q stands", got)
	}
	if got := state("said.b", "late", "second", late, "said.a"); got != "first" {
		t.Errorf("what was stated on the other subject: %q stands", got)
	}
	state("said.a", "late", "second", time.Time{}) // by somebody who does not ask; the stream takes it
	forget()
	if got := state("said.a", "late", "third", late); got != "first" {
		t.Errorf("what was stated twice: %q stands", got)
	}
	if got := state("said.a", "never", "second", at[0]); got != "second" {
		t.Errorf("what was never stated: %q stands", got)
	}
	s, err := r.js.Stream(t.Context(), name)
	must(t, err)
	must(t, s.Purge(t.Context()))
	if got := state("said.a", "early-7", "second", at[7]); got != "second" {
		t.Errorf("what the stream has lost: %q stands", got)
	}
}
