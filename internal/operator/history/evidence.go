package history

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/internal/ledger/audit/outside"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/version"
)

// checkpointPoll is how often a checkpoint that is waited for is looked up.
const checkpointPoll = 200 * time.Millisecond

// Evidence gathers what is on record of an event, with the proofs. It waits for
// a checkpoint that covers everything, up to q.Wait; what none covers then is
// left out and named.
func (h History) Evidence(ctx context.Context, q control.EvidenceRequest) (*evidence.File, error) {
	g := gatherer{db: h.db, file: &evidence.File{Subject: evidence.Subject{Tenant: q.Tenant, EventID: q.EventID,
		EndpointID: q.EndpointID}}}
	if err := g.own(ctx); err != nil {
		return nil, err
	}
	if err := g.others(ctx); err != nil {
		return nil, err
	}
	g.vouched(ctx, h.events)
	c, err := g.checkpoint(ctx, q.Wait)
	if err != nil {
		return nil, err
	}
	g.file.Statement.ExportedAt = time.Now().UTC()
	g.file.Statement.ExportedBy = q.Actor
	g.file.Statement.Software = version.Software
	g.file.Statement.CheckpointAt = c.At.UTC()
	if err := g.prove(ctx, c); err != nil {
		return nil, err
	}
	return g.file, g.cosigned(ctx, c)
}

func refusal(code control.Code, field, format string, args ...any) error {
	return &control.Error{Code: code, Field: field, Err: fmt.Errorf(format, args...)}
}

// gatherer fills one file.
type gatherer struct {
	db   *ledger.DB
	file *evidence.File
	rows []ledger.Body
	ours []record.Record
}

func (g *gatherer) take(f ledger.Found, finds string, rows []ledger.Body) {
	if f.Query != "" {
		g.file.Statement.Queries = append(g.file.Statement.Queries, evidence.Query{Finds: finds, SQL: f.Query})
	}
	g.rows = append(g.rows, rows...)
}

// own reads the records that name the event.
func (g *gatherer) own(ctx context.Context) error {
	s := &g.file.Subject
	f, err := g.db.EventBodies(ctx, s.Tenant, s.EventID, s.EndpointID)
	if errors.Is(err, ledger.ErrTooMuch) {
		return refusal(control.CodeTooLarge, "endpoint", "event %s has more than %d records; name one endpoint", s.EventID,
			ledger.MaxEvidence)
	}
	if err != nil {
		return err
	}
	if g.ours, err = decode(f.Rows); err != nil {
		return err
	}
	endpoint := s.EndpointID == ""
	for i := range g.ours {
		switch {
		case s.Tenant == "":
			s.Tenant = g.ours[i].Tenant
		case s.Tenant != g.ours[i].Tenant:
			return refusal(control.CodeInvalid, "tenant", "event %s is on record for the tenants %s and %s; name one", s.EventID,
				s.Tenant, g.ours[i].Tenant)
		}
		endpoint = endpoint || g.ours[i].EndpointID == s.EndpointID
	}
	if len(g.ours) == 0 || !endpoint {
		what := "event " + s.EventID
		if s.EndpointID != "" {
			what = "a delivery of event " + s.EventID + " to " + s.EndpointID
		}
		retired, err := g.db.RetiredText(ctx)
		if err != nil {
			return err
		}
		if retired != "" {
			retired = "; or it is gone: " + retired
		}
		return refusal(control.CodeNotFound, "", "%s is not in the ledger; one that was just published is there within "+
			"seconds%s", what, retired)
	}
	g.take(f, "records that name the event", f.Rows)
	return nil
}

func decode(rows []ledger.Body) ([]record.Record, error) {
	out := make([]record.Record, len(rows))
	for i := range rows {
		var err error
		if out[i], err = record.Decode(rows[i].Body); err != nil {
			return nil, fmt.Errorf("record %d: %w; find what is wrong with: waybill ledger verify", rows[i].Idx, err)
		}
	}
	return out, nil
}

// vouched asks EVENTS about the records that say that the event came in. Where it
// does not answer, the file says that it was not asked.
func (g *gatherer) vouched(ctx context.Context, events *outside.Events) {
	if events == nil {
		return
	}
	var came []audit.EventRecord
	for i, r := range g.ours {
		switch r.Kind {
		case record.EventAccepted, record.EventUnmatched, record.EventRejected:
			came = append(came, audit.EventRecord{Idx: g.rows[i].Idx, ID: r.ID, Kind: string(r.Kind), At: r.At,
				Tenant: r.Tenant, EventID: r.EventID, EventSeq: r.EventSeq, StoredAt: r.StoredAt, DataDigest: r.DataDigest,
				Epoch: g.rows[i].StreamEpoch})
		}
	}
	if len(came) == 0 {
		return
	}
	slices.SortFunc(came, func(a, b audit.EventRecord) int { return cmp.Compare(a.EventSeq, b.EventSeq) })
	var found outside.Finding
	if err := events.Vouch(ctx, came, &found); err != nil {
		return
	}
	said := &evidence.Events{AskedAt: time.Now().UTC(), Vouched: found.Vouched.Events, Beyond: found.Vouched.EventsBeyond}
	for _, m := range found.Mismatches {
		said.Findings = append(said.Findings, m.What+": "+m.Detail)
	}
	g.file.Statement.Events = said
}

// others reads what the event's records refer to: three questions at once.
func (g *gatherer) others(ctx context.Context) error {
	w := evidence.Want(g.file.Subject, g.ours)
	var revisions []ledger.Found
	var rules, policies ledger.Found
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() (err error) { revisions, err = g.db.RevisionBodies(ctx, w.Revisions); return err })
	all.Go(func() (err error) { rules, err = g.db.RuleBodies(ctx, g.file.Subject.Tenant); return err })
	all.Go(func() (err error) { policies, err = g.db.PolicyBodies(ctx, w.Policies, w.Channels); return err })
	if err := all.Wait(); err != nil {
		return err
	}
	for _, f := range revisions {
		g.take(f, "settings of endpoints, at the revisions that these name", f.Rows)
	}
	if err := g.inForce(w, rules, "changes of what is set for event types; those that match the event's and were in "+
		"force are here"); err != nil {
		return err
	}
	return g.inForce(w, policies, "changes of the escalation policies and channels that these name; those in force are "+
		"here")
}

// inForce keeps of changes those that matter to the event.
func (g *gatherer) inForce(w evidence.Wanted, f ledger.Found, finds string) error {
	all, err := decode(f.Rows)
	if err != nil {
		return err
	}
	var rows, keep []ledger.Body
	var changes []record.Record
	for i := range all {
		if _, ok := w.Role(&all[i]); ok {
			rows, changes = append(rows, f.Rows[i]), append(changes, all[i])
		}
	}
	for _, i := range evidence.InForce(g.ours, changes) {
		keep = append(keep, rows[i])
	}
	g.take(f, finds, keep)
	return nil
}

// checkpoint finds the first one that covers every row and that another has
// signed too, else the first one, else the last there is.
func (g *gatherer) checkpoint(ctx context.Context, wait time.Duration) (ledger.Checkpoint, error) {
	slices.SortFunc(g.rows, func(a, b ledger.Body) int { return cmp.Compare(a.Idx, b.Idx) })
	size := g.rows[len(g.rows)-1].Idx + 1
	end := time.NewTimer(wait)
	defer end.Stop()
	for over := false; ; {
		c, err := g.db.CheckpointOver(ctx, size)
		switch {
		case err == nil:
			return g.preferSigned(ctx, c)
		case !errors.Is(err, ledger.ErrNotFound):
			return c, err
		case over || wait <= 0:
			return g.last(ctx)
		}
		again := time.NewTimer(checkpointPoll)
		select {
		case <-ctx.Done():
			again.Stop()
			return c, ctx.Err()
		case <-end.C:
			over = true
		case <-again.C:
		}
		again.Stop()
	}
}

func (g *gatherer) preferSigned(ctx context.Context, c ledger.Checkpoint) (ledger.Checkpoint, error) {
	size, err := g.db.FirstSigned(ctx, c.Size)
	if err != nil || size <= c.Size {
		return c, err
	}
	signed, err := g.db.CheckpointOver(ctx, size)
	if err != nil || signed.Size != size {
		return c, err
	}
	return signed, nil
}

// last is a checkpoint that does not cover everything.
func (g *gatherer) last(ctx context.Context) (ledger.Checkpoint, error) {
	list, err := g.db.LatestCheckpoints(ctx, 1)
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	if len(list) == 0 || list[0].Size <= g.rows[0].Idx {
		return ledger.Checkpoint{}, refusal(control.CodeUnavailable, "",
			"no checkpoint covers the records of event %s yet; try again in a minute, and if that does not help see whether "+
				"the ledger sink signs checkpoints: waybill doctor", g.file.Subject.EventID)
	}
	for i, r := range g.rows {
		if r.Idx >= list[0].Size {
			for _, u := range g.rows[i:] {
				g.file.Statement.Uncovered = append(g.file.Statement.Uncovered, u.Idx)
			}
			g.rows = g.rows[:i]
			break
		}
	}
	return list[0], nil
}

// prove adds the records with their proofs, each checked against the
// checkpoint: a ledger that was changed gives no evidence.
func (g *gatherer) prove(ctx context.Context, c ledger.Checkpoint) error {
	tree, err := evidence.TreeOf(c.Note)
	if err != nil {
		return fmt.Errorf("the checkpoint over %d records: %w; find what is wrong with: waybill ledger verify", c.Size, err)
	}
	reader := merkle.NewReader(ctx, &leaves{DB: g.db, size: tree.Size, tiles: map[uint64][]tlog.Hash{}})
	indices := make([]uint64, len(g.rows))
	for i, b := range g.rows {
		if i > 0 && b.Idx == g.rows[i-1].Idx {
			return fmt.Errorf("%w: record %d is there twice; find what is wrong with: waybill ledger verify", ledger.ErrDamaged,
				b.Idx)
		}
		indices[i] = b.Idx
	}
	proofs, err := reader.ProveRecords(tree.Size, indices)
	if err != nil {
		return err
	}
	for i, b := range g.rows {
		r := evidence.Record{Idx: b.Idx, Epoch: b.StreamEpoch, Seq: b.StreamSeq, Body: b.Body, Proof: proofs[i]}
		if err := evidence.Included(tree, &r); err != nil {
			return fmt.Errorf("%w: record %d: %w; find what is wrong with: waybill ledger verify", ledger.ErrDamaged, b.Idx, err)
		}
		g.file.Records = append(g.file.Records, r)
	}
	return nil
}

// leaves remembers those of tiles that are not full, which each proof needs.
type leaves struct {
	*ledger.DB
	size  uint64
	tiles map[uint64][]tlog.Hash
}

// Leaves implements merkle.Store.
func (l *leaves) Leaves(ctx context.Context, first, end uint64) ([]tlog.Hash, error) {
	n := first / merkle.TileWidth
	from, to := n*merkle.TileWidth, min((n+1)*merkle.TileWidth, l.size)
	if end > to {
		return l.DB.Leaves(ctx, first, end)
	}
	tile, known := l.tiles[n]
	if !known {
		var err error
		if tile, err = l.DB.Leaves(ctx, from, to); err != nil {
			return nil, err
		}
		l.tiles[n] = tile
	}
	return tile[first-from : end-from], nil
}

// cosigned adds what others signed to the checkpoint.
func (g *gatherer) cosigned(ctx context.Context, c ledger.Checkpoint) error {
	list, err := g.db.CheckpointSignatures(ctx, c.Size, c.Size)
	if err != nil {
		return err
	}
	text := c.Note
	for _, s := range list {
		switch s.Kind {
		case ledger.WitnessSignature:
			line := strings.TrimSuffix(s.Signature, "\n") + "\n"
			if !strings.Contains(text, line) && evidence.Cosigns(text+line) {
				text += line
			}
		case ledger.TimestampSignature:
			if token, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s.Signature)); err == nil {
				g.file.Checkpoint.Timestamps = append(g.file.Checkpoint.Timestamps,
					evidence.Timestamp{Authority: s.Signer, Token: token})
			}
		}
	}
	g.file.Checkpoint.Note = text
	return nil
}
