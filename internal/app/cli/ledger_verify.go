package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
	"github.com/waybill-dev/waybill/internal/ledger/verify"
	"github.com/waybill-dev/waybill/internal/operator/auditor"
	"github.com/waybill-dev/waybill/internal/platform/wholefile"
)

type verifyFlags struct {
	target      target
	out         format
	keys        []string
	checkpoints []string
	from, to    uint64
	state       string
	progress    bool
	workers     int
}

func ledgerVerify(s stdio) *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use: "verify", Short: "Prove that no record of the ledger was changed, added, removed or reordered",
		Long: `Prove that no record of the ledger was changed, added, removed or reordered since it
was signed. It reads every record, recomputes its hash and every stored column from
its bytes, compares tiles, the roots at all signed checkpoints, the tables' and views'
definitions, and LEDGER where that still has the records. It changes nothing, and says
what is wrong, from which record on, and what it could not prove.
docs/verify.md tells how to read it and how far it can be trusted.
Exit status: 0 good, 1 something is wrong, 2 wrong use.`,
		Example: `  waybill ledger verify --key example.com/waybill+1f2e3d4c+AcXk…
  waybill ledger verify --clickhouse clickhouse://auditor:secret@ch:9000 --key ledger.pub --checkpoint monday.txt
  waybill ledger verify --key ledger.pub --from 1000000 --to 2000000 -o json
  waybill ledger verify --key ledger.pub --state verify.state   # after Ctrl-C, the same command goes on`,
		Args: process.NoArgs,
	}
	f.target.bind(c.Flags())
	f.out.bind(c.Flags())
	c.Flags().StringSliceVar(&f.keys, "key", nil, "verifier key of the ledger (NAME+HASH+BASE64), or a file of them; "+
		"of a witness too; repeatable, comma-separated")
	c.Flags().StringSliceVar(&f.checkpoints, "checkpoint", nil,
		"file with a checkpoint that was kept elsewhere; repeatable, comma-separated")
	c.Flags().Uint64Var(&f.from, "from", 0, "first record to read")
	c.Flags().Uint64Var(&f.to, "to", 0, "end of the records to read, not included (default: the ledger's end)")
	c.Flags().StringVar(&f.state, "state", "", "file to keep how far it came, so that an interrupted run can go on")
	c.Flags().BoolVar(&f.progress, "progress", false, "show progress on standard error, also when it is no terminal")
	c.Flags().IntVar(&f.workers, "workers", 0, "readers at once (default: one more than there are cores)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		// A variable that is not set must not pass for a run without a key.
		for name, given := range map[string][]string{"key": f.keys, "checkpoint": f.checkpoints} {
			if c.Flags().Changed(name) && len(given) == 0 {
				return process.Usagef("--%s is empty; give a value, or leave it away", name)
			}
		}
		return f.run(c.Context(), s)
	}
	return c
}

func (f *verifyFlags) run(ctx context.Context, s stdio) error {
	if err := f.check(); err != nil {
		return err
	}
	o := verify.Options{Now: time.Now(), From: f.from, To: f.to, Workers: f.workers}
	var err error
	if o.Keys, err = readVerifiers(f.keys); err != nil {
		return err
	}
	if o.Outside, err = keptCheckpoints(f.checkpoints, o.Keys); err != nil {
		return err
	}
	// Who reads everything for as long as it takes, and what the server says of itself.
	db, err := f.target.openAs(roles.Auditor)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // the error that counts is that of the question
	js, closeNATS, err := f.streams(ctx)
	if err != nil {
		return err
	}
	defer closeNATS()
	if err := f.resume(&o); err != nil {
		return err
	}
	r, err := f.verify(ctx, s, auditor.New(db), js, o)
	if err != nil {
		return err
	}
	if f.out == "json" {
		err = printJSON(s.out, r)
	} else {
		err = printVerified(s.out, r)
	}
	if err == nil && !r.Good {
		err = errors.New("the ledger is not proven good; what is wrong stands above")
	}
	return err
}

func (f *verifyFlags) check() error {
	if err := needFile("state", f.state); err != nil {
		return err
	}
	switch {
	case f.to > 0 && f.from >= f.to:
		return process.Usagef("--from %d --to %d: want --from smaller than --to", f.from, f.to)
	case f.state != "" && (f.from > 0 || f.to > 0):
		return process.Usagef("--state is for the whole ledger; leave --from and --to away, or --state")
	case f.workers < 0 || f.workers > 256:
		return process.Usagef("--workers %d: want 1 to 256", f.workers)
	}
	return f.out.check()
}

func (f *verifyFlags) verify(ctx context.Context, s stdio, a auditor.Auditor, js jetstream.JetStream,
	o verify.Options) (verify.Report, error) {
	done := func() {}
	if file, ok := s.err.(*os.File); f.progress || ok && isatty.IsTerminal(file.Fd()) {
		o.Progress, done = progress(s.err)
	}
	r, err := a.Verify(ctx, js, o)
	done()
	if errors.Is(err, verify.ErrRange) {
		return r, process.Usagef("--from: %w", err)
	}
	if err != nil {
		if ctx.Err() != nil && f.state != "" {
			return r, fmt.Errorf("interrupted; the same command goes on from %s", f.state)
		}
		return r, err
	}
	if f.state != "" { // what is finished is not resumed
		if err := os.Remove(f.state); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
	}
	return r, nil
}

// streams connects to what LEDGER and CHECKPOINTS still know, if it is known where.
func (f *verifyFlags) streams(ctx context.Context) (jetstream.JetStream, func(), error) {
	at, err := f.target.find()
	if err != nil || at.natsURL == "" {
		return nil, func() {}, err
	}
	nc, js, err := f.target.connectNATS(ctx)
	if err != nil {
		return nil, nil, err
	}
	return js, nc.Close, nil
}

func (f *verifyFlags) resume(o *verify.Options) error {
	if f.state == "" {
		return nil
	}
	o.Save = func(st verify.State) error {
		b, err := st.Encode()
		if err != nil {
			return err
		}
		return wholefile.Replace(f.state, b, 0o600)
	}
	b, err := os.ReadFile(f.state)
	if errors.Is(err, fs.ErrNotExist) {
		// That it cannot be written is better known now than in an hour.
		if _, err := os.Stat(filepath.Dir(f.state)); err != nil {
			return process.Usagef("--state %s: %w; name a file in a directory that is there", f.state, err)
		}
		return nil
	}
	if err != nil {
		return process.Usagef("--state: %w", err)
	}
	st, err := verify.ParseState(b)
	if err != nil {
		return process.Usagef("--state %s: %w; remove it to begin anew", f.state, err)
	}
	o.Resume = &st
	return nil
}

// readVerifiers reads public keys, given as such or as files of lines.
func readVerifiers(given []string) ([]note.Verifier, error) {
	var out []note.Verifier
	for _, g := range given {
		lines := []string{g}
		if b, err := os.ReadFile(g); err == nil {
			lines = strings.Split(string(b), "\n")
		} else if !strings.Contains(g, "+") {
			return nil, process.Usagef("--key: %w; name a file that can be read, or give the verifier key itself, "+
				"NAME+HASH+BASE64", err)
		}
		before := len(out)
		for _, l := range lines {
			l, _, _ = strings.Cut(l, "#")
			if l = strings.TrimSpace(l); l == "" {
				continue
			}
			if strings.HasPrefix(l, "PRIVATE+KEY+") {
				return nil, process.Usagef("--key %s holds a private key; show the public one with: waybill ledger key show", g)
			}
			v, err := checkpoint.NewVerifier(l)
			if err != nil {
				return nil, process.Usagef("--key: %w; show it with: waybill ledger key show", err)
			}
			out = append(out, v)
		}
		if len(out) == before {
			return nil, process.Usagef("--key: %s holds no key; want lines of NAME+HASH+BASE64, as waybill ledger key show "+
				"prints them", g)
		}
	}
	return out, nil
}

func keptCheckpoints(files []string, keys []note.Verifier) ([]verify.Published, error) {
	var out []verify.Published
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, process.Usagef("--checkpoint: %w; name a file that waybill ledger checkpoint show --out wrote, or "+
				"what /log/checkpoint answered", err)
		}
		c, err := verify.ParseCheckpoint(string(b), keys)
		if err != nil {
			return nil, process.Usagef("--checkpoint %s: %w; give a file that waybill ledger checkpoint show --out wrote, or "+
				"what /log/checkpoint answered", name, err)
		}
		if len(keys) > 0 && c.Signer == "" && len(c.Witnesses) == 0 {
			return nil, process.Usagef("--checkpoint %s: no key that was given signed it; give its key with --key", name)
		}
		out = append(out, verify.Published{Source: name, Note: string(b)})
	}
	return out, nil
}

// progress shows on one line how far it is.
func progress(w io.Writer) (step func(done, total uint64), end func()) {
	began, shown := time.Now(), time.Time{}
	first := uint64(0)
	return func(done, total uint64) {
			if first == 0 {
				first = done
			}
			now := time.Now()
			if now.Sub(shown) < 200*time.Millisecond && done < total {
				return
			}
			shown = now
			rate := float64(done-first) / max(now.Sub(began).Seconds(), 0.001)
			left := ""
			if rate > 0 && done < total {
				left = fmt.Sprintf(", %s left", (time.Duration(float64(total-done)/rate) * time.Second).Round(time.Second))
			}
			fmt.Fprintf(w, "\r%d of %d records, %d %%%s          ", done, total, done*100/max(total, 1), left)
		}, func() {
			if !shown.IsZero() {
				fmt.Fprintln(w)
			}
		}
}
