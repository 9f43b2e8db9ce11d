package compose

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestEveryBinaryButTheEnginesLauncherIsStatic(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root, "cmd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(commands, e.Name()) {
			t.Errorf("cmd/%s is not tested here", e.Name())
		}
	}
	for _, name := range commands {
		t.Run(name, func(t *testing.T) {
			static := name != "waybill-clickhouse"
			if got := interpreter(t, filepath.Join(bin, name)) == ""; got != static {
				t.Errorf("static: %v, want %v", got, static)
			}
			info, err := buildinfo.ReadFile(filepath.Join(bin, name))
			if err != nil {
				t.Fatal(err)
			}
			purego := false
			for _, m := range info.Deps {
				purego = purego || m.Path == "github.com/ebitengine/purego"
			}
			if purego == static {
				t.Errorf("links purego: %v, want %v", purego, !static)
			}
		})
	}
}

// interpreter is the dynamic linker that a program asks for.
func interpreter(t *testing.T, path string) string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b := make([]byte, p.Filesz)
			if _, err := p.ReadAt(b, 0); err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
	}
	return ""
}
