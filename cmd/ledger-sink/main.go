// Command ledger-sink carries every record from LEDGER into ClickHouse, and
// makes the ledger a transparency log.
package main

import (
	"context"
	"os"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/internal/ledger/transparency"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

func main() {
	var o sink.Options
	var log transparency.Settings
	var dsn string
	os.Exit(process.Execute(process.StageCommand{
		Name:  "ledger-sink",
		Short: "Carry every record from LEDGER into ClickHouse",
		Long: `Carries every record from LEDGER into ClickHouse: each once, in order. One sink
writes at a time; any number beside it stand by and take over within seconds.
ClickHouse may be away: LEDGER keeps everything until it is back.

It grows a Merkle tree over the records and, with --checkpoint-key, signs
checkpoints of it. Both are served on --http: /log/checkpoint, /log/tile/…
(C2SP tlog-tiles). Give every sink of a deployment the same key file.`,
		Example: `  ledger-sink --nats-url nats://127.0.0.1:4222 --clickhouse clickhouse://127.0.0.1:9000/waybill --checkpoint-key /etc/waybill/checkpoint.key`,
		HTTP:    "127.0.0.1:8084",
		Streams: []string{streams.Ledger},
		Bind: func(f *pflag.FlagSet) {
			f.StringVar(&dsn, "clickhouse", "clickhouse://127.0.0.1:9000/"+ledger.DefaultDatabase,
				"ClickHouse, native protocol: clickhouse://user:password@host:port/database")
			f.IntVar(&o.BatchRecords, "batch-records", sink.DefaultBatchRecords, "most records in one insert")
			f.IntVar(&o.BatchBytes, "batch-bytes", sink.DefaultBatchBytes, "an insert ends at this many bytes")
			f.DurationVar(&o.BatchAge, "batch-age", sink.DefaultBatchAge, "longest time that a record waits for an insert to "+
				"fill up; the first after a pause, and those that somebody asks for, wait much less")
			f.DurationVar(&o.Keep, "keep", sink.DefaultKeep, "how long LEDGER keeps what ClickHouse already has")
			log.Bind(f, "default: none, and nothing is signed")
		},
		Check: log.Check,
		Run: func(ctx context.Context, env *process.Env) error {
			db, err := ledger.New(dsn)
			if err != nil {
				return &process.UsageError{Err: err}
			}
			env.Cleanup.Push("clickhouse", env.Settings.Drain, func(context.Context) error { return db.Close() })
			tree, err := openLog(env, db, &log)
			if err != nil {
				return err
			}
			o.NATS, o.Ledger, o.Log, o.Registerer, o.Tree = env.NATS, db, env.Log, env.Metrics, tree
			o.LostEndpoints = db.LostEndpoints
			stage, err := sink.New(o)
			if err != nil {
				return err
			}
			env.Health.Add("ledger-sink", func(context.Context) error { return stage.Ready() })
			if err := env.Serve(); err != nil {
				return err
			}
			return stage.Run(ctx)
		},
	}.Command(), os.Args[1:], os.Stderr))
}

// openLog opens the transparency log over the ledger and adds its routes.
func openLog(env *process.Env, db *ledger.DB, s *transparency.Settings) (*transparency.Log, error) {
	o, err := s.Options()
	if err != nil {
		return nil, err
	}
	server := transparency.Server{Store: db, Log: env.Log}
	if o.Keys == nil {
		env.Log.Warn().Msg(logevent.LedgerLogNoKey +
			": tiles are stored, no checkpoint is signed; make a key with: waybill ledger " +
			"key generate, and name it with --checkpoint-key")
	} else {
		server.Origin = o.Keys.Origin()
		env.Log.Info().Str("origin", server.Origin).Str("verifier", o.Keys.List()[0].Verifier).Msg(logevent.LedgerLogKey)
	}
	o.Store, o.NATS, o.Log, o.Registerer = db, env.NATS, env.Log, env.Metrics
	log, err := transparency.New(o)
	if err != nil {
		return nil, err
	}
	env.Health.AddNote("ledger-log", log.Note)
	server.Routes(env.Mux)
	return log, nil
}
