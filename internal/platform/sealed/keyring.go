package sealed

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// EnvKeys is the environment variable that holds keys themselves.
const EnvKeys = "WAYBILL_SECRETS_KEY"

// reloadPause bounds how often a key file is read again for a key that is not there.
const reloadPause = time.Second

// Keyring holds the keys: the first one seals, all of them open. One that came
// from a file follows the file, so that a key can be added while everything
// runs. It is safe for concurrent use. However it is printed, it shows ids alone.
type Keyring struct {
	path string // empty: fixed

	mu      sync.Mutex
	keys    *[]key
	stamp   stamp
	looked  time.Time
	failure error // why the file could not be read the last time
}

// stamp tells whether a file changed.
type stamp struct {
	modified time.Time
	size     int64
}

// Parse makes a keyring from keys separated by white space or commas, the one
// that seals first.
func Parse(text string) (*Keyring, error) {
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("secrets key: %w", err)
	}
	return &Keyring{keys: &keys}, nil
}

// Open reads a key file: a key a line, the one that seals first. The file MUST
// NOT be readable for others than its owner and group.
func Open(path string) (*Keyring, error) {
	r := &Keyring{path: path}
	if err := r.load(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Keyring) load() error {
	info, err := os.Stat(r.path)
	if err != nil {
		return fmt.Errorf("secrets key file: %w; put it back: what is sealed under its keys opens with no other; if there "+
			"never was one: waybill key generate --secrets-key-file %s", err, r.path)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return fmt.Errorf("secrets key file %s can be read by everybody (mode %04o); close it with: chmod 600 %s", r.path,
			info.Mode().Perm(), r.path)
	}
	text, err := os.ReadFile(r.path)
	if err != nil {
		return fmt.Errorf("secrets key file: %w; it must be readable for the user that runs this", err)
	}
	keys, err := parseKeys(string(text))
	if err != nil {
		return fmt.Errorf("secrets key file %s: %w", r.path, err)
	}
	r.keys, r.stamp = &keys, stamp{info.ModTime(), info.Size()}
	return nil
}

// follow reads the file again if it changed. What was read before stays when
// the file cannot be read: a file that is being replaced MUST NOT stop deliveries.
func (r *Keyring) follow() {
	if r.path == "" {
		return
	}
	info, err := os.Stat(r.path)
	if err == nil && r.stamp == (stamp{info.ModTime(), info.Size()}) {
		return
	}
	r.failure = r.load()
}

// newest is the key that seals.
func (r *Keyring) newest() key {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.follow()
	return (*r.keys)[0]
}

// find looks for a key; one that is not there is looked for in the file, at
// most once in reloadPause.
func (r *Keyring) find(id string) (key, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for looked := false; ; looked = true {
		for _, k := range *r.keys {
			if k.id == id {
				return k, true
			}
		}
		if looked || time.Since(r.looked) < reloadPause {
			return key{}, false
		}
		r.looked = time.Now()
		r.follow()
	}
}

// KeyIDs are the ids of the keys, the one that seals first.
func (r *Keyring) KeyIDs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.follow()
	ids := make([]string, len(*r.keys))
	for i, k := range *r.keys {
		ids[i] = k.id
	}
	return ids
}

// Check is a readiness check: it fails while the key file cannot be read.
func (r *Keyring) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.follow()
	return r.failure
}

func (r *Keyring) String() string { return "secrets keys " + strings.Join(r.KeyIDs(), ", ") }

// GoString keeps keys out of %#v.
func (r *Keyring) GoString() string { return r.String() }
