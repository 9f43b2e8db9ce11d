package checkpoint_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
)

var example = checkpoint.Checkpoint{Origin: "example.com/waybill", Size: 42, Root: tlog.RecordHash([]byte("x"))}

// The bytes are signed and kept for years: this text never changes.
func TestTheTextOfACheckpointIsFixed(t *testing.T) {
	want := "example.com/waybill\n42\nPH6byTDck/AfppmF7yQtn56GHzxTVaokzl70tLinDMs=\n"
	if got := example.Text(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got, err := checkpoint.Parse(want + "an extension\n\n— someone abcd\n")
	if err != nil || got != example {
		t.Errorf("parsed %+v, %v", got, err)
	}
}

func TestWhatIsNoCheckpointIsRefused(t *testing.T) {
	root := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, text := range []string{"", "o\n", "o\n1\n", "o\n1\n" + root, "\n1\n" + root + "\n", "o\n01\n" + root + "\n",
		"o\n-1\n" + root + "\n",
		"o\n+1\n" + root + "\n", "o\n9223372036854775808\n" + root + "\n", "o\n1\n" + root[:40] + "\n",
		"o\n1\n" + root + "A\n"} {
		if _, err := checkpoint.Parse(text); !errors.Is(err, checkpoint.ErrMalformed) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestKeysSignRotateAndRetire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "checkpoint.key")
	first, err := checkpoint.CreateFile(path, example.Origin)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := checkpoint.CreateFile(path, example.Origin); err == nil ||
		!strings.Contains(err.Error(), "waybill ledger key rotate") {
		t.Errorf("a second time: %v", err)
	}
	keys, err := checkpoint.OpenKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	signedBy := func(want ...string) {
		t.Helper()
		signed, id, err := keys.Sign(example)
		if err != nil || id != want[0] {
			t.Fatalf("key %s, %v", id, err)
		}
		known, err := keys.Verifiers()
		if err != nil {
			t.Fatal(err)
		}
		c, n, err := checkpoint.Open([]byte(signed), known)
		if err != nil || c != example {
			t.Fatalf("%+v, %v", c, err)
		}
		var got []string
		for _, s := range n.Sigs {
			got = append(got, fmt.Sprintf("%s+%08x", s.Name, s.Hash))
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("signed by %v, want %v", got, want)
		}
	}
	signedBy(first.ID)
	var rotated []checkpoint.Rotation
	for range 2 {
		r, err := checkpoint.Rotate(path)
		if err != nil {
			t.Fatal(err)
		}
		signedBy(keys.List()[0].ID) // not before it is in the file; nothing else signs yet
		if err := r.Commit(); err != nil {
			t.Fatal(err)
		}
		rotated = append(rotated, r)
		signedBy(r.New.ID, r.Before.ID)
		if len(rotated) == 1 {
			retired, err := checkpoint.Retire(path)
			if err != nil || len(retired) != 1 || retired[0].ID != first.ID {
				t.Fatalf("retired %v, %v", retired, err)
			}
			signedBy(r.New.ID)
		}
	}
	ids := []string{}
	for _, k := range keys.List() {
		ids = append(ids, k.ID)
	}
	if want := []string{rotated[1].New.ID, rotated[0].New.ID, first.ID}; strings.Join(ids, " ") != strings.Join(want,
		" ") {
		t.Errorf("keys %v, want %v", ids, want)
	}
	// A second rotation before the first was followed by a checkpoint takes nobody's voice.
	r, err := checkpoint.Rotate(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(); err != nil {
		t.Fatal(err)
	}
	signedBy(r.New.ID, rotated[1].New.ID, rotated[0].New.ID)
	// Another's file in its place is not taken up.
	other := filepath.Join(t.TempDir(), "other.key")
	if _, err := checkpoint.CreateFile(other, "another.example"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if signed, id, err := keys.Sign(example); err == nil || !strings.Contains(err.Error(), "restart") || id != r.New.ID ||
		signed == "" {
		t.Errorf("%s, %v", id, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := checkpoint.OpenKeys(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("open to all: %v", err)
	}
}

func TestKeysOfAnEnvironmentVariableSignLikeThoseOfAFile(t *testing.T) {
	older, olderKey, err := checkpoint.Generate("a.example")
	if err != nil {
		t.Fatal(err)
	}
	newer, newerKey, err := checkpoint.Generate("a.example")
	if err != nil {
		t.Fatal(err)
	}
	k, err := checkpoint.OpenKeys(newer + "," + older)
	if err != nil {
		t.Fatal(err)
	}
	signed, id, err := k.Sign(checkpoint.Checkpoint{Origin: "a.example", Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{newerKey, olderKey} {
		v, err := checkpoint.NewVerifier(key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := note.Open([]byte(signed), note.VerifierList(v)); err != nil {
			t.Errorf("%s did not sign: %v", key, err)
		}
	}
	if v, err := checkpoint.NewVerifier(newerKey); err != nil || id != checkpoint.KeyID(v) {
		t.Errorf("signed under %s, %v; want the newest key", id, err)
	}
}

func TestAKeyFileSaysWhatIsWrongWithItAndNeverAKey(t *testing.T) {
	private, verifier, err := checkpoint.Generate("a.example")
	if err != nil {
		t.Fatal(err)
	}
	another, _, err := checkpoint.Generate("b.example")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"empty": "# nothing\n", "verifiers alone": verifier,
		"a verifier first": verifier + "\n" + private,
		"two origins":      private + "\n" + another, "garbage": "x+y", "a damaged key": private[:len(private)-3]} {
		path := filepath.Join(t.TempDir(), "k")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := checkpoint.OpenKeys(path); err == nil || strings.Contains(err.Error(), private[40:60]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, inline := range map[string]string{"two origins": private + "," + another,
		"a damaged key": private[:len(private)-3]} {
		if _, err := checkpoint.OpenKeys(inline); err == nil || strings.Contains(err.Error(), private[40:60]) {
			t.Errorf("inline, %s: %v", name, err)
		}
	}
	if _, err := checkpoint.Rotate(private); err == nil || strings.Contains(err.Error(), private[40:60]) {
		t.Errorf("rotating a key that is in no file: %v", err)
	}
	if _, err := checkpoint.OpenKeys("/nowhere"); err == nil ||
		!strings.Contains(err.Error(), "waybill ledger key generate") {
		t.Errorf("no file: %v", err)
	}
	for _, origin := range []string{"", "https://a.example", "a b", "a+b", "ä", strings.Repeat("a", 201)} {
		if _, _, err := checkpoint.Generate(origin); err == nil {
			t.Errorf("origin %q is taken", origin)
		}
	}
}

// witness makes a key and its cosignatures by hand, from C2SP's text.
func witness(t *testing.T, name string) (vkey string, cosign func(seconds uint64, text string) note.Signature) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := append([]byte{4}, public...)
	sum := sha256.Sum256(append([]byte(name+"\n"), key...))
	return fmt.Sprintf("%s+%x+%s", name, sum[:4], base64.StdEncoding.EncodeToString(key)),
		func(seconds uint64, text string) note.Signature {
			signature := ed25519.Sign(private, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, text))
			b := append(binary.BigEndian.AppendUint64(append([]byte(nil), sum[:4]...), seconds), signature...)
			return note.Signature{Name: name, Hash: binary.BigEndian.Uint32(sum[:4]),
				Base64: base64.StdEncoding.EncodeToString(b)}
		}
}

func TestACosignatureIsVerified(t *testing.T) {
	private, verifier, err := checkpoint.Generate(example.Origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: example.Text()}, signer)
	if err != nil {
		t.Fatal(err)
	}
	vkey, cosign := witness(t, "w.example")
	w, err := checkpoint.NewVerifier(vkey)
	if err != nil || !checkpoint.IsWitness(w) {
		t.Fatalf("%v", err)
	}
	v, err := checkpoint.NewVerifier(verifier)
	if err != nil || checkpoint.IsWitness(v) {
		t.Fatalf("%v", err)
	}
	good := cosign(1_800_000_000, example.Text())
	line := checkpoint.Line(good)
	both := checkpoint.AddSignatures(string(signed), []string{line, line})
	if strings.Count(both, line) != 1 {
		t.Errorf("added twice:\n%s", both)
	}
	_, n, err := checkpoint.Open([]byte(both), note.VerifierList(v, w))
	if err != nil || len(n.Sigs) != 2 {
		t.Fatalf("%+v, %v", n, err)
	}
	if at, err := checkpoint.CosignedAt(n.Sigs[1]); err != nil || at.Unix() != 1_800_000_000 {
		t.Errorf("at %s, %v", at, err)
	}
	bad := checkpoint.AddSignatures(string(signed), []string{checkpoint.Line(cosign(5, "something else\n"))})
	if _, _, err := checkpoint.Open([]byte(bad), note.VerifierList(v, w)); err == nil {
		t.Error("a cosignature of something else is accepted")
	}
	if _, _, err := checkpoint.Open([]byte(both), note.VerifierList(w)); err == nil {
		t.Error("a checkpoint that only a witness signed is accepted")
	}
	for _, broken := range []string{"", "w", "w+x+y", strings.Replace(vkey, "w.example", "v.example", 1),
		vkey[:len(vkey)-4], "w+00000000+" + base64.StdEncoding.EncodeToString(make([]byte, 33))} {
		if _, err := checkpoint.NewVerifier(broken); err == nil {
			t.Errorf("verifier key %q is taken", broken)
		}
	}
}
