package ledger_test

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/ledger/verify"
)

// A ledger of so many records has a full tile of level 1. Checkpoints lie before,
// at and behind its end.
const tall = 66_100

func TestAttacksAboveTheLowestTilesAreFound(t *testing.T) {
	t.Parallel()
	s := newSigned(t, tall, 40_000, 65_536, 66_000)
	s.sql("CREATE TABLE kept AS tiles")
	s.sql("INSERT INTO kept SELECT * FROM tiles")
	if got := lines(t, s.conn, "SELECT toString(count()) FROM tiles WHERE level = 1"); got[0] != "1" {
		t.Fatalf("%s tiles of level 1", got[0])
	}
	rangeOf := func(from, to uint64) func(*verify.Options) {
		return func(o *verify.Options) { o.From, o.To = from, to }
	}
	// hash makes one hash of the tile of level 1 another one.
	hash := func(i int) func() {
		return func() {
			s.update("tiles", flipHash(i), "level = 1")
		}
	}
	gone := func() { s.sql("ALTER TABLE tiles DELETE WHERE level = 1 SETTINGS mutations_sync = 2") }
	record := func(idx string) func() {
		return func() { s.update("records", "body = replaceOne(body, 'ann@', 'bob@')", "idx = "+idx) }
	}
	for _, c := range []struct {
		name   string
		attack func()
		how    func(*verify.Options)
		code   verify.Code // "": good
		at     uint64      // of the first finding
		count  uint64
	}{
		{"nothing, a range behind it", func() {}, rangeOf(65_536, 66_000), "", 0, 0},
		{"nothing, a range in it", func() {}, rangeOf(1_000, 2_000), "", 0, 0},
		{"a hash and the last hash are others", func() { hash(7)(); hash(255)() }, nil, verify.TileChanged, 7 * 256, 256},
		{"a hash is another, a range behind it", hash(7), rangeOf(65_536, 66_000), verify.RecordsRewritten, 0, 66_000},
		{"a hash is another, a range before it", hash(99), rangeOf(1_000, 2_000), verify.RecordsRewritten, 0, 40_000},
		{"a hash is another, and a range does not need it", hash(250), rangeOf(1_000, 2_000), "", 0, 0},
		{"the tile is missing", gone, nil, verify.TileMissing, 0, 65_536},
		{"the tile is missing, a range goes by those below", gone, rangeOf(65_536, 66_000), "", 0, 0},
		{"a record is changed", record("50001"), nil, verify.RecordChanged, 50_001, 1},
		{"a record is changed, in the range", record("65801"), rangeOf(65_600, 66_000), verify.RecordChanged, 65_801, 1},
		{"a record is changed, in a range in it", record("1501"), rangeOf(1_000, 2_000), verify.RecordChanged, 1_501, 1},
		{"a record and all above it are rewritten", func() {
			record("50001")()
			s.retile(50_001)
		}, nil, verify.RecordsRewritten, 40_000, 25_536},
		{"a record and all above it are rewritten, a range behind it", func() {
			record("50001")()
			s.retile(50_001)
		}, rangeOf(65_536, 66_000), verify.RecordsRewritten, 0, 66_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.t = t
			c.attack()
			how := c.how
			if how == nil {
				how = func(*verify.Options) {}
			}
			r := s.verify(how)
			is := func(f verify.Finding) bool { return f.Code == c.code && f.First == c.at && f.Count == c.count }
			isLast := func(f verify.Finding) bool { return f.Code == c.code && f.First == 255*256 && f.Count == c.count }
			partial := slices.ContainsFunc(r.Findings, func(f verify.Finding) bool {
				return strings.Contains(f.Text, "or a hash that stands for those that were not read")
			})
			switch {
			case c.code == "" && !r.Good:
				t.Errorf("not good: %+v", r.Findings)
			case c.code != "" && (r.Good || !slices.ContainsFunc(r.Findings, is)):
				t.Errorf("want %s at %d, %d; got good %v, %+v", c.code, c.at, c.count, r.Good, r.Findings)
			case strings.Contains(c.name, "the last hash") && !slices.ContainsFunc(r.Findings, isLast):
				t.Errorf("the last hash is not named: %+v", r.Findings)
			}
			if partial != (c.how != nil && c.code == verify.RecordsRewritten) {
				t.Errorf("whether the record or a tile is wrong: %+v", r.Findings)
			}
			if c.how != nil && !strings.Contains(strings.Join(r.Unproven, "\n"), "they were not verified") {
				t.Errorf("a range does not say what was not read: %q", r.Unproven)
			}
			s.sql("TRUNCATE TABLE tiles SYNC")
			s.sql("INSERT INTO tiles SELECT * FROM kept")
			if c.code == verify.RecordChanged || c.code == verify.RecordsRewritten {
				s.update("records", "body = replaceOne(body, 'bob@', 'ann@')", "body LIKE '%bob@%'")
			}
		})
	}
	s.t = t
	if r := s.verify(); !r.Good {
		t.Errorf("after all was put back: %+v", r.Findings)
	}
}

// flipHash sets one bit of hash i of a tile.
func flipHash(i int) string {
	at := i*32 + 1
	return "hashes = concat(substring(hashes, 1, " + strconv.Itoa(at-1) +
		"), char(bitXor(reinterpretAsUInt8(substring(hashes, " + strconv.Itoa(at) + ", 1)), 1)), substring(hashes, " +
		strconv.Itoa(at+1) + "))"
}

// retile makes the tiles over record idx say what the rows say now.
func (s *signed) retile(idx uint64) {
	s.t.Helper()
	number := idx / merkle.TileWidth
	leaves, err := s.db.Leaves(s.t.Context(), number*merkle.TileWidth, (number+1)*merkle.TileWidth)
	s.must(err)
	above, err := s.db.Tiles(s.t.Context(), []merkle.Tile{{Level: 1, Number: 0}})
	s.must(err)
	above[0][number] = merkle.Root(leaves)
	s.update("tiles", "hashes = unhex('"+hex.EncodeToString(merkle.Join(leaves))+"')",
		"level = 0 AND tile = "+strconv.Itoa(int(number)))
	s.update("tiles", "hashes = unhex('"+hex.EncodeToString(merkle.Join(above[0]))+"')", "level = 1")
}
