// Package wholefile writes files of which a reader, and a start after a power
// cut, sees all or nothing.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace makes content what path holds, whatever it held before. It returns
// once the disk has it.
func Replace(path string, content []byte, mode fs.FileMode) error {
	return write(path, content, mode, os.Rename)
}

// Create is Replace for a file that MUST NOT be there: fs.ErrExist if it is.
func Create(path string, content []byte, mode fs.FileMode) error {
	return write(path, content, mode, os.Link)
}

// write writes beside path and then moves the file into its place.
func write(path string, content []byte, mode fs.FileMode, move func(from, to string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := move(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
