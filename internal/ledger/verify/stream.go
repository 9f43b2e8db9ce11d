package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger/merkle"
)

// streamBatch is how many messages are compared at once.
const streamBatch = 5000

type message struct {
	seq  uint64
	body []byte
}

// streamRun compares LEDGER with the rows that came from it.
type streamRun struct {
	*run
	at    StreamExtent
	found findings
	// oldest is the first record that LEDGER still has, with the same bytes.
	oldest uint64
	// newest is the last sequence that a row of the stream has: what comes behind
	// it may still be on its way.
	newest uint64
	// unknown are messages that no row has, in order.
	unknown []lack
}

type lack struct {
	seq  uint64
	id   string
	leaf tlog.Hash
}

// compareStream holds the rows against LEDGER, where both still have them: also
// those that a checkpoint covers, which proves that they were there when it was
// signed, and not who put them there.
func (r *run) compareStream(ctx context.Context) error {
	if r.o.Stream == nil || !r.whole() {
		return nil
	}
	at, err := r.o.Stream.Extent(ctx)
	if err != nil {
		return err
	}
	s := &streamRun{run: r, at: at, oldest: ^uint64(0)}
	r.report.Stream = &StreamResult{First: at.First, Last: at.Last}
	if err := s.behind(ctx); err != nil {
		return err
	}
	if err := s.misplaced(ctx); err != nil {
		return err
	}
	var batch []message
	err = r.o.Stream.Read(ctx, at.First, func(seq uint64, body []byte) error {
		batch = append(batch, message{seq, bytes.Clone(body)})
		if len(batch) < streamBatch {
			return nil
		}
		err := s.compare(ctx, batch)
		batch = batch[:0]
		return err
	})
	if err == nil && len(batch) > 0 {
		err = s.compare(ctx, batch)
	}
	if err != nil {
		return err
	}
	if err := s.sayUnknown(ctx); err != nil {
		return err
	}
	s.say()
	return nil
}

// behind finds rows that say they came from sequences that LEDGER has not
// reached, and the newest that it has.
func (s *streamRun) behind(ctx context.Context) error {
	return s.source.BySequence(ctx, s.at.Epoch, s.at.Last+1, ^uint64(0), func(x Record) error {
		s.differs(x, NotInStream, fmt.Sprintf("the row says that it came from sequence %d of LEDGER, which ends at %d",
			x.StreamSeq, s.at.Last))
		return nil
	})
}

// misplaced finds rows behind the first that LEDGER still holds, that say that
// they came from where it no longer holds anything, or from another making of it.
func (s *streamRun) misplaced(ctx context.Context) error {
	if s.at.First == 0 || s.at.First > s.at.Last {
		return nil
	}
	rows, err := s.source.Misplaced(ctx, s.at.Epoch, s.at.First, maxStrays)
	for _, x := range rows {
		text := fmt.Sprintf("the row says that it came from sequence %d of LEDGER, and stands behind rows of sequence %d "+
			"and later", x.StreamSeq, s.at.First)
		if x.StreamEpoch != s.at.Epoch {
			text = "the row says that it came from another making of LEDGER, and stands behind rows of this one"
		}
		s.differs(x, NotInStream, text)
	}
	return err
}

func (s *streamRun) compare(ctx context.Context, batch []message) error {
	last := batch[len(batch)-1].seq
	rows := map[uint64][]Record{}
	err := s.source.BySequence(ctx, s.at.Epoch, batch[0].seq, last, func(x Record) error {
		x.Body = bytes.Clone(x.Body)
		rows[x.StreamSeq] = append(rows[x.StreamSeq], x)
		s.newest = max(s.newest, x.StreamSeq)
		return nil
	})
	if err != nil {
		return err
	}
	var lacking []message
	for _, m := range batch {
		here := rows[m.seq]
		delete(rows, m.seq)
		if !s.held(m, here) {
			lacking = append(lacking, m)
		}
	}
	var alien []Record
	for _, xs := range rows {
		alien = append(alien, xs...)
	}
	slices.SortFunc(alien, func(a, b Record) int { return int(a.Idx) - int(b.Idx) })
	if len(alien) > 0 { // what the sink removed since the reading began is not missing
		now, err := s.o.Stream.Extent(ctx)
		if err != nil {
			return err
		}
		alien = slices.DeleteFunc(alien, func(x Record) bool { return x.StreamSeq < now.First })
	}
	for _, x := range alien {
		s.differs(x, NotInStream, fmt.Sprintf("LEDGER has no message at sequence %d, which the row says it came from",
			x.StreamSeq))
	}
	return s.lacking(ctx, lacking)
}

// held compares a message with the rows that say they came from its sequence:
// several, where LEDGER lost its end in a power cut and used sequences again, of
// which one has the message's bytes. It says whether a row is the message, or is
// what became of it.
func (s *streamRun) held(m message, rows []Record) bool {
	if len(rows) == 0 {
		return false
	}
	s.report.Stream.Compared++
	same := slices.IndexFunc(rows, func(x Record) bool { return bytes.Equal(x.Body, m.body) })
	altered := false
	for i, x := range rows {
		switch {
		case i == same:
			s.oldest = min(s.oldest, x.Idx)
		case same >= 0 && bytes.Equal(x.Body, m.body):
			s.again(x, rows[same].Idx)
		default:
			altered = altered || x.Idx >= s.w.good
			s.differs(x, StreamDiffers, fmt.Sprintf("LEDGER holds other bytes at sequence %d, of record id %q", m.seq,
				idOf(m.body)))
		}
	}
	return same >= 0 || altered
}

// again is a row that says what another says already, and came from where that
// came from. The sink inserts each message once: somebody else put it there, and
// if a checkpoint covers it, before that was signed.
func (s *streamRun) again(x Record, other uint64) {
	if x.Idx >= s.ledger || s.known(x.Idx) {
		return
	}
	s.found.add(Finding{Code: RecordAdded, First: x.Idx, Last: x.Idx, Count: 1, ID: x.ID,
		Text: fmt.Sprintf("it is record %d once more, from the same sequence of LEDGER, which has it once", other)})
}

// known says that something else is wrong with a record already.
func (s *streamRun) known(idx uint64) bool {
	return slices.ContainsFunc(s.report.Findings, func(f Finding) bool {
		return f.Count > 0 && f.First <= idx && idx <= f.Last && f.Code != RecordsRewritten && f.Code != ColumnChanged &&
			f.Code != RolledBack
	})
}

// lacking are messages that no row has by their sequence. A record that was
// published again has a row by its first sequence; what is behind the newest row
// is on its way.
func (s *streamRun) lacking(ctx context.Context, all []message) error {
	var ids []string
	for _, m := range all {
		if id := idOf(m.body); id != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	known, err := s.source.Known(ctx, ids)
	if err != nil {
		return err
	}
	newest, err := s.newestSequence(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		id := idOf(m.body)
		if _, ok := known[id]; ok || id == "" || m.seq > newest {
			continue
		}
		s.unknown = append(s.unknown, lack{m.seq, id, merkle.LeafHash(s.at.Epoch, m.seq, m.body)})
	}
	return nil
}

// sayUnknown says which messages no row has though their records were not retired.
func (s *streamRun) sayUnknown(ctx context.Context) error {
	if len(s.unknown) == 0 {
		return nil
	}
	open := map[tlog.Hash]bool{}
	for _, l := range s.unknown {
		open[l.leaf] = true
	}
	for _, r := range s.report.Retired {
		if err := s.strikeRetired(ctx, r, open); err != nil {
			return err
		}
	}
	for _, l := range s.unknown {
		if open[l.leaf] {
			s.found.add(Finding{Code: NotInLedger, ID: l.id,
				Text: fmt.Sprintf("LEDGER has record %q at sequence %d; no row has it", l.id, l.seq)})
		}
	}
	return nil
}

// strikeRetired takes out the hashes of records that were retired: the tiles
// still have them.
func (s *streamRun) strikeRetired(ctx context.Context, r RetiredRecords, open map[tlog.Hash]bool) error {
	for number := r.First / merkle.TileWidth; number <= r.Last/merkle.TileWidth && len(open) > 0; number++ {
		hashes, err := s.source.Tile(ctx, 0, number)
		if err != nil {
			return err
		}
		for i, h := range hashes {
			if idx := number*merkle.TileWidth + uint64(i); r.First <= idx && idx <= r.Last {
				delete(open, h)
			}
		}
	}
	return nil
}

func (s *streamRun) newestSequence(ctx context.Context) (uint64, error) {
	rows, err := s.source.Records(ctx, []uint64{s.ledger - min(s.ledger, 1)})
	if err != nil || len(rows) == 0 || rows[0].StreamEpoch != s.at.Epoch {
		return s.newest, err
	}
	return rows[0].StreamSeq, nil
}

// differs keeps what LEDGER says otherwise about a row.
func (s *streamRun) differs(x Record, code Code, text string) {
	if x.Idx >= s.ledger {
		return // it came after the run began
	}
	for i := range s.report.Findings {
		f := &s.report.Findings[i]
		if f.Code == RecordChanged && f.First == x.Idx {
			f.Text += "; LEDGER still has the record as it was published"
		}
	}
	if s.known(x.Idx) {
		return
	}
	if x.Idx < s.w.good {
		text += ". It was there when the checkpoint over it was signed. Either LEDGER lost its end in a power cut " +
			"(waybill doctor said stream_rewound then), or was altered, " +
			"or somebody else than the sink put the row into the table: see the sink's log of that time (lost_tail, overtaken)"
	}
	s.found.add(Finding{Code: code, First: x.Idx, Last: x.Idx, Count: 1, ID: x.ID, Text: text})
}

func (s *streamRun) say() {
	p := &s.report
	slices.SortStableFunc(s.found.List, func(a, b Finding) int { return int(a.First) - int(b.First) })
	for _, f := range s.found.List {
		if i := slices.IndexFunc(p.Findings, func(g Finding) bool { return g.Code == RecordsRewritten }); i >= 0 &&
			f.Count > 0 &&
			p.Findings[i].First <= f.First && f.First <= p.Findings[i].Last && p.Findings[i].ID == "" {
			p.Findings[i].ID = f.ID
			p.Findings[i].Text += s.narrowed(p.Findings[i].First, f.First)
		}
		p.Findings = append(p.Findings, f)
	}
	p.Dropped += s.found.Dropped
}

// narrowed says what LEDGER shows of the first wrong record, which is first or
// behind it. Where LEDGER was trimmed past some of those records, one of them may
// be wrong as well.
func (s *streamRun) narrowed(first, wrong uint64) string {
	if s.oldest > first && wrong > first {
		return fmt.Sprintf("; LEDGER, which has only what came from sequence %d on, says otherwise about record %d: the "+
			"first wrong one is at or before record %d", s.at.First, wrong, wrong)
	}
	return fmt.Sprintf("; by LEDGER, which goes back to sequence %d, it is record %d", s.at.First, wrong)
}

func idOf(body []byte) string {
	var r struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(body, &r) != nil {
		return ""
	}
	return r.ID
}
