package transparency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// claim is a checkpoint that binds us: we signed it.
type claim struct {
	ledger.Checkpoint
	where string // for people: who keeps it
}

// trouble is why nothing is signed.
type trouble struct {
	cause string // shorter, differs, damaged
	size  uint64 // of the checkpoint that it is about
	text  string
}

// signing decides when a checkpoint is signed, and whether it may be.
type signing struct {
	log   *Log
	tree  *growth
	valid func() bool

	bound    claim     // the largest that is known, once looked is set
	looked   time.Time // when the tree was compared with it last
	agreed   bool      // the tree has bound's root at its size
	grown    growing
	storedAt time.Time          // when tiles were stored that did not fill an insert
	unstored *ledger.Checkpoint // signed and not published on the stream yet
}

// growing is what due needs to know.
type growing struct {
	seen       uint64    // size when it was looked at last
	seenAt     time.Time // when it was last seen to have grown
	unsignedAt time.Time // since when there has been something new
	signedAt   time.Time
}

// look notes how far the tree is.
func (g *growing) look(size, signed uint64, now time.Time) {
	if size != g.seen {
		g.seen, g.seenAt = size, now
	}
	switch {
	case size <= signed:
		g.unsignedAt = time.Time{}
	case g.unsignedAt.IsZero():
		g.unsignedAt = now
	}
}

// due says whether a checkpoint is to be signed: there is something new, and it
// has waited for every, or for quiet without anything after it. Two are never
// closer than quiet.
func (g *growing) due(now time.Time, every, quiet time.Duration) bool {
	if g.unsignedAt.IsZero() || now.Sub(g.signedAt) < quiet {
		return false
	}
	return now.Sub(g.unsignedAt) >= every || now.Sub(g.seenAt) >= quiet
}

// lookAgain is how often the ledger is compared with a checkpoint that it does
// not agree with.
const lookAgain = 10 * time.Second

// turn does what is due at now.
func (s *signing) turn(ctx context.Context, now time.Time) error {
	l := s.log
	s.grown.look(s.tree.size, l.signed.Load(), now)
	if s.tree.fullTiles() > 0 && now.Sub(s.storedAt) >= l.o.Every {
		s.storedAt = now
		if err := s.tree.store(ctx); err != nil {
			return err
		}
	}
	if l.o.Keys == nil {
		return nil
	}
	if !s.agreed {
		if err := s.compare(ctx, now); err != nil {
			return err
		}
	}
	s.publishAgain(ctx)
	if !s.agreed || !s.grown.due(now, l.o.Every, l.o.Quiet) || !s.valid() || s.tree.size <= s.bound.Size {
		return nil
	}
	if err := s.tree.store(ctx); err != nil {
		return err
	}
	return s.sign(ctx, now)
}

// compare looks whether the tree has the root of the largest checkpoint that we
// signed: if not, what was signed would be denied by what is signed next.
func (s *signing) compare(ctx context.Context, now time.Time) error {
	l := s.log
	caughtUp := s.tree.size >= s.bound.Size && l.cause() == causeShorter
	switch {
	case s.looked.IsZero():
		bound, err := l.largest(ctx)
		if err != nil {
			return err
		}
		s.bound = bound
	case now.Sub(s.looked) < lookAgain && !caughtUp:
		return nil
	}
	s.looked = now
	size := s.bound.Size
	// The tree may be behind ClickHouse. Where that ends is asked after the
	// checkpoint was read: its records landed before it was signed.
	if s.tree.size < size {
		at, err := l.o.Store.Last(ctx)
		if err != nil {
			return err
		}
		if err := s.tree.fill(ctx, at.Next); err != nil {
			return err
		}
		s.grown.look(s.tree.size, l.signed.Load(), now)
	}
	if s.tree.size < size {
		l.refuse(ctx, trouble{causeShorter, size, fmt.Sprintf("the ledger has %d records, but a checkpoint of %d is "+
			"signed (%s)", s.tree.size, size, s.bound.where)})
		return nil
	}
	root, err := merkle.NewReader(ctx, l.o.Store).TreeHash(size)
	if err != nil {
		return err
	}
	if size > 0 && root != s.bound.Root {
		l.refuse(ctx, trouble{causeDiffers, size, fmt.Sprintf("the first %d records are not those of the signed "+
			"checkpoint (%s): their root is %s, signed is %s", size, s.bound.where, root, s.bound.Root)})
		return nil
	}
	return s.agree(ctx, now)
}

// agree goes on signing.
func (s *signing) agree(ctx context.Context, now time.Time) error {
	l := s.log
	if s.bound.where == onStream { // ClickHouse lost it
		if err := l.putBack(ctx, s.bound.Checkpoint); err != nil {
			return err
		}
	}
	if l.fault.Swap(nil) != nil {
		l.o.Log.Warn().Uint64("size", s.bound.Size).Msg(logevent.LedgerLogAgreesAgain)
	}
	s.agreed = true
	l.signed.Store(s.bound.Size)
	s.grown.look(s.tree.size, s.bound.Size, now)
	if s.bound.Size > 0 {
		l.metrics.checkpoint(s.bound.Checkpoint)
		l.remember(s.bound.Checkpoint)
	}
	return nil
}

const (
	inClickHouse = "kept in ClickHouse"
	onStream     = "kept in the stream " + streams.Checkpoints
	inMemory     = "signed by this process"
)

// largest finds the largest checkpoint of our origin: in ClickHouse, on the
// stream, or in this process's memory. One that is not signed by a key that we
// know binds us all the same: it is better to stop than to contradict it.
func (l *Log) largest(ctx context.Context) (claim, error) {
	origin := l.o.Keys.Origin()
	l.mu.Lock()
	best := claim{l.newest, inMemory}
	l.mu.Unlock()
	c, err := l.o.Store.LastCheckpoint(ctx, origin)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return claim{}, err
	}
	if err == nil && c.Size >= best.Size {
		best = claim{c, inClickHouse}
	}
	if c, err = l.lastOnStream(ctx); err != nil {
		return claim{}, err
	}
	if c.Origin == origin && c.Size > best.Size {
		best = claim{c, onStream}
	}
	return best, nil
}

// lastOnStream is the last checkpoint on the stream; the zero value if there is none.
func (l *Log) lastOnStream(ctx context.Context) (none ledger.Checkpoint, err error) {
	ctx, cancel := context.WithTimeout(ctx, publishBound)
	defer cancel()
	m, err := streams.ReadFrom(l.js, streams.Checkpoints).Last(ctx, streams.CheckpointsSubject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("stream %s: %w", streams.Checkpoints, err)
	}
	return l.readMessage(m)
}

// readMessage reads a message of the stream; the zero value if it is no checkpoint.
func (l *Log) readMessage(m *jetstream.RawStreamMsg) (none ledger.Checkpoint, err error) {
	c, err := checkpoint.Parse(string(m.Data))
	if err != nil {
		l.o.Log.Error().Err(err).Uint64("seq", m.Sequence).Msg(logevent.LedgerLogNoCheckpointOnStream)
		return none, nil
	}
	row := ledger.Checkpoint{Size: c.Size, At: m.Time, Origin: c.Origin, Root: c.Root, Note: string(m.Data)}
	known, err := l.o.Keys.Verifiers()
	if err != nil {
		return none, err
	}
	if _, n, err := checkpoint.Open(m.Data, known); err == nil {
		row.Key = fmt.Sprintf("%s+%08x", n.Sigs[0].Name, n.Sigs[0].Hash)
	}
	return row, nil
}

// Causes of trouble.
const (
	causeShorter = "shorter"
	causeDiffers = "differs"
	causeDamaged = "damaged"
)

func (l *Log) cause() string {
	if t := l.fault.Load(); t != nil {
		return t.cause
	}
	return ""
}

// refuse says that nothing is signed, and why: once in the log and on record for
// each cause, and as long as it lasts in the metrics and to who asks for readiness.
func (l *Log) refuse(ctx context.Context, t trouble) {
	t.text += "; records are kept, no checkpoint is signed; find what is wrong with: waybill ledger verify"
	before := l.fault.Swap(&t)
	if before != nil && before.cause == t.cause && before.size == t.size {
		return
	}
	l.o.Log.Error().Str("cause", t.cause).Str("why", t.text).Msg(logevent.LedgerLogSignsNothing)
	if err := l.putOnRecord(ctx, t); err != nil && ctx.Err() == nil {
		l.o.Log.Error().Err(err).Msg(logevent.LedgerLogRefusalNotOnRecord)
	}
}

// allTenants stands on the record of what is not of one tenant.
const allTenants = "all"

// ActionUnsigned is the action of the record that says that signing stopped.
const ActionUnsigned = "ledger.signing_stopped"

// putOnRecord states it once an hour at most, whoever sees it.
func (l *Log) putOnRecord(ctx context.Context, t trouble) error {
	ctx, cancel := context.WithTimeout(ctx, publishBound)
	defer cancel()
	now := time.Now()
	r := record.Record{ID: fmt.Sprintf("%s/%s/%s/%d/%d", record.OperatorAction, ActionUnsigned, t.cause, t.size,
		now.Unix()/3600),
		Kind: record.OperatorAction, At: now, Tenant: allTenants, Actor: "waybill", Action: ActionUnsigned,
		Reason: "ledger_" + t.cause, Detail: t.text}
	m, err := r.Message()
	if err != nil {
		return err
	}
	_, err = l.js.PublishMsg(ctx, m)
	return err
}

// sign signs the tree as it is. The note is stored before anybody sees it; dying
// before that is as if nothing had been signed.
func (s *signing) sign(ctx context.Context, now time.Time) error {
	l := s.log
	if err := s.rotated(ctx, now); err != nil {
		return err
	}
	c := checkpoint.Checkpoint{Origin: l.o.Keys.Origin(), Size: s.tree.size, Root: s.tree.root()}
	signed, key, err := l.o.Keys.Sign(c)
	if signed == "" {
		return err
	}
	if err != nil {
		l.o.Log.Error().Err(err).Msg(logevent.LedgerLogKeyFileNotRead)
	}
	row := ledger.Checkpoint{Size: c.Size, At: now.UTC(), Origin: c.Origin, Key: key, Root: c.Root, Note: signed}
	if err := l.o.Store.AppendCheckpoint(ctx, row); err != nil {
		return err
	}
	s.bound = claim{row, inClickHouse}
	s.grown.signedAt, s.grown.unsignedAt = now, time.Time{}
	l.signed.Store(c.Size)
	l.metrics.checkpoint(row)
	l.metrics.checkpoints.Inc()
	l.remember(row)
	s.unstored = &row
	s.publishAgain(ctx)
	for _, w := range l.witnesses {
		w.offer(row)
	}
	if l.stamper != nil {
		l.stamper.offer(row)
	}
	return nil
}

// remember keeps the largest checkpoint for as long as the process lives.
func (l *Log) remember(c ledger.Checkpoint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Size > l.newest.Size {
		l.newest = c
	}
}

// publishBound bounds the wait for the stream.
const publishBound = 5 * time.Second

// publishAgain puts the last checkpoint on the stream, unless it is there. While
// NATS is away no records come either; the next turn tries again.
func (s *signing) publishAgain(ctx context.Context) {
	if s.unstored == nil {
		return
	}
	if err := s.log.publish(ctx, s.unstored.Note, s.unstored.Origin, s.unstored.Size, 0); err != nil {
		s.log.o.Log.Warn().Err(err).Uint64("size", s.unstored.Size).Msg(logevent.LedgerLogNotPublished)
		return
	}
	s.unstored = nil
}

func (l *Log) publish(ctx context.Context, signed, origin string, size uint64, cosignatures int) error {
	ctx, cancel := context.WithTimeout(ctx, publishBound)
	defer cancel()
	m := nats.NewMsg(streams.CheckpointsSubject)
	m.Header.Set(nats.MsgIdHdr, streams.CheckpointID(origin, size, cosignatures))
	m.Data = []byte(signed)
	_, err := l.js.PublishMsg(ctx, m)
	return err
}
