package transparency_test

import (
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/ledger/transparency"
)

func (h *harness) serve(origin string) string {
	h.t.Helper()
	mux := http.NewServeMux()
	(&transparency.Server{Store: h.db, Origin: origin, Log: zerolog.New(h.log)}).Routes(mux)
	s := httptest.NewServer(mux)
	h.t.Cleanup(s.Close)
	return s.URL
}

func get(t *testing.T, url string) (int, http.Header, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

func TestTheLogIsServedAsTiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	url := h.serve(origin)
	if status, _, text := get(t, url+"/log/checkpoint"); status != http.StatusNotFound ||
		!strings.Contains(text, "no checkpoint is signed yet") {
		t.Errorf("before the first record: %d %s", status, text)
	}
	if status, _, text := get(t, h.serve("")+"/log/checkpoint"); status != http.StatusNotFound ||
		!strings.Contains(text, "waybill ledger key generate") {
		t.Errorf("without a key: %d %s", status, text)
	}
	h.append(600) // 2 full tiles, and 88
	r := h.start(h.db, nil)
	c := h.waitSigned(600)
	r.end()
	status, header, text := get(t, url+"/log/checkpoint")
	if status != http.StatusOK || text != c.Note || header.Get("Content-Type") != "text/plain; charset=utf-8" ||
		header.Get("Cache-Control") != "no-cache" {
		t.Errorf("checkpoint: %d %v\n%s", status, header, text)
	}
	tile := func(from, to int) string { return string(merkle.Join(h.leaves[from:to])) }
	above := string(merkle.Join([]tlog.Hash{merkle.Root(h.leaves[:256]), merkle.Root(h.leaves[256:512])}))
	for path, want := range map[string]string{
		"0/000": tile(0, 256), "0/001": tile(256, 512), "0/002.p/88": tile(512, 600), "0/002.p/1": tile(512, 513),
		"0/000.p/255": tile(0, 255),
		"1/000.p/2":   above, "1/000.p/1": above[:32],
	} {
		status, header, got := get(t, url+"/log/tile/"+path)
		if status != http.StatusOK || got != want || header.Get("Content-Type") != "application/octet-stream" ||
			!strings.Contains(header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v, %d bytes, want %d", path, status, header, len(got), len(want))
		}
	}
	for path, status := range map[string]int{
		"0/002": 404, "0/002.p/89": 404, "0/003.p/1": 404, "1/000": 404, "1/000.p/3": 404, "2/000.p/1": 404,
		"62/000.p/1": 404, "8/x999/x999/x999/x999/x999/999.p/1": 404,
		"": 400, "0": 400, "0/2": 400, "0/000.p/256": 400, "0/000.p/0": 400, "0/000.p/": 400, "-1/000": 400, "00/000": 400,
		"0/x000/001": 400, "64/000": 404,
		"a/000": 400, "data/000": 400, "0/000.p/88.p/88": 400, "0/1000": 400, "entries/": 400, "entries/0": 400,
		"entries/003.p/1": 404, "entries/002": 404,
	} {
		if got, _, text := get(t, url+"/log/tile/"+path); got != status || len(strings.TrimSpace(text)) < 20 &&
			!strings.Contains(text, "page not found") {
			t.Errorf("%s: %d %q, want %d", path, got, text, status)
		}
	}
	for path, n := range map[string]int{"entries/000": 0, "entries/001": 256, "entries/002.p/88": 512} {
		_, _, bundle := get(t, url+"/log/tile/"+path)
		for i := n; len(bundle) > 0; i++ {
			size := int(binary.BigEndian.Uint16([]byte(bundle)))
			if tlog.RecordHash([]byte(bundle[2:2+size])) != h.leaves[i] {
				t.Fatalf("%s: entry %d is %q", path, i, bundle[2:2+size])
			}
			bundle = bundle[2+size:]
			n++
		}
		if n != 256 && n != 512 && n != 600 {
			t.Errorf("%s ends at %d", path, n)
		}
	}
}

// retired is a store whose first records are gone; their tiles stay.
type retired struct{ transparency.Store }

func (retired) Entries(context.Context, uint64, uint64, func(uint64, []byte) error) error {
	return ledger.ErrDamaged
}

type away struct{ transparency.Store }

func (away) Last(context.Context) (ledger.Position, error) {
	return ledger.Position{}, ledger.ErrUnavailable
}

func TestWhatIsGoneOrAwayIsSaid(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.append(300)
	r := h.start(h.db, nil)
	h.waitSigned(300)
	r.end()
	for store, want := range map[transparency.Store]string{retired{h.db}: "404 records of this tile",
		away{h.db}: "503 the ledger cannot be read now"} {
		mux := http.NewServeMux()
		(&transparency.Server{Store: store, Origin: origin, Log: zerolog.Nop()}).Routes(mux)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/log/tile/entries/000", nil))
		if got := w.Result().Status[:4] + w.Body.String(); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	mux := http.NewServeMux()
	(&transparency.Server{Store: retired{h.db}, Origin: origin, Log: zerolog.Nop()}).Routes(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/log/tile/0/000", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 8192 {
		t.Errorf("the tile of retired records: %d", w.Code)
	}
}
