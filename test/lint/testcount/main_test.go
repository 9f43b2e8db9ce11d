package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheCountAndTheStatusSayWhatHappened(t *testing.T) {
	const pass = "package x\nimport \"testing\"\nfunc TestOne(t *testing.T) { t.Run(\"a\", func(*testing.T) {}) }\n"
	cases := []struct {
		name, source string
		status       int
		want         []string
	}{
		{"all pass", pass, 0, []string{"2 passed, 0 failed\n"}},
		{"one fails", pass + `func TestTwo(t *testing.T) { t.Error("because") }`, 1,
			[]string{"2 passed, 1 failed\n", "because", "failed: x TestTwo"}},
		{"one is skipped", pass + `func TestTwo(t *testing.T) { t.Skip("tired") }`, 1,
			[]string{"2 passed, 1 failed\n", "was skipped", "tired"}},
		{"one panics", pass + `func TestTwo(t *testing.T) { panic("ouch") }`, 1, []string{"1 failed\n", "ouch"}},
		{"the process ends in a test", "package x\nimport (\"os\"; \"testing\")\nfunc TestTwo(t *testing.T) { os.Exit(3) }",
			1, []string{"0 passed, 1 failed\n"}},
		{"the process fails after its tests", pass + "func TestMain(m *testing.M) { m.Run(); panic(\"late\") }", 1,
			[]string{"2 passed, 1 failed\n", "late"}},
		{"it does not compile", "package x\nimport \"testing\"\nfunc TestOne(t *testing.T) { undefined() }", 1,
			[]string{"0 passed, 1 failed\n", "does not build", "undefined"}},
		{"there is no test", "package x", 1, []string{"0 passed, 0 failed\n"}},
		{"the module does not resolve", "package x\nimport _ \"example.invalid/y\"\nimport \"testing\"\nfunc TestOne(t " +
			"*testing.T) {}", 1, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.26\n", "x_test.go": c.source} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("GOFLAGS", "-mod=mod")
			t.Setenv("GOPROXY", "off")
			var out strings.Builder
			if got := run(context.Background(), []string{dir}, nil, nil, 3, &out); got != c.status {
				t.Errorf("status %d, want %d", got, c.status)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output lacks %q", want)
				}
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

func TestOneBrokenModuleFailsTheRunOfAll(t *testing.T) {
	good := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.26\n",
		"x_test.go": "package x\nimport \"testing\"\nfunc TestOne(*testing.T) {}"} {
		if err := os.WriteFile(filepath.Join(good, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if got := run(context.Background(), []string{good, filepath.Join(good, "missing")}, nil, nil, 3, &out); got != 1 {
		t.Errorf("status %d, want 1; output:\n%s", got, &out)
	}
	if !strings.Contains(out.String(), "1 passed, ") {
		t.Errorf("the good module was not counted:\n%s", &out)
	}
}

func TestThoseThatAreNamedRunFirst(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.26\n",
		"a/x_test.go": "package x\nimport \"testing\"\nfunc TestOne(*testing.T) {}",
		"b/x_test.go": "package x\nimport \"testing\"\nfunc TestOne(*testing.T) {}"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if got := run(context.Background(), []string{dir}, []string{"./b"}, []string{"-p", "1"}, 3, &out); got != 0 {
		t.Errorf("status %d", got)
	}
	a, b := strings.Index(out.String(), "pass x/a"), strings.Index(out.String(), "pass x/b")
	if b < 0 || a < b || !strings.Contains(out.String(), "2 passed, 0 failed") {
		t.Errorf("each once, b before a:\n%s", &out)
	}
}
