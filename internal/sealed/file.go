package sealed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CreateFile makes a key file with one new key, readable for its owner alone,
// and returns the key's id. It never touches a file that is there.
func CreateFile(path string) (id string, err error) {
	written, err := GenerateKey()
	if err != nil {
		return "", err
	}
	if id, err = KeyID(written); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("secrets key file: %w", err)
	}
	// Linked into place: a reader, or a start after a power cut, sees a whole
	// key or none, and a file that is there already is never replaced.
	temporary, err := writeTemporary(path, fileText([]string{written}))
	if err != nil {
		return "", err
	}
	defer os.Remove(temporary)
	if err := os.Link(temporary, path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("secrets key file %s is there already; add a key to it with: waybill key rotate --secrets-key-file %s", path, path)
		}
		return "", fmt.Errorf("secrets key file: %w", err)
	}
	return id, syncDirectory(path)
}

// AddKey puts a new key first in a key file: it seals from now on, those that
// were there still open. It returns the new key's id and the one before.
func AddKey(path string) (id, before string, err error) {
	r, err := Open(path)
	if err != nil {
		return "", "", err
	}
	written, err := GenerateKey()
	if err != nil {
		return "", "", err
	}
	if id, err = KeyID(written); err != nil {
		return "", "", err
	}
	all := []string{written}
	for _, k := range *r.keys {
		all = append(all, k.written)
	}
	if len(all) > maxKeys {
		return "", "", fmt.Errorf("secrets key file %s has %d keys already; remove those that nothing is sealed under", path, maxKeys)
	}
	temporary, err := writeTemporary(path, fileText(all))
	if err != nil {
		return "", "", err
	}
	if err := os.Rename(temporary, path); err != nil {
		_ = os.Remove(temporary)
		return "", "", fmt.Errorf("secrets key file: %w", err)
	}
	return id, (*r.keys)[0].id, syncDirectory(path)
}

func fileText(keys []string) string {
	return "# Keys that the secrets of endpoints are encrypted with. The first one seals,\n" +
		"# all of them open. Without them no delivery can be signed: keep a copy, apart\n" +
		"# from the data.\n" + strings.Join(keys, "\n") + "\n"
}

// writeTemporary writes beside path, so that it can be moved into place, and
// returns once the disk has it: a key that seals MUST NOT be lost in a power cut.
func writeTemporary(path, text string) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".secrets-key-*") // 0600
	if err != nil {
		return "", fmt.Errorf("secrets key file: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("secrets key file %s: %w", path, err)
	}
	return f.Name(), nil
}

func syncDirectory(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("secrets key file: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
