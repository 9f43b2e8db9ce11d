package transparency

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// Server serves a ledger's log over HTTP in the layout of C2SP tlog-tiles. It
// only reads: any number of them may run, beside any sink.
type Server struct {
	Store  Store
	Origin string // whose checkpoints are served; "": there are none
	Log    zerolog.Logger
}

const (
	// immutable is for what never changes: tiles and entries.
	immutable = "public, max-age=31536000, immutable"
	// fresh is for the checkpoint, which changes every few seconds.
	fresh = "no-cache"
)

// Routes adds /log/checkpoint and /log/tile/ to mux.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /log/checkpoint", s.checkpoint)
	mux.HandleFunc("GET /log/tile/{path...}", s.tile)
}

func (s *Server) checkpoint(w http.ResponseWriter, r *http.Request) {
	if s.Origin == "" {
		http.Error(w, "nothing is signed here: this ledger-sink has no checkpoint key; make one with: waybill ledger key "+
			"generate", http.StatusNotFound)
		return
	}
	c, err := s.Store.LastCheckpoint(r.Context(), s.Origin)
	if errors.Is(err, ledger.ErrNotFound) {
		http.Error(w, "no checkpoint is signed yet: the first one follows the first records within seconds",
			http.StatusNotFound)
		return
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	signed, _, err := withCosignatures(r.Context(), s.Store, c)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", fresh)
	_, _ = w.Write([]byte(signed)) // the client went away
}

func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	s.Log.Warn().Err(err).Str("path", r.URL.Path).Msg(logevent.LedgerLogNotServed)
	http.Error(w, "the ledger cannot be read now; try again later", http.StatusServiceUnavailable)
}

// wanted is what a path asks for.
type wanted struct {
	tile    merkle.Tile
	width   int // hashes or entries: 256 in a full tile
	entries bool
}

// end is the size of the tree that has all of it.
func (q wanted) end() (size uint64, ok bool) {
	size = q.tile.Number*merkle.TileWidth + uint64(q.width)
	for range q.tile.Level {
		if size >= 1<<(63-merkle.TileHeight) {
			return 0, false
		}
		size *= merkle.TileWidth
	}
	return size, true
}

// parsePath reads what follows /log/tile/: L/N, L/N.p/W, entries/N or entries/N.p/W,
// N in groups of three digits (x001/x234/067).
func parsePath(path string) (wanted, error) {
	rest, entries := strings.CutPrefix(path, "entries/")
	if entries {
		rest = "data/" + rest
	} else if strings.HasPrefix(rest, "data/") {
		return wanted{}, errors.New("want LEVEL/NUMBER or entries/NUMBER")
	}
	// The layout of sumdb is the same, but for the tiles' height in front.
	t, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d/%s", merkle.TileHeight, rest))
	if err != nil {
		return wanted{}, fmt.Errorf("want LEVEL/NUMBER or entries/NUMBER, NUMBER in groups of three digits such as " +
			"x001/x234/067, for a partial tile with .p/WIDTH behind it")
	}
	if t.W == merkle.TileWidth && strings.Contains(path, ".p/") {
		return wanted{}, errors.New("a partial tile has 1 to 255 hashes")
	}
	return wanted{merkle.Tile{Level: max(t.L, 0), Number: uint64(t.N)}, t.W, entries}, nil
}

func (s *Server) tile(w http.ResponseWriter, r *http.Request) {
	q, err := parsePath(r.PathValue("path"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	last, err := s.Store.Last(r.Context())
	if err != nil {
		s.failed(w, r, err)
		return
	}
	end, ok := q.end()
	if !ok || end > last.Next {
		http.Error(w, fmt.Sprintf("the log has %d records: this tile is not that full yet", last.Next), http.StatusNotFound)
		return
	}
	read := s.hashes
	if q.entries {
		read = s.entries
	}
	b, err := read(r.Context(), q)
	if errors.Is(err, ledger.ErrDamaged) {
		s.Log.Warn().Err(err).Str("path", r.URL.Path).Msg(logevent.LedgerLogNotServed)
		http.Error(w, "records of this tile are not in the ledger: they were retired, or the ledger is damaged",
			http.StatusNotFound)
		return
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", immutable)
	_, _ = w.Write(b) // the client went away
}

func (s *Server) hashes(ctx context.Context, q wanted) ([]byte, error) {
	first := q.tile.Number * merkle.TileWidth
	hashes, err := merkle.NewReader(ctx, s.Store).Hashes(q.tile.Level, first, first+uint64(q.width))
	if err != nil {
		return nil, err
	}
	return merkle.Join(hashes), nil
}

// entries are a bundle: each entry behind its length, 16 bits, big endian.
func (s *Server) entries(ctx context.Context, q wanted) ([]byte, error) {
	first := q.tile.Number * merkle.TileWidth
	var b []byte
	err := s.Store.Entries(ctx, first, first+uint64(q.width), func(_ uint64, entry []byte) error {
		b = binary.BigEndian.AppendUint16(b, uint16(len(entry)))
		b = append(b, entry...)
		return nil
	})
	return b, err
}
