package verify

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
)

func leaf(n int) tlog.Hash { return tlog.RecordHash([]byte{byte(n), byte(n >> 8)}) }

func TestTheFrontierHasTheLibrarysRoots(t *testing.T) {
	var f, g frontier
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			out[i] = stored[x]
		}
		return out, nil
	})
	var tile []tlog.Hash
	for n := range 1100 {
		want, err := tlog.TreeHash(int64(n), reader)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.root(); got != want || !f.valid() {
			t.Fatalf("size %d: root %v, want %v", n, got, want)
		}
		h, err := tlog.StoredHashesForRecordHash(int64(n), leaf(n), reader)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, h...)
		f.add(0, leaf(n))
		if tile = append(tile, leaf(n)); len(tile) == 256 {
			g.add(8, tileRoot(tile))
			tile = nil
			if g.root() != f.root() {
				t.Fatalf("size %d: by tiles another root than by leaves", n+1)
			}
		}
	}
}

func TestWhatIsRetired(t *testing.T) {
	r := record.Record{ID: "x", Kind: record.OperatorAction, At: time.Unix(1_790_000_000, 0), Tenant: "default",
		Action: record.ActionRetired, Actor: "ann",
		Settings: record.Retirement{ID: "ret_1", Month: 201501, Parts: 1, Part: 1,
			Ranges: []record.IdxRange{{First: 0, Last: 4095}, {First: 8192, Last: 9000}}}.Settings()}
	body, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, ok := retirement(Record{Idx: 9500, Body: body})
	if !ok || got.By != "ann" || len(got.Ranges) != 2 || got.Ranges[1].First != 8192 || got.Ranges[1].Last != 9000 {
		t.Errorf("got %+v, %v", got, ok)
	}
	for _, bad := range []string{"", "x", "9-1", "1", "1-2,"} {
		r.Settings["ranges"] = bad
		if body, err = r.Encode(); err != nil {
			t.Fatal(err)
		}
		if _, ok := retirement(Record{Body: body}); ok {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzParseCheckpoint(f *testing.F) {
	private, public, err := note.GenerateKey(nil, "example.com/ledger")
	if err != nil {
		f.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		f.Fatal(err)
	}
	key, err := checkpoint.NewVerifier(public)
	if err != nil {
		f.Fatal(err)
	}
	c := checkpoint.Checkpoint{Origin: "example.com/ledger", Size: 42, Root: leaf(1)}
	b, err := note.Sign(&note.Note{Text: c.Text()}, signer)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b))
	f.Add(strings.Replace(string(b), "42", "43", 1))
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseCheckpoint(s, []note.Verifier{key})
		if err == nil && got.Signer != "" && (got.Size != 42 || got.Root != leaf(1) || got.Origin != c.Origin) {
			t.Fatalf("taken as signed: %+v", got)
		}
	})
}

func FuzzParseState(f *testing.F) {
	w := newWalk(nil, nil, 0)
	for n := range 512 {
		w.rows.add(0, leaf(n))
	}
	w.upper = [][]tlog.Hash{{leaf(1), leaf(2)}}
	w.pending = []odd{{3, differs, leaf(1), leaf(2)}}
	b, err := w.state("x", 512).Encode()
	if err != nil {
		f.Fatal(err)
	}
	if _, err := ParseState(b); err != nil {
		f.Fatalf("what was written is not read: %v", err)
	}
	f.Add(b)
	f.Add([]byte(`{"format":1}`))
	f.Add([]byte(`{"format":1,"next":256,"rows":["00"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseState(b)
		if err != nil {
			return
		}
		again, err := s.walk(nil, nil, 0)
		if err != nil || again.rows.size != s.Next || !again.rows.valid() {
			t.Fatalf("a state was taken that cannot be resumed: %v", err)
		}
		again.finish()
	})
}

// Whoever has only the key from before a rotation is not told of a change that was none.
func TestANoteOfTwoKeysIsGoodForWhoHasEither(t *testing.T) {
	newer, newerKey, err := note.GenerateKey(nil, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	older, olderKey, err := note.GenerateKey(nil, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	var signers []note.Signer
	for _, private := range []string{newer, older} {
		s, err := note.NewSigner(private)
		if err != nil {
			t.Fatal(err)
		}
		signers = append(signers, s)
	}
	said := checkpoint.Checkpoint{Origin: "a.example", Size: 1, Root: leaf(1)}
	signed, err := note.Sign(&note.Note{Text: said.Text()}, signers...)
	if err != nil {
		t.Fatal(err)
	}
	id := func(key string) string { return strings.Join(strings.SplitN(key, "+", 3)[:2], "+") }
	for _, key := range []string{newerKey, olderKey} {
		v, err := checkpoint.NewVerifier(key)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ParseCheckpoint(string(signed), []note.Verifier{v})
		if err != nil || c.Signer != id(key) {
			t.Fatalf("signed by %q, %v; want %s", c.Signer, err, id(key))
		}
		row := CheckpointRow{Size: 1, Origin: "a.example", Key: id(newerKey), Root: leaf(1)}
		if found := compareRow(row, c); len(found) != 0 {
			t.Errorf("with %s: %+v", id(key), found)
		}
		row.Key = "a.example+00000000"
		if found := compareRow(row, c); len(found) != 1 || found[0].Code != CheckpointAltered {
			t.Errorf("with %s and another key in the row: %+v", id(key), found)
		}
	}
}
