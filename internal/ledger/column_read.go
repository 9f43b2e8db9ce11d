package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/ch-go/proto"
)

// columnReader is a stored column of one block, as the database sends it, beside
// what the record says.
type columnReader interface {
	data() proto.ColResult
	// front is the length of the JSON value at the front of rest, if it is what row
	// i holds. 0 means that it is not, or that it cannot be told from here.
	front(i int, rest []byte) int
	// absent says whether row i holds what is stored for a field that is not there.
	absent(i int) bool
	// empty says that all rows do. False may also mean that it is not known.
	empty() bool
	// differs compares row i with what r says. The texts are for people.
	differs(i int, r *Row) (stored, said string, differs bool)
}

// whole numbers.
type numbers[T uint64 | int64] struct {
	column proto.ColResult
	values *[]T
	value  func(*Row) T
}

func newNumbers[T uint64 | int64](value func(*Row) T) columnReader {
	switch value := any(value).(type) {
	case func(*Row) uint64:
		c := new(proto.ColUInt64)
		return &numbers[uint64]{c, (*[]uint64)(c), value}
	case func(*Row) int64:
		c := new(proto.ColInt64)
		return &numbers[int64]{c, (*[]int64)(c), value}
	}
	return nil
}

func (c *numbers[T]) data() proto.ColResult { return c.column }
func (c *numbers[T]) absent(i int) bool     { return (*c.values)[i] == 0 }

func (c *numbers[T]) empty() bool {
	return !slices.ContainsFunc(*c.values, func(v T) bool { return v != 0 })
}

func (c *numbers[T]) front(i int, rest []byte) int {
	n, length := frontNumber(rest)
	if n != int64((*c.values)[i]) { // n has 18 digits at most: nothing wraps to it
		return 0
	}
	return length
}

func (c *numbers[T]) differs(i int, r *Row) (stored, said string, differs bool) {
	got, want := (*c.values)[i], c.value(r)
	if got == want {
		return "", "", false
	}
	return fmt.Sprint(got), fmt.Sprint(want), true
}

// texts are strings, whether the column keeps a dictionary or not.
type texts struct {
	value        func(*Row) []byte
	plainStrings proto.ColStr // one for each row; with a dictionary its bytes are those of words
	dictionary   proto.ColLowCardinalityRaw
	words        proto.ColStr // of dictionary
	isDictionary bool
	literal      bool // every string is known to be
}

func newTexts(value func(*Row) []byte) *texts {
	c := &texts{value: value}
	c.dictionary.Index = &c.words
	return c
}

func (c *texts) data() proto.ColResult { return c }

// Infer implements proto.Inferable: the server says which of the two it is.
func (c *texts) Infer(t proto.ColumnType) error {
	switch t {
	case proto.ColumnTypeString:
		c.isDictionary = false
	case "LowCardinality(String)":
		c.isDictionary = true
	default:
		return fmt.Errorf("a column of type %s where a string was expected", t)
	}
	return nil
}

func (c *texts) Type() proto.ColumnType {
	if c.isDictionary {
		return c.dictionary.Type()
	}
	return proto.ColumnTypeString
}

func (c *texts) Rows() int { return c.plainStrings.Rows() }

func (c *texts) Reset() {
	c.plainStrings.Reset()
	c.dictionary.Reset()
}

// DecodeState implements proto.StateDecoder.
func (c *texts) DecodeState(r *proto.Reader) error {
	if c.isDictionary {
		return c.dictionary.DecodeState(r)
	}
	return nil
}

func (c *texts) DecodeColumn(r *proto.Reader, rows int) error {
	c.literal = false
	if !c.isDictionary {
		return readStrings(r, rows, &c.plainStrings)
	}
	if err := c.dictionary.DecodeColumn(r, rows); err != nil {
		return err
	}
	c.plainStrings.Buf, c.plainStrings.Pos = c.words.Buf, slices.Grow(c.plainStrings.Pos[:0], rows)
	for i := range rows { // a key behind the dictionary's end must not be looked up
		k := c.key(i)
		if k >= uint64(len(c.words.Pos)) {
			return fmt.Errorf("row %d has key %d of a dictionary of %d", i, k, len(c.words.Pos))
		}
		c.plainStrings.Pos = append(c.plainStrings.Pos, c.words.Pos[k])
	}
	c.literal = !slices.ContainsFunc(c.words.Pos,
		func(p proto.Position) bool { return !isLiteral(c.words.Buf[p.Start:p.End]) })
	return nil
}

func (c *texts) key(i int) uint64 {
	switch d := &c.dictionary; d.Key {
	case proto.KeyUInt8:
		return uint64(d.Keys8[i])
	case proto.KeyUInt16:
		return uint64(d.Keys16[i])
	case proto.KeyUInt32:
		return uint64(d.Keys32[i])
	default:
		return d.Keys64[i]
	}
}

// readStrings reads strings, each behind its length, into one piece of memory. The
// lengths stay between them: what reads every one by itself spends most of its
// time on that.
func readStrings(r *proto.Reader, rows int, into *proto.ColStr) error {
	buf, pos, at := into.Buf[:0], slices.Grow(into.Pos[:0], rows), 0
	more := func(n int) error {
		have := len(buf)
		buf = slices.Grow(buf, n)[:have+n]
		return r.ReadFull(buf[have:])
	}
	for left := rows; left > 0; left-- {
		length, size := binary.Uvarint(buf[at:])
		for size == 0 { // a byte at least is to come of every string that is left
			if err := more(left); err != nil {
				return err
			}
			length, size = binary.Uvarint(buf[at:])
		}
		if size < 0 || length > maxString {
			return fmt.Errorf("a string of %d bytes", length)
		}
		from, to := at+size, at+size+int(length)
		if missing := to - len(buf); missing > 0 {
			if err := more(missing + left - 1); err != nil {
				return err
			}
		}
		pos, at = append(pos, proto.Position{Start: from, End: to}), to
	}
	into.Buf, into.Pos = buf, pos
	return nil
}

// maxString is longer than any that is stored.
const maxString = 1 << 30

func (c *texts) at(i int) []byte {
	p := c.plainStrings.Pos[i]
	return c.plainStrings.Buf[p.Start:p.End]
}

func (c *texts) absent(i int) bool { return c.plainStrings.Pos[i].Start == c.plainStrings.Pos[i].End }

func (c *texts) empty() bool {
	return !slices.ContainsFunc(c.plainStrings.Pos, func(p proto.Position) bool { return p.Start < p.End })
}

func (c *texts) front(i int, rest []byte) int {
	got := c.at(i)
	end := 1 + len(got)
	if len(rest) <= end || rest[0] != '"' || rest[end] != '"' || !bytes.Equal(rest[1:end], got) {
		return 0
	}
	if !c.literal && !isLiteral(got) {
		return 0
	}
	return end + 1
}

func (c *texts) differs(i int, r *Row) (stored, said string, differs bool) {
	got, want := c.at(i), c.value(r)
	if bytes.Equal(got, want) {
		return "", "", false
	}
	return string(got), string(want), true
}

// instants are times; where null is true, a time that is not there is NULL.
type instants struct {
	value  func(*Row) time.Time
	null   bool
	column proto.ColDateTime64
	maybe  *proto.ColNullable[time.Time]
}

func newInstants(value func(*Row) time.Time, null bool) *instants {
	c := &instants{value: value, null: null}
	c.column.WithPrecision(proto.PrecisionNano).WithLocation(time.UTC)
	c.maybe = proto.NewColNullable[time.Time](&c.column)
	return c
}

func (c *instants) data() proto.ColResult {
	if c.null {
		return c.maybe
	}
	return &c.column
}

func (c *instants) isNull(i int) bool { return c.null && c.maybe.Nulls[i] != 0 }
func (c *instants) absent(i int) bool { return c.isNull(i) }

func (c *instants) empty() bool { return c.null && bytes.IndexByte(c.maybe.Nulls, 0) < 0 }

func (c *instants) front(i int, rest []byte) int {
	n, length := frontInstant(rest)
	if c.isNull(i) || n != int64(c.column.Data[i]) {
		return 0
	}
	return length
}

func (c *instants) differs(i int, r *Row) (stored, said string, differs bool) {
	want := c.value(r)
	if absent := c.null && want.IsZero(); absent || c.isNull(i) {
		return c.show(i), instantText(want, absent), absent != c.isNull(i)
	}
	if int64(c.column.Data[i]) == clampTime(want).UnixNano() {
		return "", "", false
	}
	return c.show(i), instantText(clampTime(want), false), true
}

func (c *instants) show(i int) string {
	return instantText(time.Unix(0, int64(c.column.Data[i])).UTC(), c.isNull(i))
}

func instantText(t time.Time, null bool) string {
	if null {
		return "NULL"
	}
	return t.Format(time.RFC3339Nano)
}

// frontNumber reads a JSON number of at most 18 digits and no sign at the front;
// length 0: there is none. What follows it decides whether it is a whole one.
func frontNumber(b []byte) (n int64, length int) {
	for length < len(b) && '0' <= b[length] && b[length] <= '9' {
		n = 10*n + int64(b[length]-'0')
		length++
	}
	if length > 18 || length > 1 && b[0] == '0' {
		return 0, 0
	}
	return n, length
}

// frontInstant reads what plainInstant does, at the front; length 0: there is none.
func frontInstant(b []byte) (nanos int64, length int) {
	b = b[:min(len(b), len(`"2006-01-02T15:04:05.999999999Z"`))]
	length = bytes.IndexByte(b, 'Z') + len(`Z"`)
	if length > len(b) {
		return 0, 0
	}
	nanos, ok := plainInstant(b[:length])
	if !ok {
		return 0, 0
	}
	return nanos, length
}

// plainInstant reads a JSON string as time.Time writes UTC, in the years that a
// column holds, and gives nanoseconds since 1970.
func plainInstant(raw []byte) (nanos int64, ok bool) {
	if len(raw) < len(`"2006-01-02T15:04:05Z"`) || raw[0] != '"' || raw[len(raw)-1] != '"' || raw[len(raw)-2] != 'Z' {
		return 0, false
	}
	s := raw[1 : len(raw)-2]
	for _, p := range [...]struct {
		at int
		is byte
	}{{4, '-'}, {7, '-'}, {10, 'T'}, {13, ':'}, {16, ':'}} {
		if s[p.at] != p.is {
			return 0, false
		}
	}
	year, month, day := digits(s[0:4]), digits(s[5:7]), digits(s[8:10])
	hour, minute, second := digits(s[11:13]), digits(s[14:16]), digits(s[17:19])
	if year < 1970 || year > 2261 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) ||
		hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return 0, false
	}
	fraction := 0
	if rest := s[19:]; len(rest) > 0 {
		if rest[0] != '.' || len(rest) < 2 || len(rest) > 10 {
			return 0, false
		}
		if fraction = digits(rest[1:]); fraction < 0 {
			return 0, false
		}
		for range 10 - len(rest) {
			fraction *= 10
		}
	}
	seconds := int64(daysBefore(year, month)+day-1)*86400 + int64(hour*3600+minute*60+second)
	return seconds*1e9 + int64(fraction), true
}

// digits reads up to nine of them; -1: there is something else.
func digits(s []byte) int {
	n := 0
	for _, b := range s {
		if b < '0' || b > '9' {
			return -1
		}
		n = 10*n + int(b-'0')
	}
	return n
}

func leap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysIn(year, month int) int {
	switch {
	case month == 2 && leap(year):
		return 29
	case month == 2:
		return 28
	case month == 4 || month == 6 || month == 9 || month == 11:
		return 30
	}
	return 31
}

// daysBefore counts the days from 1970 to a month's first.
func daysBefore(year, month int) int {
	y := year
	if month <= 2 {
		y-- // years that begin in March have their leap day last
	}
	m := (month + 9) % 12
	return 365*y + y/4 - y/100 + y/400 + (153*m+2)/5 - 719468 + 0
}

func (c *instants) time(i int) time.Time { return time.Unix(0, int64(c.column.Data[i])).UTC() }
