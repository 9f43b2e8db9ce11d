package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/ledger/verify"
)

// sizes of the checkpoints of a ledger of 700 records: two full tiles, and 188
// records behind them of which a checkpoint covers all but ten.
func sizes() []uint64 { return []uint64{100, 256, 300, 512, 600, 690} }

// storedColumns gives name and type of the columns that an insert fills.
func (s *signed) storedColumns() (names []string, types map[string]string) {
	s.t.Helper()
	types = map[string]string{}
	for _, l := range lines(s.t, s.conn, "SELECT concat(name, ' ', type) FROM system.columns WHERE database = "+
		"currentDatabase() AND table = 'records' AND default_kind != 'ALIAS' ORDER BY position") {
		name, typ, _ := strings.Cut(l, " ")
		names = append(names, name)
		types[name] = typ
	}
	if len(names) < 30 {
		s.t.Fatalf("only %d stored columns", len(names))
	}
	return names, types
}

// flipped is an expression for the column with one byte changed.
func flipped(name, typ string) string {
	switch {
	case strings.Contains(typ, "String"):
		return fmt.Sprintf("if(%[1]s = '', 'x', concat(char(bitXor(reinterpretAsUInt8(substring(%[1]s, 1, 1)), 1)), "+
			"substring(%[1]s, 2)))", name)
	case strings.Contains(typ, "DateTime64"):
		return fmt.Sprintf("if(%[1]s IS NULL, toDateTime64('2026-01-02 03:04:05', 9, 'UTC'), addNanoseconds(%[1]s, 1))", name)
	}
	return fmt.Sprintf("bitXor(%s, 1)", name)
}

// replace writes rows anew with one column changed, which also works for
// columns of a key.
func (s *signed) replace(column, expression, where string) {
	s.t.Helper()
	names, _ := s.storedColumns()
	all := strings.Join(names, ", ")
	s.sql("CREATE OR REPLACE TABLE scratch AS records")
	s.sql("INSERT INTO scratch (%s) SELECT * REPLACE (%s AS %s) FROM (SELECT %s FROM records WHERE %s)", all, expression,
		column, all, where)
	s.sql("ALTER TABLE records DELETE WHERE %s SETTINGS mutations_sync = 2", where)
	s.sql("INSERT INTO records (%s) SELECT %s FROM scratch", all, all)
	s.sql("DROP TABLE scratch SYNC")
}

func TestOneByteOfAnyColumnOfARowIsFound(t *testing.T) {
	t.Parallel()
	names, types := newSigned(t, 1).storedColumns()
	for _, at := range []uint64{300, 650} { // in a tile, and behind the last one
		s := newSigned(t, 700, sizes()...)
		all := strings.Join(names, ", ")
		s.sql("CREATE TABLE kept AS records")
		s.sql("INSERT INTO kept (%[1]s) SELECT %[1]s FROM records", all)
		for _, name := range names {
			s.t = t
			t.Run(fmt.Sprintf("%s of %d", name, at), func(t *testing.T) {
				s.t = t
				s.replace(name, flipped(name, types[name]), fmt.Sprintf("idx = %d", at))
				r := s.verify()
				switch f := first(r); {
				case r.Good || f == nil:
					t.Errorf("not found: %+v", r)
				case name == "idx": // 300 and 650 become 301 and 651
					if f.First != at || f.Code != verify.RecordMoved && f.Code != verify.RecordMissing {
						t.Errorf("got %+v", r.Findings)
					}
				case f.First > at || f.Last < at:
					t.Errorf("the first wrong record is not %d: %+v", at, r.Findings)
				case at == 300 && f.First != at:
					t.Errorf("named too many: %+v", r.Findings)
				}
				named := slices.ContainsFunc(r.Findings, func(f verify.Finding) bool {
					return f.First <= at && at <= f.Last && slices.ContainsFunc(f.Columns,
						func(d verify.Difference) bool { return d.Column == name })
				})
				if !named && name != "idx" && name != "body" && (at == 300 || !strings.HasPrefix(name, "stream_")) {
					t.Errorf("the column is not named: %+v", r.Findings)
				}
				touched := fmt.Sprintf("idx IN (%d, %d)", at, at^1)
				s.sql("ALTER TABLE records DELETE WHERE %s SETTINGS mutations_sync = 2", touched)
				s.sql("INSERT INTO records (%[1]s) SELECT %[1]s FROM kept WHERE %[2]s SETTINGS insert_deduplicate = 0", all,
					touched)
			})
		}
		s.t = t
		if r := s.verify(); !r.Good {
			t.Errorf("after all was put back: %+v", r.Findings)
		}
	}
}

func TestAttacksOnRecordsAreFound(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		attack func(*signed)
		at     uint64
		code   verify.Code
		with   func(*signed, *verify.Options)
	}{
		{"a row is deleted", func(s *signed) { s.sql("ALTER TABLE records DELETE WHERE idx = 260 SETTINGS mutations_sync = 2") }, 260, verify.RecordMissing, nil},
		{"a row is deleted lightly", func(s *signed) { s.sql("DELETE FROM records WHERE idx = 260") }, 260,
			verify.RecordMissing, nil},
		{"a row behind the tiles is deleted", func(s *signed) {
			s.sql("ALTER TABLE records DELETE WHERE idx = 555 " +
				"SETTINGS mutations_sync = 2")
		}, 555, verify.RecordMissing, nil},
		{"rows are swapped", func(s *signed) {
			s.replace("idx", "if(idx = 301, 400, 301)", "idx IN (301, 400)")
		}, 301, verify.RecordMoved, nil},
		{"a row is inserted in the middle", func(s *signed) {
			s.insertLike(300, "idx", "300", "body",
				"replace(body, 'ann@', 'bob@')")
		}, 300, verify.RecordAdded, nil},
		{"a copy of a row is inserted", func(s *signed) { s.insertLike(20, "idx", "20") }, 20, verify.RecordAdded, nil},
		{"a row is inserted far out", func(s *signed) { s.insertLike(20, "idx", "9000000000000000000") }, 9000000000000000000,
			verify.RecordAdded, nil},
		{"a row is inserted at the end", func(s *signed) { s.insertLike(20, "idx", "700", "stream_seq", "701") }, 700,
			verify.NotInStream, (*signed).withStream},
		{"a mutation", func(s *signed) { s.update("records", "status = 500", "idx = 299") }, 299, verify.ColumnChanged, nil},
		{"the tail is cut off", func(s *signed) {
			s.sql("ALTER TABLE records DELETE WHERE idx >= 620 SETTINGS " +
				"mutations_sync = 2")
		}, 620, verify.RolledBack, nil},
		{"the tail is cut off before a tile", func(s *signed) {
			s.sql("ALTER TABLE records DELETE WHERE idx >= 400 " +
				"SETTINGS mutations_sync = 2")
		}, 400, verify.RecordMissing, nil},
		{"the tail is cut off and told otherwise", func(s *signed) { s.rewrite(650, 700, false) }, 600,
			verify.RecordsRewritten, (*signed).withStream},
		{"the uncovered tail is told otherwise", func(s *signed) { s.rewrite(695, 700, false) }, 695, verify.StreamDiffers,
			(*signed).withStream},
		{"records and tiles are rewritten", func(s *signed) { s.rewrite(310, 700, true) }, 300, verify.RecordsRewritten, nil},
		{"a tile is rewritten", func(s *signed) { s.rewriteTiles(1) }, 256, verify.TileChanged, nil},
		{"a tile is deleted", func(s *signed) { s.sql("ALTER TABLE tiles DELETE WHERE tile = 1 SETTINGS mutations_sync = 2") }, 256, verify.TileMissing, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSigned(t, 700, sizes()...)
			c.attack(s)
			r := s.verify(func(o *verify.Options) {
				if c.with != nil {
					c.with(s, o)
				}
			})
			wantFirst(t, r, c.at, c.code)
		})
	}
}

// insertLike inserts a copy of row n with some columns changed.
func (s *signed) insertLike(n int, changes ...string) {
	s.t.Helper()
	names, _ := s.storedColumns()
	all := strings.Join(names, ", ")
	var replace []string
	for i := 0; i < len(changes); i += 2 {
		replace = append(replace, changes[i+1]+" AS "+changes[i])
	}
	s.sql("INSERT INTO records (%s) SELECT * REPLACE (%s) FROM (SELECT %s FROM records WHERE idx = %d)", all,
		strings.Join(replace, ", "), all, n)
}

// rewrite replaces the records from first on by others that are as good in
// themselves, and if asked the tiles with them.
func (s *signed) rewrite(first, end int, tiles bool) {
	s.t.Helper()
	s.sql("ALTER TABLE records DELETE WHERE idx >= %d AND idx < %d SETTINGS mutations_sync = 2", first, end)
	var rows []ledger.Row
	for i := first; i < end; i++ {
		rec := made(i)
		rec.Status, rec.Actor = 503, "mallory"
		r := row(s.t, uint64(i), rec)
		r.StreamEpoch = epoch
		rows = append(rows, r)
	}
	// The real ones were inserted under tokens, and another first idx may repeat one.
	s.sql("ALTER TABLE records MODIFY SETTING non_replicated_deduplication_window = 0")
	for rest := rows; len(rest) > 0; {
		m := ledger.SameMonth(rest)
		s.must(s.db.Append(context.Background(), rest[:m]))
		rest = rest[m:]
	}
	s.sql("ALTER TABLE records MODIFY SETTING non_replicated_deduplication_window = 100000")
	if tiles {
		for tile := first / 256; (tile+1)*256 <= end; tile++ {
			s.rewriteTiles(tile)
		}
	}
}

// rewriteTiles puts in tiles that fit the records as they are now, or a wrong
// hash if they fit already.
func (s *signed) rewriteTiles(tile int) {
	s.t.Helper()
	leaves, err := s.db.Leaves(context.Background(), uint64(tile*256), uint64(tile*256+256))
	s.must(err)
	before, err := s.db.StoredLeaves(context.Background(), uint64(tile*256), uint64(tile*256+256))
	s.must(err)
	if slices.Equal(leaves, before) {
		leaves[0][5] ^= 1
	}
	s.sql("ALTER TABLE tiles DELETE WHERE level = 0 AND tile = %d SETTINGS mutations_sync = 2", tile)
	s.sql("INSERT INTO tiles SELECT 0, %d, unhex('%x')", tile, merkle.Join(leaves))
}

// An attacker who rewrites the records and their tiles leaves only the
// checkpoints; LEDGER tells then which record is the first.
func TestLEDGERNarrowsWhatWasRewritten(t *testing.T) {
	t.Parallel()
	s := newSigned(t, 700, sizes()...)
	s.rewrite(333, 700, true)
	r := s.verify(s.withStream)
	wantFirst(t, r, 300, verify.RecordsRewritten)
	if f := first(r); f == nil || f.Last != 511 || !strings.Contains(f.Text, "it is record 333") {
		t.Errorf("got %+v", f)
	}
	s.stream.trim = 400
	r = s.verify(s.withStream)
	if f := first(r); f == nil || f.First != 300 || f.Last != 511 || !strings.Contains(f.Text,
		"says otherwise about record 400: the first wrong one is at or before record 400") ||
		strings.Contains(f.Text, "it is record") {
		t.Errorf("got %+v", f)
	}
}

// Somebody who may insert puts a row behind the end, and the sink signs it with
// those that follow.
func TestRowsThatWereSignedThoughTheSinkDidNotWriteThem(t *testing.T) {
	forge := func(t *testing.T, foreign record.Record) *signed {
		s := newSignedWith(t, 300, map[int]record.Record{280: foreign}, 300)
		// LEDGER never had it: what is behind it came from one sequence earlier.
		s.stream.bodies = append(s.stream.bodies[:280:280], s.stream.bodies[281:]...)
		return s
	}
	t.Run("one that LEDGER does not know", func(t *testing.T) {
		s := forge(t, record.Record{ID: "att_foreign", Kind: record.Attempt, Tenant: "acme", EventID: "e", EndpointID: "ep_1",
			Attempt: 1})
		r := s.verify(s.withStream, s.withOutside)
		wantFirst(t, r, 280, verify.StreamDiffers)
		if f := first(r); f == nil || f.Count < 19 ||
			!strings.Contains(f.Text, "somebody else than the sink put the row into the table") {
			t.Errorf("got %+v", r.Findings)
		}
	})
	t.Run("one that says that it came from another making of LEDGER", func(t *testing.T) {
		s := newSigned(t, 300, 100)
		s.insertLike(20, "idx", "300", "stream_epoch", "7", "id", "'att_foreign'")
		r := s.verify(s.withStream)
		found := slices.ContainsFunc(r.Findings, func(f verify.Finding) bool {
			return f.Code == verify.NotInStream &&
				f.First == 300
		})
		if r.Good || !found {
			t.Errorf("got %+v", r.Findings)
		}
	})
	t.Run("one that is there already", func(t *testing.T) {
		s := newSigned(t, 300, 100)
		s.insertLike(20, "idx", "300")
		leaves, err := s.db.Leaves(context.Background(), 0, 301)
		s.must(err)
		s.sign(leaves, s.now, true)
		r := s.verify(s.withStream)
		wantFirst(t, r, 300, verify.RecordAdded)
		if f := first(r); f == nil || !strings.Contains(f.Text, "record 20 once more") {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("one in the place of one that LEDGER has", func(t *testing.T) {
		s := newSigned(t, 300, 300)
		s.stream.bodies[290] = []byte(`{"v":1,"id":"att_real","kind":"attempt"}`)
		r := s.verify(s.withStream)
		if r.Good || r.Codes() != string(verify.NotInLedger)+" "+string(verify.StreamDiffers) {
			t.Errorf("got %+v", r.Findings)
		}
	})
}

// TestABackupOfLastWeekIsFound: everything in the database is as it was once.
func TestABackupOfLastWeekIsFound(t *testing.T) {
	t.Parallel()
	s := newSigned(t, 600, 100, 256, 300, 512, 600)
	old := s.outside
	// What was signed since is only known elsewhere.
	later := newSigned(t, 700, 700)
	later.signer, later.key = s.signer, s.key
	later.outside = nil
	var leaves []tlog.Hash
	for _, r := range later.rows {
		leaves = append(leaves, merkle.LeafHash(epoch, r.StreamSeq, r.Body))
	}
	p := later.sign(leaves, s.now, false)
	if r := s.verify(); !r.Good || !strings.Contains(strings.Join(r.Unproven, "\n"), "cut the ledger short") {
		t.Errorf("from the database alone nothing is to be seen, and the report says so: %+v", r)
	}
	p.Source = "checkpoint of Monday.txt"
	r := s.verify(func(o *verify.Options) { o.Outside = append(old, p) })
	wantFirst(t, r, 600, verify.RolledBack)
	if f := first(r); f == nil || f.Last != 699 || f.Count != 100 {
		t.Errorf("got %+v", f)
	}
	if !strings.Contains(r.Codes(), "checkpoint_missing") {
		t.Errorf("that the checkpoint is missing is not said: %s", r.Codes())
	}
}

// A ledger that was just made has no checkpoint yet: nothing is proven, and the
// answer says that a minute may change that.
func TestALedgerWithoutCheckpointsIsNotGoodAndANewOneIsToldToWait(t *testing.T) {
	t.Parallel()
	s := newSigned(t, 4)
	s.sql("TRUNCATE TABLE checkpoints")
	for _, age := range []time.Duration{time.Minute, time.Hour} {
		s.now = start.Add(age)
		r := s.verify()
		if r.Good || len(r.Findings) != 1 || r.Findings[0].Code != verify.NoCheckpoint {
			t.Fatalf("%s after its first record: good %t, %+v", age, r.Good, r.Findings)
		}
		if told := strings.Contains(r.Findings[0].Text, "ask again in a minute"); told != (age == time.Minute) {
			t.Errorf("%s after its first record: %s", age, r.Findings[0].Text)
		}
	}
}

func TestAttacksOnCheckpointsAreFound(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		attack func(*signed)
		with   func(*signed, *verify.Options)
		want   string
	}{
		{"all are deleted", func(s *signed) { s.sql("TRUNCATE TABLE checkpoints") }, nil, "no_checkpoint"},
		{"all are deleted, the stream has them", func(s *signed) { s.sql("TRUNCATE TABLE checkpoints") },
			(*signed).withOutside, "checkpoint_missing"},
		{"the last are deleted", func(s *signed) {
			s.sql("ALTER TABLE checkpoints DELETE WHERE size >= 300 SETTINGS mutations_sync = 2")
			s.now = s.now.Add(time.Hour)
		}, nil, "not_covered"},
		{"a column is altered", func(s *signed) { s.replaceCheckpoint(512, "root", "reverse(root)") }, nil,
			"checkpoint_altered"},
		{"its size is altered", func(s *signed) { s.replaceCheckpoint(512, "size", "513") }, nil, "checkpoint_altered"},
		{"a note is altered", func(s *signed) { s.replaceCheckpoint(512, "note", "replace(note, '512', '513')") }, nil,
			"checkpoint_invalid"},
		{"a note is rubbish", func(s *signed) { s.replaceCheckpoint(512, "note", "'x'") }, nil, "checkpoint_invalid"},
		{"another history was signed", func(s *signed) {
			c := checkpoint.Checkpoint{Origin: origin, Size: 400, Root: tlog.Hash{1}}
			b, err := note.Sign(&note.Note{Text: c.Text()}, s.signer)
			s.must(err)
			s.outside = append(s.outside, verify.Published{Source: "elsewhere.txt", Note: string(b)})
		}, (*signed).withOutside, "contradiction"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSigned(t, 700, sizes()...)
			c.attack(s)
			r := s.verify(func(o *verify.Options) {
				if c.with != nil {
					c.with(s, o)
				}
			})
			if r.Good || !strings.Contains(r.Codes(), c.want) {
				t.Errorf("want %s, got %+v", c.want, r.Findings)
			}
		})
	}
}

func (s *signed) replaceCheckpoint(size uint64, column, expression string) {
	s.t.Helper()
	s.sql("CREATE OR REPLACE TABLE scratch AS checkpoints")
	s.sql("INSERT INTO scratch SELECT * REPLACE (%s AS %s) FROM (SELECT * FROM checkpoints WHERE size = %d)", expression,
		column, size)
	s.sql("ALTER TABLE checkpoints DELETE WHERE size = %d SETTINGS mutations_sync = 2", size)
	s.sql("INSERT INTO checkpoints SELECT * FROM scratch")
	s.sql("DROP TABLE scratch SYNC")
}
