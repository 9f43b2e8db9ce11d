package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/verify"
)

// TestRandomAttacksAreFound does one to three attacks of any kind at random
// places. Every one must be found, and the first finding about records must not
// lie behind the first record that was touched, except for what narrows no
// further than to its checkpoint.
func TestRandomAttacksAreFound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			s := newSigned(t, 700, sizes()...)
			names, types := s.storedColumns()
			touched := uint64(700)
			var did []string
			for range 1 + rng.IntN(3) {
				at := rng.IntN(690)
				touched = min(touched, uint64(at))
				switch rng.IntN(6) {
				case 0:
					did = append(did, fmt.Sprint("delete ", at))
					s.sql("ALTER TABLE records DELETE WHERE idx = %d SETTINGS mutations_sync = 2", at)
				case 1:
					name := names[4+rng.IntN(len(names)-4)]
					did = append(did, fmt.Sprint("change ", name, " of ", at))
					s.replace(name, flipped(name, types[name]), fmt.Sprintf("idx = %d", at))
				case 2:
					did = append(did, fmt.Sprint("change body of ", at))
					s.replace("body", "concat(body, ' ')", fmt.Sprintf("idx = %d", at))
				case 3:
					other := at + 1 + rng.IntN(690-at)
					did = append(did, fmt.Sprint("swap ", at, " ", other))
					s.replace("idx", fmt.Sprintf("if(idx = %[1]d, %[2]d, %[1]d)", at, other),
						fmt.Sprintf("idx IN (%d, %d)", at, other))
				case 4:
					did = append(did, fmt.Sprint("insert at ", at))
					s.insertLike((at+17)%700, "idx", fmt.Sprint(at))
				case 5:
					did = append(did, fmt.Sprint("rewrite from ", at))
					s.rewrite(at, 700, rng.IntN(2) == 0)
				}
			}
			r := s.verify(s.withStream)
			f := first(r)
			if r.Good || f == nil {
				t.Fatalf("%q were not found: %+v", did, r)
			}
			if f.First > touched {
				t.Errorf("%q: the first finding is %+v", did, f)
			}
		})
	}
}

func TestAnInterruptedRunGoesOn(t *testing.T) {
	t.Parallel()
	s := newSigned(t, 700, sizes()...)
	s.update("records", "status = 500", "idx = 5")
	want := s.verify()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var kept []byte
	stop := &stopping{Verified: &ledger.Verified{DB: s.db}, cancel: cancel}
	o := verify.Options{Now: s.now, Name: "test", Keys: keysOf(s), Workers: 1, ChunkRecords: 256,
		Save: func(st verify.State) error {
			b, err := st.Encode()
			kept = b
			return err
		}}
	if _, err := verify.Run(ctx, stop, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	st, err := verify.ParseState(kept)
	if err != nil || st.Next != 256 {
		t.Fatalf("state %s: %v", kept, err)
	}
	o.Resume = &st
	got, err := verify.Run(context.Background(), &ledger.Verified{DB: s.db}, o)
	if err != nil || got.ResumedAt != 256 {
		t.Fatalf("resumed at %d: %v", got.ResumedAt, err)
	}
	got.ResumedAt, got.Seconds, want.Seconds = 0, 0, 0
	if a, b := asJSON(t, got), asJSON(t, want); a != b {
		t.Errorf("resumed: %s\nat once: %s", a, b)
	}
	// Of other checkpoints than then, the state says nothing.
	o.Keys = nil
	if got, err = verify.Run(context.Background(), &ledger.Verified{DB: s.db}, o); err != nil || got.ResumedAt != 0 ||
		got.Read != 700 {
		t.Errorf("with other keys: resumed at %d, %v", got.ResumedAt, err)
	}
}

// stopping is interrupted when the second chunk is asked for.
type stopping struct {
	*ledger.Verified
	cancel func()
}

func (s *stopping) Open(ctx context.Context) (verify.ChunkReader, error) {
	r, err := s.Verified.Open(ctx)
	return &stoppingReader{r, s.cancel}, err
}

type stoppingReader struct {
	verify.ChunkReader
	cancel func()
}

func (s *stoppingReader) Chunk(ctx context.Context, first, end uint64) (verify.Chunk, error) {
	if first > 0 {
		s.cancel()
		<-ctx.Done()
		return verify.Chunk{}, ctx.Err()
	}
	return s.ChunkReader.Chunk(ctx, first, end)
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRetiredRecordsAreNotMissing(t *testing.T) {
	t.Parallel()
	retired := record.Record{ID: "operator.action/retired/1", Kind: record.OperatorAction, Tenant: "default",
		Action: record.ActionRetired, Actor: "ann",
		Reason: "retention is over", Settings: record.Retirement{ID: "ret_1", Month: 202610, Parts: 1, Part: 1,
			Ranges: []record.IdxRange{{First: 0, Last: 255}}}.Settings()}
	for name, c := range map[string]struct {
		where string
		want  string
	}{
		"what was retired":        {"idx < 256", ""},
		"one more than that":      {"idx <= 256", "record_missing"},
		"the record that says so": {"idx < 256 OR idx = 600", "record_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSignedWith(t, 700, map[int]record.Record{600: retired}, sizes()...)
			s.sql("ALTER TABLE records DELETE WHERE %s SETTINGS mutations_sync = 2", c.where)
			r := s.verify()
			if r.Codes() != c.want {
				t.Errorf("got %+v", r)
			}
			if c.want == "" && (!r.Good || len(r.Retired) != 1 || r.Retired[0].By != "ann" || r.Retired[0].First != 0 ||
				r.Retired[0].Last != 255 || r.Retired[0].At.IsZero()) {
				t.Errorf("got %+v", r.Retired)
			}
			if c.want == "" { // LEDGER may hold for a while what was retired
				if r := s.verify(s.withStream); !r.Good {
					t.Errorf("with LEDGER: %+v", r)
				}
			}
		})
	}
	// A forged retirement is no excuse: nothing that is signed says it.
	s := newSigned(t, 700, sizes()...)
	forged := retired
	forged.At = start.Add(700 * time.Second)
	f := row(t, 700, forged)
	f.StreamEpoch = epoch
	s.must(s.db.Append(context.Background(), []ledger.Row{f}))
	s.sql("ALTER TABLE records DELETE WHERE idx < 256 SETTINGS mutations_sync = 2")
	if r := s.verify(); r.Good || !strings.Contains(r.Codes(), "record_missing") {
		t.Errorf("a forged retirement was believed: %+v", r)
	}
}
