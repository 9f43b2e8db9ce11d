package allinone

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
	"github.com/waybill-dev/waybill/internal/platform/wholefile"
)

// Owner is the user of the embedded engine who may do everything: it makes the
// schema at a start, and no other program needs it.
const Owner = "owner"

// passwordsFile is where the data directory has the passwords of the engine's
// users, a JSON object by user.
var passwordsFile = filepath.Join(keysDir, "clickhouse.json")

// PasswordsPath is the file within a data directory.
func PasswordsPath(data string) string { return filepath.Join(data, passwordsFile) }

// ReadPasswords reads the file that a start made.
func ReadPasswords(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out map[string]string
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("ClickHouse passwords file %s: %w; remove it, and the next start of waybill up makes a new one", path, err)
	}
	return out, nil
}

// ensurePasswords makes those that are missing: at the first start, and for a
// role that is new. A lost file costs nothing: the engine's users are written at
// each start.
func ensurePasswords(path string) (map[string]string, error) {
	have, err := ReadPasswords(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if have == nil {
		have = map[string]string{}
	}
	names := []string{Owner}
	for _, r := range roles.All() {
		names = append(names, r.Name)
	}
	complete := true
	for _, name := range names {
		if have[name] == "" {
			have[name], complete = rand.Text(), false
		}
	}
	if complete {
		return have, nil
	}
	return have, writePasswords(path, have)
}

func writePasswords(path string, passwords map[string]string) error {
	b, err := json.MarshalIndent(passwords, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("ClickHouse passwords file: %w", err)
	}
	if err := wholefile.Replace(path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("ClickHouse passwords file %s: %w", path, err)
	}
	return nil
}

// EngineDSN is the address of the embedded engine for one of its users. Without
// a password the user is "default".
func EngineDSN(native, user, password string) string {
	u := url.URL{Scheme: "clickhouse", User: url.User("default"), Host: native, Path: "/" + ledger.DefaultDatabase}
	if password != "" {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

// roleOptions give the engine its users.
func roleOptions(o engine.Options, passwords map[string]string) engine.Options {
	o.User, o.Password = Owner, passwords[Owner]
	o.UsersXML = roles.EmbeddedXML(ledger.DefaultDatabase, passwords)
	o.ConfigXML = roles.EngineXML(o.Dir)
	return o
}
