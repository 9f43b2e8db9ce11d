package allinone

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// Names within the data directory.
const (
	lockName  = "lock"
	natsDir   = "nats"
	engineDir = "clickhouse"
	nameFile  = "name"
	keysDir   = "keys"
)

// dataDir is a data directory that this process alone uses. The lock is the
// kernel's: it is gone the moment the process is, whatever ended it.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir makes the directory if need be and takes its lock. When another
// process has it, nothing in it is touched.
func openDataDir(path string, log zerolog.Logger) (*dataDir, error) {
	if path == "" {
		return nil, errors.New("the data directory is empty; name one with --data-dir")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w; choose another with --data-dir", path, err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, dataDirError(path, err)
	}
	if err := refuseForeign(path); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, dataDirError(path, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, inUse(path, lock)
		}
		return nil, fmt.Errorf("cannot lock data directory %s: %w; it needs a file system with locks: choose another with "+
			"--data-dir", path, err)
	}
	d := &dataDir{path: path, lock: lock}
	if err := d.prepare(log); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return d, nil
}

// marks are files that only a Waybill data directory has. One is enough: what
// copies directories leaves out locks, sockets or files that are empty.
var marks = []string{lockName, nameFile}

// parts are what a data directory may hold besides.
var parts = []string{natsDir, engineDir, keysDir, AddressesName,
	"lost+found"} // what a freshly made ext4 volume holds

// refuseForeign keeps a mistyped --data-dir from turning somebody's directory into ours.
func refuseForeign(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return dataDirError(path, err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	if foreign := foreignName(names); foreign != "" {
		return fmt.Errorf("%s holds other files (%s) and is no Waybill data directory; choose an empty one with --data-dir",
			path, foreign)
	}
	return nil
}

// foreignName is a name that a data directory does not have; empty when the
// directory is ours, by a mark or because nothing else is in it.
func foreignName(names []string) string {
	foreign := ""
	for _, name := range names {
		if slices.Contains(marks, name) {
			return ""
		}
		if !slices.Contains(parts, name) {
			foreign = name
		}
	}
	return foreign
}

// prepare notes who has the lock and closes the directory to others.
func (d *dataDir) prepare(log zerolog.Logger) error {
	if info, err := os.Stat(d.path); err == nil && info.Mode().Perm()&0o077 != 0 {
		// A mounted volume may belong to somebody else; what is inside is closed by itself.
		if err := os.Chmod(d.path, 0o700); err != nil {
			log.Warn().Err(err).Str("data", d.path).Msg(logevent.DataOpenToOthers)
		}
	}
	if err := d.lock.Truncate(0); err != nil {
		return dataDirError(d.path, err)
	}
	if _, err := d.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return dataDirError(d.path, err)
	}
	if err := os.Remove(d.join(AddressesName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return dataDirError(d.path, err)
	}
	return nil
}

// installationName is how this installation's stages are called on record and
// in leases: made at the first start, the same at every later one. The lock
// makes us the only process that uses it, so what was held or claimed under it
// by an earlier one that died is ours at once.
func (d *dataDir) installationName() (string, error) {
	path := d.join(nameFile)
	b, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(b)); err == nil && name != "" {
		return name, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", dataDirError(d.path, err)
	}
	name := ids.New("up_", time.Now())
	if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
		return "", dataDirError(d.path, err)
	}
	return name, nil
}

func (d *dataDir) join(name string) string { return filepath.Join(d.path, name) }

func (d *dataDir) close() error { return d.lock.Close() }

func inUse(path string, lock *os.File) error {
	who := "another waybill"
	b := make([]byte, 20)
	if n, _ := lock.ReadAt(b, 0); n > 0 {
		who = "waybill process " + strings.TrimSpace(string(b[:n]))
	}
	if a, err := ReadAddresses(filepath.Join(path, AddressesName)); err == nil && a.HTTP != "" {
		who += " at http://" + a.HTTP
	}
	return fmt.Errorf("data directory %s is in use by %s; use that one, stop it, or choose another with --data-dir", path,
		who)
}

func dataDirError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("data directory %s is on a read-only file system (%w); mount it writable or choose another with "+
			"--data-dir", path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("data directory %s is not writable for this user (%w); change its owner or choose another with "+
			"--data-dir", path, err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("data directory %s is on a full disk (%w); free some space or choose another with --data-dir", path,
			err)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST):
		return fmt.Errorf("data directory %s: a file is in the way (%w); choose another with --data-dir", path, err)
	}
	return fmt.Errorf("data directory %s: %w; choose another with --data-dir", path, err)
}

// Running says whether a process holds the data directory.
func Running(data string) bool {
	lock, err := os.Open(filepath.Join(data, lockName))
	if err != nil {
		return false
	}
	defer lock.Close()
	return errors.Is(syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
