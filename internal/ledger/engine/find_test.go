package engine_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/test/testkit"
)

func TestFindDecidesWhichEngineToUse(t *testing.T) {
	const library = "cache/chdb/" + engine.LibraryVersion + "/libchdb.so"
	type files []string // executables below the root
	for name, c := range map[string]struct {
		have   files
		search engine.Search // paths below the root
		want   engine.Location
		errors []string // parts of the error's text
	}{
		"the launcher beside the program comes first": {
			have: files{"app/waybill", "app/waybill-clickhouse", "bin/waybill-clickhouse", "cache/bin/waybill-clickhouse",
				"bin/clickhouse", library},
			want: engine.Location{Binary: "app/waybill-clickhouse", Library: library},
		},
		"then the one on the PATH": {
			have: files{"bin/waybill-clickhouse", "cache/bin/waybill-clickhouse", "bin/clickhouse", library},
			want: engine.Location{Binary: "bin/waybill-clickhouse", Library: library},
		},
		"then the one in the cache": {
			have: files{"cache/bin/waybill-clickhouse", "bin/clickhouse", library},
			want: engine.Location{Binary: "cache/bin/waybill-clickhouse", Library: library},
		},
		"a clickhouse on the PATH serves where the library is missing": {
			have: files{"cache/bin/waybill-clickhouse", "bin/clickhouse"},
			want: engine.Location{Binary: "bin/clickhouse"},
		},
		"a clickhouse on the PATH serves where the launcher is missing": {
			have: files{"bin/clickhouse", library},
			want: engine.Location{Binary: "bin/clickhouse"},
		},
		"an explicit library is used with the launcher that is found": {
			have:   files{"cache/bin/waybill-clickhouse", "mine/libchdb.so", library},
			search: engine.Search{Library: "mine/libchdb.so"},
			want:   engine.Location{Binary: "cache/bin/waybill-clickhouse", Library: "mine/libchdb.so"},
		},
		"an explicit launcher is used with the cached library": {
			have:   files{"mine/waybill-clickhouse-next", "app/waybill-clickhouse", library},
			search: engine.Search{Binary: "mine/waybill-clickhouse-next"},
			want:   engine.Location{Binary: "mine/waybill-clickhouse-next", Library: library},
		},
		"an explicit clickhouse wins over the library": {
			have:   files{"mine/clickhouse", "app/waybill-clickhouse", library},
			search: engine.Search{Binary: "mine/clickhouse"},
			want:   engine.Location{Binary: "mine/clickhouse"},
		},
		"an explicit library that is not there is an error, not a fallback": {
			have: files{"bin/clickhouse", "app/waybill-clickhouse", library}, search: engine.Search{Library: "mine/libchdb.so"},
			errors: []string{"WAYBILL_LIBCHDB", "mine/libchdb.so"},
		},
		"an explicit binary that is not there is an error, not a fallback": {
			have: files{"bin/clickhouse"}, search: engine.Search{Binary: "mine/clickhouse"},
			errors: []string{"WAYBILL_ENGINE_BINARY", "mine/clickhouse"},
		},
		"an explicit library without a launcher does not fall back to clickhouse": {
			have: files{"bin/clickhouse", "mine/libchdb.so"}, search: engine.Search{Library: "mine/libchdb.so"},
			errors: []string{"waybill-clickhouse is not", "make engine"},
		},
		"nothing at all names what is missing and three ways forward": {
			errors: []string{"libchdb.so", "waybill-clickhouse", "make engine", "clickhouse on the PATH", "--clickhouse DSN"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, file := range c.have {
				path := filepath.Join(root, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			below := func(path string) string {
				if path == "" {
					return ""
				}
				return filepath.Join(root, path)
			}
			got, err := engine.Find(engine.Search{
				Library: below(c.search.Library), Binary: below(c.search.Binary),
				Executable: below("app/waybill"), Path: []string{"bin", below("bin")}, Cache: below("cache"),
			})
			if want := (engine.Location{Binary: below(c.want.Binary), Library: below(c.want.Library)}); got != want {
				t.Errorf("got %+v (%v), want %+v", got, err, want)
			}
			if (err == nil) != (len(c.errors) == 0) {
				t.Fatalf("error: %v", err)
			}
			for _, part := range c.errors {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

func TestTheCacheIsWhereTheEnvironmentSaysIt(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"WAYBILL_CACHE first": {map[string]string{"WAYBILL_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"},
		"then XDG_CACHE_HOME": {map[string]string{"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/waybill"},
		"then HOME":           {map[string]string{"HOME": "/c"}, "/c/.cache/waybill"},
		"else nowhere":        {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := engine.SearchFromEnv(func(key string) string { return c.env[key] }).Cache; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheLibraryVersionIsTheOneThatIsFetched(t *testing.T) {
	data, err := os.ReadFile(testkit.Path(t, "third_party/chdb/package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Dependencies map[string]string }
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	release, _, _ := strings.Cut(manifest.Dependencies["@chdb/lib-linux-x64-gnu"], "-")
	if release != engine.LibraryVersion {
		t.Errorf("package.json pins %q, LibraryVersion is %q", release, engine.LibraryVersion)
	}
}
