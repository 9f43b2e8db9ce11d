package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// LibraryVersion is the ClickHouse release whose library Find looks for in the
// cache. third_party/chdb pins the same one.
const LibraryVersion = "26.7.3"

// launcherName is the program that runs the engine library (cmd/waybill-clickhouse).
const launcherName = "waybill-clickhouse"

// ErrNotFound is wrapped by Find's error when no engine is to be had.
var ErrNotFound = errors.New("no ClickHouse engine found")

// Location is an engine that can be started.
type Location struct {
	Binary  string // waybill-clickhouse, or ClickHouse's own clickhouse
	Library string // libchdb.so for waybill-clickhouse; empty for clickhouse
}

// String names the engine for a log line.
func (l Location) String() string {
	if l.Library == "" {
		return l.Binary + " server"
	}
	return l.Binary + " with " + l.Library
}

// Search says where Find looks. Empty fields are not looked at.
type Search struct {
	Library    string   // explicit path of libchdb.so (WAYBILL_LIBCHDB)
	Binary     string   // explicit path of waybill-clickhouse or clickhouse (WAYBILL_ENGINE_BINARY)
	Executable string   // the running program; its directory may hold waybill-clickhouse
	Path       []string // directories of the PATH
	Cache      string   // Waybill's cache directory, which make engine fills
}

// SearchFromEnv reads WAYBILL_LIBCHDB, WAYBILL_ENGINE_BINARY, PATH,
// WAYBILL_CACHE, XDG_CACHE_HOME and HOME through getenv (os.Getenv).
func SearchFromEnv(getenv func(string) string) Search {
	s := Search{
		Library: getenv("WAYBILL_LIBCHDB"),
		Binary:  getenv("WAYBILL_ENGINE_BINARY"),
		Path:    filepath.SplitList(getenv("PATH")),
		Cache:   getenv("WAYBILL_CACHE"),
	}
	if s.Cache == "" {
		if xdg := getenv("XDG_CACHE_HOME"); xdg != "" {
			s.Cache = filepath.Join(xdg, "waybill")
		} else if home := getenv("HOME"); home != "" {
			s.Cache = filepath.Join(home, ".cache", "waybill")
		}
	}
	// Without it the other places are still searched.
	s.Executable, _ = os.Executable()
	return s
}

// Find decides which engine to run: what was named explicitly; else
// waybill-clickhouse (beside the running program, on the PATH, in the cache)
// with the cached library; else clickhouse on the PATH. Its error wraps
// ErrNotFound and says what is missing and the ways forward, or names the
// explicit path that does not exist.
func Find(s Search) (Location, error) {
	if err := s.checkExplicit(); err != nil {
		return Location{}, err
	}
	if s.Binary != "" && !isLauncher(s.Binary) {
		return Location{Binary: s.Binary}, nil
	}
	launcher, library := s.launcher(), s.library()
	if launcher != "" && library != "" {
		return Location{Binary: launcher, Library: library}, nil
	}
	// An explicit half asks for the library engine: do not run another instead.
	if s.Binary == "" && s.Library == "" {
		if server := onPath("clickhouse", s.Path); server != "" {
			return Location{Binary: server}, nil
		}
	}
	return Location{}, s.notFound(launcher, library)
}

func (s Search) checkExplicit() error {
	if s.Library != "" && !isFile(s.Library) {
		return fmt.Errorf("WAYBILL_LIBCHDB names %s, which is not a file; correct or unset it", s.Library)
	}
	if s.Binary != "" && !isExecutable(s.Binary) {
		return fmt.Errorf("WAYBILL_ENGINE_BINARY names %s, which is not an executable file; correct or unset it", s.Binary)
	}
	return nil
}

func (s Search) launcher() string {
	if s.Binary != "" {
		return s.Binary
	}
	if s.Executable != "" {
		if beside := filepath.Join(filepath.Dir(s.Executable), launcherName); isExecutable(beside) {
			return beside
		}
	}
	if found := onPath(launcherName, s.Path); found != "" {
		return found
	}
	if s.Cache != "" {
		if cached := filepath.Join(s.Cache, "bin", launcherName); isExecutable(cached) {
			return cached
		}
	}
	return ""
}

func (s Search) library() string {
	if s.Library != "" {
		return s.Library
	}
	if s.Cache != "" {
		if cached := filepath.Join(s.Cache, "chdb", LibraryVersion, "libchdb.so"); isFile(cached) {
			return cached
		}
	}
	return ""
}

func (s Search) notFound(launcher, library string) error {
	var missing []string
	if library == "" {
		missing = append(missing, fmt.Sprintf("libchdb.so is not in %s", filepath.Join(s.Cache, "chdb", LibraryVersion)))
	}
	if launcher == "" {
		missing = append(missing, fmt.Sprintf("%s is not beside this program, on the PATH, or in %s", launcherName,
			filepath.Join(s.Cache, "bin")))
	}
	return fmt.Errorf("%w: %s, and no clickhouse is on the PATH; run make engine to fetch one, install clickhouse on "+
		"the PATH, or use an existing server with --clickhouse DSN",
		ErrNotFound, strings.Join(missing, "; "))
}

// isLauncher tells Waybill's launcher from ClickHouse's own program by name.
func isLauncher(binary string) bool {
	return strings.HasPrefix(filepath.Base(binary), launcherName)
}

func onPath(name string, dirs []string) string {
	for _, dir := range dirs {
		// A relative entry would make the engine depend on the working directory.
		if candidate := filepath.Join(dir, name); filepath.IsAbs(dir) && isExecutable(candidate) {
			return candidate
		}
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&fs.FileMode(0o111) != 0
}
