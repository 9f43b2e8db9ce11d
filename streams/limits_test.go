package streams_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

func limitOf(t *testing.T, js jetstream.JetStream, stream, key string) streams.Limit {
	t.Helper()
	all, err := streams.Limits(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(l streams.Limit) bool { return l.Stream == stream && l.Key == key })
	if i < 0 {
		t.Fatalf("%s has no limit %s: %v", stream, key, all)
	}
	return all[i]
}

// edit is what `nats stream edit` does.
func edit(t *testing.T, js jetstream.JetStream, stream string, change func(*jetstream.StreamConfig)) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	config := s.CachedInfo().Config
	change(&config)
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

func TestALimitThatTheOperatorSetIsKeptAndIsNoDrift(t *testing.T) {
	js := testkit.BareNATS(t).JetStream()
	o := streams.Options{Partitions: 1}
	if _, err := streams.Apply(t.Context(), js, o); err != nil {
		t.Fatal(err)
	}
	all, err := streams.Limits(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{}
	for i, l := range all {
		if l.Own || l.Value != l.Default {
			t.Errorf("a new stream has %+v", l)
		}
		v := int64(i+3) << 20
		if l.Key == streams.MaxAge {
			v = l.Default + int64(i+1)*1e9*86400
		}
		want[l.Stream+l.Key] = v
		edit(t, js, l.Stream, func(c *jetstream.StreamConfig) {
			if l.Key == streams.MaxAge {
				c.MaxAge = time.Duration(v)
				return
			}
			c.MaxBytes = v
		})
	}
	for _, step := range []string{"checked", "applied", "checked again"} {
		if step == "applied" {
			changes, err := streams.Apply(t.Context(), js, o)
			if err != nil {
				t.Fatal(err)
			}
			kept := 0
			for _, c := range changes {
				if c.Action != "unchanged" {
					t.Errorf("apply %s %s: %v", c.Action, c.Name, c.Differences)
				}
				kept += len(c.Kept)
			}
			if kept != len(all) {
				t.Errorf("%d limits are said to be kept, want %d", kept, len(all))
			}
		} else if err := streams.Check(t.Context(), js, o); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		for _, l := range all {
			if got := limitOf(t, js, l.Stream, l.Key); got.Value != want[l.Stream+l.Key] || !got.Own {
				t.Errorf("%s: %+v; want %d, the operator's", step, got, want[l.Stream+l.Key])
			}
		}
	}
	// What is not the operator's to set is still drift, and is put right without touching a limit.
	edit(t, js, streams.Ledger, func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld })
	if err := streams.Check(t.Context(), js, o); err == nil || !strings.Contains(err.Error(), "discard") ||
		strings.Contains(err.Error(), "max_bytes") {
		t.Errorf("LEDGER that discards what is old: %v", err)
	}
	if _, err := streams.Apply(t.Context(), js, o); err != nil {
		t.Fatal(err)
	}
	if got := limitOf(t, js, streams.Ledger, streams.MaxBytes); got.Value != want[streams.Ledger+streams.MaxBytes] {
		t.Errorf("mending the discard policy set max_bytes to %d", got.Value)
	}
	if err := streams.Check(t.Context(), js, o); err != nil {
		t.Error(err)
	}
}

func TestALimitIsSetAndOneThatDeletesIsRefused(t *testing.T) {
	js := testkit.BareNATS(t).JetStream()
	if _, err := streams.Apply(t.Context(), js, streams.Options{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if got, err := streams.SetLimit(t.Context(), js, streams.Ledger, streams.MaxBytes, 17<<30, false); err != nil ||
		!got.Own || got.Text() != "17 GiB" {
		t.Errorf("%+v, %v", got, err)
	}
	if got := limitOf(t, js, streams.Ledger, streams.MaxBytes); got.Value != 17<<30 {
		t.Errorf("%+v", got)
	}
	if got, err := streams.SetLimit(t.Context(), js, streams.Ledger, streams.MaxBytes, byDefault(t, streams.Ledger),
		false); err != nil || got.Own {
		t.Errorf("back to the default: %+v, %v", got, err)
	}
	if _, err := js.Publish(t.Context(), streams.CheckpointsSubject, []byte(strings.Repeat("x", 1000))); err != nil {
		t.Fatal(err)
	}
	var loses *streams.LosesError
	for key, value := range map[string]int64{streams.MaxBytes: 100, streams.MaxAge: 1e9 * 3600} {
		if _, err := streams.SetLimit(t.Context(), js, streams.Checkpoints, key, value, false); !errors.As(err, &loses) ||
			loses.Limit.Bytes == 0 {
			t.Errorf("%s of %d: %v; want a refusal that says how much is lost", key, value, err)
		}
		if got := limitOf(t, js, streams.Checkpoints, key); got.Own {
			t.Errorf("it was refused and set: %+v", got)
		}
	}
	if got, err := streams.SetLimit(t.Context(), js, streams.Checkpoints, streams.MaxBytes, 100, true); err != nil ||
		!got.Own {
		t.Errorf("100 bytes, meant: %+v, %v", got, err)
	}
	for _, wrong := range [][2]string{{"LEDGER", "max_age"}, {"KV_endpoints", "max_bytes"}, {"NONE", "max_bytes"}} {
		if _, err := streams.SetLimit(t.Context(), js, wrong[0], wrong[1], 1<<30, true); err == nil ||
			!strings.Contains(err.Error(), "LEDGER max_bytes") {
			t.Errorf("%v: %v; want it to list what can be set", wrong, err)
		}
	}
}

func byDefault(t *testing.T, stream string) int64 {
	t.Helper()
	v, err := streams.DefaultLimit(stream, streams.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
