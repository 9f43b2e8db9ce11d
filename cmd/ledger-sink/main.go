// Command ledger-sink carries every record from LEDGER into ClickHouse.
package main

import (
	"context"
	"os"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledgersink"
	"github.com/waybill-dev/waybill/internal/process"
)

func main() {
	var o ledgersink.Options
	var dsn string
	os.Exit(process.Execute(process.StageCommand{
		Name:  "ledger-sink",
		Short: "Carry every record from LEDGER into ClickHouse",
		Long: `Carries every record from LEDGER into ClickHouse: each once, in order. One sink
writes at a time; any number beside it stand by and take over within seconds.
ClickHouse may be away: LEDGER keeps everything until it is back.`,
		Example: `  ledger-sink --nats-url nats://127.0.0.1:4222 --clickhouse clickhouse://127.0.0.1:9000/waybill`,
		HTTP:    "127.0.0.1:8084",
		Bind: func(f *pflag.FlagSet) {
			f.StringVar(&dsn, "clickhouse", "clickhouse://127.0.0.1:9000/"+ledger.DefaultDatabase, "ClickHouse, native protocol: clickhouse://user:password@host:port/database")
			f.IntVar(&o.BatchRecords, "batch-records", ledgersink.DefaultBatchRecords, "most records in one insert")
			f.IntVar(&o.BatchBytes, "batch-bytes", ledgersink.DefaultBatchBytes, "an insert ends at this many bytes")
			f.DurationVar(&o.BatchAge, "batch-age", ledgersink.DefaultBatchAge, "longest time that a record waits for an insert to fill up")
			f.DurationVar(&o.Keep, "keep", ledgersink.DefaultKeep, "how long LEDGER keeps what ClickHouse already has")
		},
		Run: func(ctx context.Context, env *process.Env) error {
			db, err := ledger.New(dsn)
			if err != nil {
				return &process.UsageError{Err: err}
			}
			env.Cleanup.Push("clickhouse", env.Settings.Drain, func(context.Context) error { return db.Close() })
			o.NATS, o.Ledger, o.Log, o.Registerer = env.NATS, db, env.Log, env.Metrics
			stage, err := ledgersink.New(o)
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
