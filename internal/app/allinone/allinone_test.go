package allinone

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/streams"
)

func TestSyncIsAlwaysOrADuration(t *testing.T) {
	for s, want := range map[string]Sync{"always": {Always: true}, "1s": {Interval: time.Second},
		"250ms": {Interval: 250 * time.Millisecond}} {
		if got, err := ParseSync(s); err != nil || got != want {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "never", "0s", "-1s", "1"} {
		if _, err := ParseSync(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}

func TestOneProcessUsesADataDirectoryAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	if Running(path) {
		t.Error("it runs before it exists")
	}
	first, err := openDataDir(path, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	if !Running(path) {
		t.Error("it does not run")
	}
	if err := WriteAddresses(first.join(AddressesName), Addresses{HTTP: "127.0.0.1:8080"}); err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(path, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "127.0.0.1:8080") {
		t.Errorf("a second one: %v", err)
	}
	if _, err := os.Stat(first.join(AddressesName)); err != nil {
		t.Errorf("the second one touched the addresses: %v", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	if Running(path) {
		t.Error("it still runs")
	}
	again, err := openDataDir(path, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if _, err := os.Stat(again.join(AddressesName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("addresses of an earlier run are still there: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestTheNameOfAnInstallationLasts(t *testing.T) {
	d := &dataDir{path: t.TempDir()}
	first, err := d.installationName()
	if err != nil || first == "" {
		t.Fatal(first, err)
	}
	if again, err := d.installationName(); err != nil || again != first {
		t.Errorf("%s, then %s, %v", first, again, err)
	}
}

func TestAnErrorOfTheDataDirectorySaysWhatToDo(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EROFS:   "read-only file system",
		syscall.EACCES:  "not writable for this user",
		syscall.ENOSPC:  "full disk",
		syscall.ENOTDIR: "a file is in the way",
		syscall.EIO:     "input/output error",
	} {
		got := dataDirError("/d", &fs.PathError{Op: "mkdir", Path: "/d", Err: err})
		if !errors.Is(got, err) || !strings.Contains(got.Error(), want) ||
			!strings.HasSuffix(got.Error(), "with --data-dir") {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestAddressesAreThereWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	want := Addresses{HTTP: "127.0.0.1:1", NATS: "127.0.0.1:2", ClickHouseDSN: "clickhouse://u:secret@h:9000", PID: 7}
	if err := WriteAddresses(path, want); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	got, err := ReadAddresses(path)
	if err != nil || got.HTTP != want.HTTP || got.ClickHouseDSN != want.ClickHouseDSN {
		t.Errorf("%+v, %v", got, err)
	}
	if got.Public().ClickHouseDSN != "" {
		t.Error("a password is public")
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".addresses*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := WriteAddresses(filepath.Join(path, "below"), want); err == nil ||
		!strings.HasSuffix(err.Error(), "choose another with --addresses") {
		t.Errorf("%v", err)
	}
}

func newWaybill() *Waybill { return &Waybill{failed: make(chan struct{})} }

func TestAPartThatEndsByItselfIsAFailureOfTheWhole(t *testing.T) {
	for name, ends := range map[string]error{"with an error": errors.New("worn out"), "without one": nil} {
		t.Run(name, func(t *testing.T) {
			w := newWaybill()
			w.work("fanout", time.Second, func(context.Context) error { return ends })
			err := w.Wait(t.Context())
			if err == nil || !strings.Contains(err.Error(), "fanout stopped working") || ends != nil && !errors.Is(err, ends) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestAPartThatIsToldToEndIsNoFailure(t *testing.T) {
	w := newWaybill()
	w.work("fanout", time.Second, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if err := w.cleanup.Run(zerolog.Nop()); err != nil {
		t.Error(err)
	}
	select {
	case <-w.failed:
		t.Error(w.cause)
	default:
	}
}

func TestAPartThatDoesNotEndIsLeftBehindAfterItsBound(t *testing.T) {
	w := newWaybill()
	release := make(chan struct{})
	defer close(release)
	w.work("stuck", time.Millisecond, func(context.Context) error { <-release; return nil })
	if err := w.cleanup.Run(zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "stuck: not stopped after 1ms") {
		t.Errorf("%v", err)
	}
}

// start runs a NATS server in a directory until the test ends.
func start(t *testing.T, dir string) (*natsServer, jetstream.JetStream) {
	t.Helper()
	n, err := startNATS("127.0.0.1:0", dir, Sync{Interval: time.Second}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	nc, err := n.connect(t.Context(), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return n, js
}

func TestTheServerListensOnLoopbackAndTakesTheTopology(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nats")
	n, js := start(t, dir)
	host, _, err := net.SplitHostPort(n.address())
	if err != nil || !net.ParseIP(host).IsLoopback() {
		t.Errorf("it listens on %s", n.address())
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	ctx := t.Context()
	if have, err := streams.Partitions(ctx, js); err != nil || have != 0 {
		t.Errorf("an empty server has %d partitions, %v", have, err)
	}
	if _, err := streams.Apply(ctx, js, streams.Options{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[int]int{0: 3, 3: 3, 12: 12} {
		if got, err := streams.ChoosePartitions(ctx, js, asked); err != nil || got != want {
			t.Errorf("asked for %d: %d, %v", asked, got, err)
		}
	}
	if _, err := streams.ChoosePartitions(ctx, js, 2); err == nil || !strings.Contains(err.Error(), "strand") {
		t.Errorf("fewer partitions: %v", err)
	}
}

func TestAServerWithoutJetStreamIsOfNoMoreUse(t *testing.T) {
	n, _ := start(t, t.TempDir())
	if err := n.server.DisableJetStream(); err != nil {
		t.Fatal(err)
	}
	if err := n.watch(t.Context()); err == nil || !strings.Contains(err.Error(), "JetStream took itself out of service") {
		t.Errorf("%v", err)
	}
}

func TestAListenAddressIsHostAndPort(t *testing.T) {
	for _, bad := range []string{"", "8080", "localhost", "127.0.0.1:-1", "127.0.0.1:65536", "127.0.0.1:http"} {
		if _, _, err := splitAddress("http", bad); err == nil || !strings.Contains(err.Error(), "--http") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if host, port, err := splitAddress("http", "[::1]:0"); err != nil || host != "::1" || port != 0 {
		t.Errorf("%s %d %v", host, port, err)
	}
}

func TestADataDirectoryIsKnownByWhatACopyKeeps(t *testing.T) {
	for _, c := range []struct {
		names   string
		foreign string
	}{
		{"", ""},
		{"lost+found", ""},
		{"clickhouse keys lock name nats addresses.json", ""},
		{"clickhouse keys name nats", ""}, // copied without the lock
		{"clickhouse keys nats", ""},      // and without files that are short
		{"nats", ""},
		{"name notes.txt", ""},
		{"clickhouse notes.txt", "notes.txt"},
		{"letters", "letters"},
	} {
		if got := foreignName(strings.Fields(c.names)); got != c.foreign {
			t.Errorf("%q: foreign is %q, want %q", c.names, got, c.foreign)
		}
	}
}

func TestADataDirectoryCopiedWithoutItsLockOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	first, err := openDataDir(path, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	name, err := first.installationName()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(first.join(engineDir), 0o700), first.close(),
		os.Remove(first.join(lockName))); err != nil {
		t.Fatal(err)
	}
	again, err := openDataDir(path, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if kept, err := again.installationName(); err != nil || kept != name {
		t.Errorf("its name is %q, %v; want %q", kept, err, name)
	}
}
