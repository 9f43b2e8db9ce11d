package sealed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/platform/wholefile"
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
	err = wholefile.Create(path, fileText([]string{written}), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("secrets key file %s is there already; add a key to it with: waybill key rotate "+
			"--secrets-key-file %s", path, path)
	}
	if err != nil {
		return "", fmt.Errorf("secrets key file: %w", err)
	}
	return id, nil
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
		return "", "", fmt.Errorf("secrets key file %s has %d keys already; remove those that nothing is sealed under", path,
			maxKeys)
	}
	if err := wholefile.Replace(path, fileText(all), 0o600); err != nil {
		return "", "", fmt.Errorf("secrets key file: %w", err)
	}
	return id, (*r.keys)[0].id, nil
}

func fileText(keys []string) []byte {
	return []byte("# Keys that the secrets of endpoints are encrypted with. The first one seals,\n" +
		"# all of them open. Without them no delivery can be signed: keep a copy, apart\n" +
		"# from the data.\n" + strings.Join(keys, "\n") + "\n")
}
