package sealed_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/platform/sealed"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey(t testing.TB) string {
	t.Helper()
	k, err := sealed.GenerateKey()
	must(t, err)
	return k
}

func ring(t testing.TB, keys ...string) *sealed.Keyring {
	t.Helper()
	r, err := sealed.Parse(strings.Join(keys, ","))
	must(t, err)
	return r
}

var here = sealed.Place{Owner: "ep_1", Field: "secret/key_1", Destination: "https://a:443"}

func TestWhatIsSealedOpensInItsPlaceOnly(t *testing.T) {
	r := ring(t, newKey(t))
	v := r.Seal("whsec_abc", here)
	if plain, err := r.Open(v, here); err != nil || plain != "whsec_abc" {
		t.Fatalf("%q, %v", plain, err)
	}
	if strings.Contains(string(v), "whsec") || v == r.Seal("whsec_abc", here) {
		t.Errorf("sealed as %s", v)
	}
	for name, at := range map[string]sealed.Place{
		"another endpoint":          {Owner: "ep_2", Field: here.Field, Destination: here.Destination},
		"another field":             {Owner: here.Owner, Field: "authorization", Destination: here.Destination},
		"another destination":       {Owner: here.Owner, Field: here.Field, Destination: "https://b:443"},
		"no destination":            {Owner: here.Owner, Field: here.Field},
		"parts that run together":   {Owner: here.Owner + here.Field, Destination: here.Destination},
		"parts divided differently": {Owner: "ep_", Field: "1secret/key_1", Destination: here.Destination},
	} {
		if plain, err := r.Open(v, at); !errors.Is(err, sealed.ErrAltered) || plain != "" {
			t.Errorf("%s: %q, %v", name, plain, err)
		}
	}
}

// Any change of any byte is noticed, in the key's id as in the ciphertext.
func TestAnAlteredValueDoesNotOpen(t *testing.T) {
	r := ring(t, newKey(t))
	v := r.Seal("whsec_abc", here)
	for i := range len(v) {
		for _, c := range []byte("AQ0:") {
			if v[i] == c {
				continue
			}
			altered := v[:i] + sealed.Value(c) + v[i+1:]
			if plain, err := r.Open(altered, here); err == nil {
				t.Fatalf("byte %d as %c opens: %q", i, c, plain)
			} else if strings.Contains(err.Error(), "whsec") {
				t.Errorf("the error has the secret: %v", err)
			}
		}
	}
	for i := range len(v) {
		if _, err := r.Open(v[:i], here); err == nil {
			t.Fatalf("the first %d bytes open", i)
		}
	}
}

func TestOlderKeysOpenAndTheFirstOneSeals(t *testing.T) {
	old, now := newKey(t), newKey(t)
	before := ring(t, old)
	v := before.Seal("x", here)
	both := ring(t, now, old)
	if plain, err := both.Open(v, here); err != nil || plain != "x" {
		t.Errorf("%q, %v", plain, err)
	}
	w := both.Seal("x", here)
	if both.Newest(v) || !both.Newest(w) || w.KeyID() != both.KeyIDs()[0] || v.KeyID() != both.KeyIDs()[1] {
		t.Errorf("sealed under %s and %s, keys %v", v.KeyID(), w.KeyID(), both.KeyIDs())
	}
	_, err := before.Open(w, here)
	if !errors.Is(err, sealed.ErrUnknownKey) || !strings.Contains(err.Error(), w.KeyID()) ||
		!strings.Contains(err.Error(), v.KeyID()) {
		t.Errorf("without the key: %v", err)
	}
}

func TestAKeyFileThatGrowsIsTakenUpByWhatRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "secrets.key")
	first, err := sealed.CreateFile(path)
	must(t, err)
	running, err := sealed.Open(path)
	must(t, err)
	second, before, err := sealed.AddKey(path)
	if err != nil || before != first || second == first {
		t.Fatalf("%s after %s, %v", second, before, err)
	}
	other, err := sealed.Open(path)
	must(t, err)
	v := other.Seal("x", here)
	if plain, err := running.Open(v, here); err != nil || plain != "x" {
		t.Errorf("the running one: %q, %v", plain, err)
	}
	if w := running.Seal("x", here); w.KeyID() != second {
		t.Errorf("the running one seals under %s, want %s", w.KeyID(), second)
	}
	must(t, os.Remove(path))
	if plain, err := running.Open(v, here); err != nil || plain != "x" {
		t.Errorf("with the file gone: %q, %v", plain, err)
	}
	if err := running.Check(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is gone is not reported: %v", err)
	}
}

func TestAKeyFileIsMadeOnceAndForItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "secrets.key")
	var made sync.Map
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if id, err := sealed.CreateFile(path); err == nil {
				made.Store(id, true)
			}
		})
	}
	wg.Wait()
	n := 0
	made.Range(func(id, _ any) bool {
		n++
		r, err := sealed.Open(path)
		must(t, err)
		if r.KeyIDs()[0] != id {
			t.Errorf("the file has %v, its maker was told %s", r.KeyIDs(), id)
		}
		return true
	})
	info, err := os.Stat(path)
	must(t, err)
	if n != 1 || info.Mode().Perm() != 0o600 {
		t.Errorf("made %d times, mode %o", n, info.Mode().Perm())
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAKeyThatIsNoneIsRefusedAndNeverQuoted(t *testing.T) {
	good := newKey(t)
	short := sealed.KeyPrefix + base64.StdEncoding.EncodeToString(make([]byte, 16))
	for text, want := range map[string]string{
		"":                         "holds no key",
		"# only a comment":         "holds no key",
		"hunter2":                  "does not begin with",
		good[:len(good)-1]:         "base64",
		short:                      "holds 16 bytes",
		good + "\n" + good:         "twice",
		good + "\n" + good[:9]:     "key 2",
		strings.ToUpper(good):      "does not begin with",
		strings.Repeat("x,", 4000): "does not begin with",
	} {
		_, err := sealed.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), good[5:]) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("the error quotes the key: %v", err)
		}
	}
	r, err := sealed.Parse("# the key of 2026\n" + good + " # in use\n\n")
	must(t, err)
	for _, s := range []string{fmt.Sprint(r), fmt.Sprintf("%+v %#v", r, r),
		fmt.Sprintf("%v", struct{ K *sealed.Keyring }{r})} {
		if strings.Contains(s, good[5:20]) {
			t.Errorf("printed: %s", s)
		}
	}
}

func TestAKeyFileThatEverybodyCanReadIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	for mode, fine := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o440: true, 0o644: false, 0o604: false} {
		must(t, os.WriteFile(path, []byte(newKey(t)), 0o600))
		must(t, os.Chmod(path, mode))
		if _, err := sealed.Open(path); (err == nil) != fine {
			t.Errorf("mode %o: %v", mode, err)
		}
		must(t, os.Remove(path))
	}
	if _, err := sealed.Open(path); err == nil || !strings.Contains(err.Error(), "waybill key generate") {
		t.Errorf("a missing file: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	r := ring(f, newKey(f))
	f.Add(string(r.Seal("whsec_abc", here)))
	f.Add("sealed:v1:sk_0:")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		plain, err := r.Open(sealed.Value(text), here)
		if err == nil && plain != "whsec_abc" {
			t.Errorf("%q opens as %q", text, plain)
		}
	})
}
