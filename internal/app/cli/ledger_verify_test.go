package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/internal/ledger/verify"
	"github.com/waybill-dev/waybill/test/testkit"
)

func TestALedgerIsVerifiedByCommand(t *testing.T) {
	e := testkit.StartClickHouseWith(t, engine.Options{Dir: t.TempDir()})
	dsn := e.DSN("", "waybill")
	db, err := ledger.Open(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key := fillLedger(t, db)
	file := filepath.Join(t.TempDir(), "ledger.pub")
	if err := os.WriteFile(file, []byte("# ours\n"+key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, "", "ledger", "verify", "--clickhouse", dsn, "--key", file, "--progress")
	if code != 0 || !strings.HasPrefix(out, "GOOD: records 0 to 9 are as they were signed.") ||
		!strings.Contains(out, "no checkpoint from outside") || !strings.Contains(errs, "10 of 10 records") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	code, out, _ = run(t, "", "ledger", "verify", "--clickhouse", dsn, "--key", file, "--from", "3", "--to", "5")
	if code != 0 || !strings.HasPrefix(out, "GOOD: records 3 to 4 are as they were signed.") ||
		!strings.Contains(out, "asked for    records 3 to 4; whole tiles of 256 are checked: records 0 to 9\n") {
		t.Errorf("a part: exit %d, %s", code, out)
	}
	code, out, _ = run(t, "", "ledger", "verify", "--clickhouse", dsn)
	firstLine, _, _ := strings.Cut(out, "\n")
	if code != 0 || !strings.HasPrefix(firstLine, "GOOD in itself: ") ||
		!strings.Contains(firstLine, "NOTHING IS PROVEN about who signed") ||
		!strings.Contains(out, "could have made these checkpoints too") {
		t.Errorf("without a key: exit %d, %s", code, out)
	}
	testkit.Exec(t, e, "ALTER TABLE waybill.records UPDATE status = 204 WHERE idx = 4 SETTINGS mutations_sync = 2")
	code, out, errs = run(t, "", "ledger", "verify", "--clickhouse", dsn, "--key", key)
	if code != 1 || !strings.HasPrefix(out, "NOT GOOD: 1 finding.") || !strings.Contains(out, `record 4 (att_4)`) ||
		!strings.Contains(out, `status: the column says "204", the record says "200"`) ||
		!strings.Contains(out, "remembers a change of table records") || !strings.Contains(errs, "not proven good") {
		t.Errorf("altered: exit %d, %s%s", code, out, errs)
	}
	code, out, _ = run(t, "", "ledger", "verify", "--clickhouse", dsn, "--key", key, "-o", "json")
	var r verify.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 1 || r.Good || len(r.Findings) != 1 ||
		r.Findings[0].First != 4 {
		t.Errorf("as JSON: exit %d, %v, %s", code, err, out)
	}
}

func fillLedger(t *testing.T, db *ledger.DB) (key string) {
	t.Helper()
	private, public, err := note.GenerateKey(nil, "example.com/ledger")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	var rows []ledger.Row
	at := time.Now().UTC()
	for i := range 10 {
		r := record.Record{ID: "att_" + string(rune('0'+i)), Kind: record.Attempt, At: at, Tenant: "default", Status: 200}
		body, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, ledger.Row{Idx: uint64(i), StreamSeq: uint64(i + 1), StreamEpoch: 7, Body: body, Record: r})
	}
	if err := db.Append(context.Background(), rows); err != nil {
		t.Fatal(err)
	}
	leaves, err := db.Leaves(context.Background(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	// Ten leaves: a tree of eight and one of two.
	for len(leaves) > 2 {
		var next []tlog.Hash
		for i := 0; i+1 < len(leaves); i += 2 {
			next = append(next, tlog.NodeHash(leaves[i], leaves[i+1]))
		}
		leaves = append(next, leaves[len(leaves)&^1:]...)
	}
	c := checkpoint.Checkpoint{Origin: "example.com/ledger", Size: 10, Root: tlog.NodeHash(leaves[0], leaves[1])}
	b, err := note.Sign(&note.Note{Text: c.Text()}, signer)
	if err != nil {
		t.Fatal(err)
	}
	v, err := checkpoint.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.AppendCheckpoint(context.Background(), ledger.Checkpoint{Size: 10, At: at, Origin: c.Origin,
		Key: checkpoint.KeyID(v), Root: c.Root, Note: string(b)}); err != nil {
		t.Fatal(err)
	}
	return public
}

func TestWrongUseOfVerifyIsSaidInOneLine(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.txt")
	if err := os.WriteFile(bad, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(dir, "key")
	if err := os.WriteFile(private, []byte("PRIVATE+KEY+x+y+z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--key", ""}, "--key is empty"},
		{[]string{"--checkpoint", ""}, "--checkpoint is empty"},
		{[]string{"--key", "x"}, "verifier key itself, NAME+HASH+BASE64"},
		{[]string{"--key", "a+b+c"}, "ledger key show"},
		{[]string{"--key", private}, "private key"},
		{[]string{"--checkpoint", "/no/such"}, "no such file"},
		{[]string{"--checkpoint", bad}, "no signed note"},
		{[]string{"--from", "5", "--to", "5"}, "smaller than --to"},
		{[]string{"--from", "5", "--state", "s"}, "whole ledger"},
		{[]string{"--state", bad, "--clickhouse", "clickhouse://127.0.0.1:1/waybill"}, "remove it to begin anew"},
		{[]string{"--workers", "-1"}, "want 1 to 256"},
		{[]string{"-o", "yaml"}, "want table, wide or json"},
	} {
		code, _, errs := run(t, "", append([]string{"ledger", "verify"}, c.args...)...)
		if code != 2 || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: exit %d, %q; want %q", c.args, code, errs, c.want)
		}
	}
}
