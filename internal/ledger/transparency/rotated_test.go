package transparency_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/transparency"
	"github.com/waybill-dev/waybill/streams"
)

// rotations are the records on LEDGER that say that another key signs.
func (h *harness) rotations() []record.Record {
	h.t.Helper()
	ctx := context.Background()
	s, err := h.nats.JetStream().Stream(ctx, streams.Ledger)
	if err != nil {
		h.t.Fatal(err)
	}
	info, err := s.Info(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []record.Record
	for seq := info.State.FirstSeq; seq > 0 && seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if err != nil {
			h.t.Fatal(err)
		}
		r, err := record.Decode(m.Data)
		if err != nil {
			h.t.Fatal(err)
		}
		if r.Action == record.ActionKeyRotated {
			out = append(out, r)
		}
	}
	return out
}

func TestAnotherKeyIsOnRecordBeforeItSigns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	run := func(keys *checkpoint.Keys) {
		t.Helper()
		r := h.start(h.db, func(o *transparency.Options) { o.Keys = keys })
		r.Landed(h.append(10))
		h.waitSigned(len(h.leaves))
		r.end()
	}
	inline := func(private ...string) *checkpoint.Keys {
		t.Helper()
		keys, err := checkpoint.OpenKeys(strings.Join(private, ","))
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	first, firstVerifier, err := checkpoint.Generate(origin)
	if err != nil {
		t.Fatal(err)
	}
	second, secondVerifier, err := checkpoint.Generate(origin)
	if err != nil {
		t.Fatal(err)
	}
	run(inline(first))
	run(inline(first))
	if got := h.rotations(); len(got) != 0 {
		t.Fatalf("the first key is no rotation: %+v", got)
	}
	run(inline(second, first))
	run(inline(second))
	got := h.rotations()
	if len(got) != 1 {
		t.Fatalf("%d rotations are on record, want 1: %+v", len(got), got)
	}
	r := got[0]
	if r.Kind != record.OperatorAction || r.Actor != "waybill" || r.Reason != "environment_changed" ||
		!strings.Contains(r.Detail, checkpoint.EnvKey) ||
		r.Settings["origin"] != origin || r.Settings["key"] != secondVerifier || r.Settings["before"] != firstVerifier {
		t.Errorf("on record: %+v", r)
	}
	if whole := r.Detail + r.Reason + r.Settings["key"] + r.Settings["before"]; strings.Contains(whole, "PRIVATE") {
		t.Error("a private key is on record")
	}

	// By hand in a file, without the key before: its id is all that is known of it.
	third, thirdVerifier, err := checkpoint.Generate(origin)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "checkpoint.key")
	if err := os.WriteFile(path, []byte(third+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	byHand, err := checkpoint.OpenKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	run(byHand)
	got = h.rotations()
	if len(got) != 2 || got[1].Reason != "key_file_changed" || got[1].Settings["key"] != thirdVerifier ||
		!strings.HasPrefix(secondVerifier, got[1].Settings["before"]+"+") {
		t.Fatalf("%+v", got)
	}

	// What waybill ledger key rotate has said is not said again.
	rotation, err := checkpoint.Rotate(path)
	if err != nil {
		t.Fatal(err)
	}
	said := record.LedgerKeyRotated(origin, rotation.New.Verifier, thirdVerifier)
	said.At, said.Actor = got[0].At, "ann"
	m, err := said.Message()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.nats.JetStream().PublishMsg(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	if err := rotation.Commit(); err != nil {
		t.Fatal(err)
	}
	run(byHand)
	if got = h.rotations(); len(got) != 3 || got[2].Actor != "ann" {
		t.Errorf("%+v", got)
	}
}
