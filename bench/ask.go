package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// catchUp waits until ClickHouse has every record.
func (s scenario) catchUp(ctx context.Context, w *waybill, out *result) error {
	behind := time.Now()
	if s.Outage == outageClickHouse {
		if err := w.signalEngine(syscall.SIGCONT); err != nil {
			return err
		}
	}
	if err := w.ledgerCaughtUp(ctx); err != nil {
		return fmt.Errorf("the ledger did not catch up: %w", err)
	}
	out.LedgerCaughtUpAfterS = time.Since(behind).Seconds()
	if s.Outage != outageClickHouse {
		return nil
	}
	records, err := w.query("SELECT count() FROM records")
	out.CatchUpPerS = records / out.LedgerCaughtUpAfterS
	return err
}

// size asks how much disk the ledger takes for each attempt, after a merge.
func size(w *waybill, out *result, made float64) error {
	if _, err := w.ask("OPTIMIZE TABLE records FINAL"); err != nil {
		return err
	}
	bytes, err := w.query("SELECT sum(bytes_on_disk) FROM system.parts WHERE database = 'waybill' AND table IN " +
		"('records', 'tiles', 'checkpoints') AND active")
	out.LedgerBytes = bytes / made
	return err
}

// lateness asks the ledger how late retries started.
func lateness(w *waybill, out *result) error {
	const late = `SELECT %s FROM (SELECT dateDiff('microsecond', due, started_at) / 1000 AS late FROM (
		SELECT attempt, started_at, lagInFrame(next_attempt_at) OVER (PARTITION BY event_id, endpoint_id ORDER BY attempt) AS due
		FROM attempts) WHERE attempt > 1 AND due IS NOT NULL)`
	for expression, into := range map[string]*float64{"quantile(0.5)(late)": &out.LatenessP50,
		"quantile(0.99)(late)": &out.LatenessP99} {
		n, err := w.query(fmt.Sprintf(late, "if(count() = 0, 0, "+expression+")"))
		if err != nil {
			return err
		}
		*into = n
	}
	n, err := w.query(fmt.Sprintf(late, "count()"))
	out.Retries = int(n)
	return err
}

// stations asks the ledger where the time of first attempts went.
func stations(w *waybill, out *result) error {
	const expand = `SELECT if(count() = 0, 0, quantile(%g)(dateDiff('microsecond', stored_at, at)) / 1000) FROM records
		WHERE kind = 'event.accepted' AND event_type = '` + loadType + `'`
	const start = `SELECT if(count() = 0, 0, quantile(%g)(dateDiff('microsecond', owed_at, first_at)) / 1000) FROM (
		SELECT minIf(at, kind = 'delivery.owed') AS owed_at, minIf(started_at, kind = 'attempt') AS first_at FROM records
		WHERE kind IN ('delivery.owed', 'attempt') AND event_type = '` + loadType +
		`' GROUP BY event_id, endpoint_id HAVING first_at > owed_at)`
	for _, q := range []struct {
		sql  string
		of   float64
		into *float64
	}{{expand, 0.5, &out.ExpandP50}, {expand, 0.99, &out.ExpandP99}, {start, 0.5, &out.StartP50},
		{start, 0.99, &out.StartP99}} {
		n, err := w.query(fmt.Sprintf(q.sql, q.of))
		if err != nil {
			return err
		}
		*q.into = n
	}
	return nil
}
