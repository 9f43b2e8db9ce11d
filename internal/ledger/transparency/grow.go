package transparency

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// errTiles says that a tile that is stored is not the one that follows from the
// records: it is ErrDamaged.
var errTiles = fmt.Errorf("%w: a stored tile does not follow from the records; find what is wrong with: waybill "+
	"ledger verify", ledger.ErrDamaged)

// errNotTaken says that tiles were inserted and are not there.
var errNotTaken = errors.New("tiles that were inserted are not in ClickHouse")

// growth is a frontier that stores its tiles.
type growth struct {
	frontier
	log *Log
	// have counts the tiles that are stored: more than the frontier's while the
	// ledger is shorter than it was, as after a restored backup.
	have []uint64
}

// restore builds the frontier from the stored tiles. The records behind them are
// filled in from ClickHouse.
func (l *Log) restore(ctx context.Context) (*growth, error) {
	have, err := l.o.Store.Tiled(ctx)
	if err != nil {
		return nil, err
	}
	g := &growth{log: l, have: have}
	from := restorable(have, l.landed.Load())
	for level, n := range from {
		g.levels = append(g.levels, edge{stored: n})
		if level == 0 {
			g.size = n * merkle.TileWidth
			continue
		}
		if err := g.carry(ctx, level, n*merkle.TileWidth, from[level-1]); err != nil {
			return nil, err
		}
	}
	if len(from) > 0 { // the level above the highest that has a tile
		g.levels = append(g.levels, edge{})
		if err := g.carry(ctx, len(from), 0, from[len(from)-1]); err != nil {
			return nil, err
		}
	}
	// A level whose tiles are behind has full ones, which count in the level above.
	for level := 0; level < len(g.levels); level++ {
		for full := g.full(level); len(full) > 0; full = full[merkle.TileWidth:] {
			if level+1 == len(g.levels) {
				g.levels = append(g.levels, edge{})
			}
			above := &g.levels[level+1]
			above.hashes = append(above.hashes, merkle.Root(full[:merkle.TileWidth]))
		}
	}
	return g, nil
}

// carry makes a level's hashes from the tiles first to end-1 of the level below.
func (g *growth) carry(ctx context.Context, level int, first, end uint64) error {
	next := first
	err := g.log.o.Store.TileHashes(ctx, level-1, first, end, func(number uint64, hashes []tlog.Hash) error {
		if number != next {
			return fmt.Errorf("%w: tile %d of level %d is missing or there twice; find what is wrong with: waybill ledger verify", ledger.ErrDamaged, min(next, number), level-1)
		}
		next++
		e := &g.levels[level]
		e.hashes = append(e.hashes, merkle.Root(hashes))
		return nil
	})
	if err == nil && next != end {
		err = fmt.Errorf("%w: tile %d of level %d is missing; find what is wrong with: waybill ledger verify",
			ledger.ErrDamaged, next, level-1)
	}
	return err
}

// take adds rows that have landed, and what was missed before them.
func (g *growth) take(ctx context.Context, rows []ledger.Row) error {
	if err := g.fill(ctx, rows[0].Idx); err != nil {
		return err
	}
	for i := range rows {
		if r := &rows[i]; r.Idx == g.size {
			g.add(merkle.LeafHash(r.StreamEpoch, r.StreamSeq, r.Body))
		}
	}
	return g.storeMany(ctx)
}

// fill adds the records up to end from ClickHouse.
func (g *growth) fill(ctx context.Context, end uint64) error {
	first, said := g.size, time.Now()
	for g.size < end {
		err := g.log.o.Store.Entries(ctx, g.size, min(end, g.size+entriesAtOnce), func(_ uint64, entry []byte) error {
			g.add(tlog.RecordHash(entry))
			return nil
		})
		if err != nil {
			return err
		}
		if err := g.storeMany(ctx); err != nil {
			return err
		}
		if time.Since(said) >= progressEvery {
			said = time.Now()
			g.log.o.Log.Info().Uint64("records", g.size).Uint64("of", end).Msg(logevent.LedgerLogBackFilling)
		}
	}
	if n := g.size - min(first, g.size); n > entriesAtOnce {
		g.log.o.Log.Info().Uint64("records", g.size).Uint64("added", n).Msg(logevent.LedgerLogBackFilled)
	}
	return nil
}

func (g *growth) storeMany(ctx context.Context) error {
	if g.fullTiles() < tilesAtOnce {
		return nil
	}
	return g.store(ctx)
}

// store puts every full tile into ClickHouse, from the lowest level up. Dying
// anywhere in between leaves a level that is behind the one below, which the
// next restore makes good.
func (g *growth) store(ctx context.Context) error {
	for level := range g.levels {
		for len(g.full(level)) > 0 {
			if err := g.storeSome(ctx, level); err != nil {
				return err
			}
		}
	}
	return nil
}

// storeSome stores the first of a level's full tiles, or finds them stored.
func (g *growth) storeSome(ctx context.Context, level int) error {
	hashes, first := g.full(level), g.levels[level].stored
	for level >= len(g.have) {
		g.have = append(g.have, 0)
	}
	if there := g.have[level]; there > first {
		n := int(min(there-first, uint64(len(hashes)/merkle.TileWidth), tilesAtOnce))
		if err := g.compare(ctx, level, first, hashes[:n*merkle.TileWidth]); err != nil {
			return err
		}
		g.stored(level, n)
		return nil
	}
	if err := g.log.o.Store.AppendTiles(ctx, level, first, hashes); err != nil {
		return err
	}
	// What landed may be another insert that began at the same tile.
	have, err := g.log.o.Store.Tiled(ctx)
	if err != nil {
		return err
	}
	if level >= len(have) || have[level] <= first {
		return fmt.Errorf("%w: tile %d of level %d", errNotTaken, first, level)
	}
	g.have = have
	n := int(min(have[level]-first, uint64(len(hashes)/merkle.TileWidth)))
	g.log.metrics.tiles.Add(float64(n))
	g.stored(level, n)
	return nil
}

// compare says whether tiles that are stored already are the same.
func (g *growth) compare(ctx context.Context, level int, first uint64, hashes []tlog.Hash) error {
	var want []merkle.Tile
	for i := range len(hashes) / merkle.TileWidth {
		want = append(want, merkle.Tile{Level: level, Number: first + uint64(i)})
	}
	got, err := g.log.o.Store.Tiles(ctx, want)
	if err != nil {
		return err
	}
	for i, t := range want {
		if !bytes.Equal(merkle.Join(got[i]), merkle.Join(hashes[i*merkle.TileWidth:(i+1)*merkle.TileWidth])) {
			return fmt.Errorf("%w: tile %d of level %d", errTiles, t.Number, t.Level)
		}
	}
	return nil
}
