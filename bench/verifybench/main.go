// Command verifybench fills a ledger with realistic records, their tiles and a
// signed checkpoint, and measures how fast it is verified.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/ledger/verify"
)

func main() {
	rows := flag.Int("rows", 10_000_000, "`records` to make")
	dir := flag.String("dir", "", "engine `directory`, kept with its ledger for the next run; default a temporary one, "+
		"removed at the end")
	times := flag.Int("times", 3, "how `often` to verify")
	workers := flag.Int("workers", 0, "readers at once; default one more than cores")
	profile := flag.String("cpuprofile", "", "`file` for a profile of this process's processor time")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "verifybench:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	if err := run(ctx, *rows, *dir, *times, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "verifybench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rows int, dir string, times, workers int) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "verifybench-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	e, err := engine.Start(ctx, engine.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer e.Stop(context.Background())
	dsn := e.DSN("", fmt.Sprintf("verifybench_%d", rows))
	db, err := ledger.Open(ctx, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	key, err := fill(ctx, db, dsn, rows, filepath.Join(dir, fmt.Sprintf("bench-%d.key", rows)))
	if err != nil {
		return err
	}
	for range times {
		before := spent(e.Pid())
		r, err := verify.Run(ctx, &ledger.Verified{DB: db},
			verify.Options{Now: time.Now(), Name: "bench", Workers: workers, Keys: []note.Verifier{key}})
		if err != nil {
			return err
		}
		after := spent(e.Pid())
		each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(max(r.Read, 1)) }
		fmt.Printf("%d records verified in %.2f s, %.0f records/s; processor time per record: %.2f µs here, %.2f µs in "+
			"ClickHouse; good %v, %d findings\n",
			r.Read, r.Seconds, float64(r.Read)/r.Seconds, each(after.ours-before.ours), each(after.engine-before.engine), r.Good,
			len(r.Findings))
		for i, f := range r.Findings {
			if i < 5 {
				fmt.Printf("  %+v\n", f)
			}
		}
	}
	return nil
}

// fill makes the ledger, unless the directory holds one of an earlier run, and
// returns the key that signed it.
func fill(ctx context.Context, db *ledger.DB, dsn string, rows int, keyFile string) (note.Verifier, error) {
	last, err := db.Last(ctx)
	if err != nil {
		return nil, err
	}
	if last.Next == uint64(rows) {
		public, err := os.ReadFile(keyFile)
		if err != nil {
			return nil, fmt.Errorf("the ledger is there and its key is not; remove the directory: %w", err)
		}
		return checkpoint.NewVerifier(string(public))
	}
	o, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	o.ReadTimeout = time.Hour
	conn, err := clickhouse.Open(o)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	began := time.Now()
	for _, statement := range []string{fmt.Sprintf(recordsSQL, rows), tilesSQL} {
		if err := conn.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	if err := tree(ctx, db, rows); err != nil {
		return nil, err
	}
	key, err := sign(ctx, db, rows, keyFile)
	fmt.Printf("%d records made in %v\n", rows, time.Since(began).Round(time.Second))
	return key, err
}

// tree stores the tiles above level 0.
func tree(ctx context.Context, db *ledger.DB, rows int) error {
	count := rows / merkle.TileWidth
	for level := 1; count >= merkle.TileWidth; level++ {
		var roots []tlog.Hash
		err := db.TileHashes(ctx, level-1, 0, uint64(count), func(_ uint64, hashes []tlog.Hash) error {
			roots = append(roots, merkle.Root(hashes))
			return nil
		})
		if err != nil {
			return err
		}
		count /= merkle.TileWidth
		if err := db.AppendTiles(ctx, level, 0, roots[:count*merkle.TileWidth]); err != nil {
			return err
		}
	}
	return nil
}

func sign(ctx context.Context, db *ledger.DB, rows int, keyFile string) (note.Verifier, error) {
	private, public, err := note.GenerateKey(nil, "example.com/bench")
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, err
	}
	key, err := checkpoint.NewVerifier(public)
	if err != nil {
		return nil, err
	}
	reader := merkle.NewReader(ctx, db)
	const each = 200 // checkpoints
	for i := range each {
		size := uint64(rows) * uint64(i+1) / each
		root, err := reader.TreeHash(size)
		if err != nil {
			return nil, err
		}
		c := checkpoint.Checkpoint{Origin: "example.com/bench", Size: size, Root: root}
		b, err := note.Sign(&note.Note{Text: c.Text()}, signer)
		if err != nil {
			return nil, err
		}
		err = db.AppendCheckpoint(ctx, ledger.Checkpoint{Size: c.Size, At: time.Now(), Origin: c.Origin,
			Key: checkpoint.KeyID(key), Root: root, Note: string(b)})
		if err != nil {
			return nil, err
		}
	}
	return key, os.WriteFile(keyFile, []byte(public), 0o600)
}
