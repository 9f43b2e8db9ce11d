// Package evidence is the file that proves what the ledger says of one event:
// its format, how it is built, verified offline, and shown to people. Pure: it
// needs no database and no network. See docs/evidence-file.md.
package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/tlog"
)

// The formats. The number changes when the format does: 2 is 1 with what EVENTS
// said in the statement, and a file is of 1 when EVENTS was not asked.
const (
	Format1 = "waybill-evidence/1"
	Format2 = "waybill-evidence/2"
)

// Limits stands in every file of this format: what a proof of inclusion is not.
const Limits = "This file proves that its records were in the ledger, as they are here, when the checkpoint was " +
	"signed. " +
	"It cannot prove that the ledger has no further record of this event: " +
	"that is shown on the whole ledger, by waybill ledger verify and waybill audit completeness. " +
	"The statement is the exporter's word; no signature covers it."

// MaxBytes bounds a file that is read: an event owed to a hundred thousand
// endpoints fits.
const MaxBytes = 512 << 20

// File is the evidence of one event, or of its delivery to one endpoint.
type File struct {
	Subject    Subject
	Statement  Statement
	Checkpoint Checkpoint
	Records    []Record // by Idx, each once
}

// Subject is what the file is about. An empty EndpointID means all endpoints.
type Subject struct {
	Tenant     string `json:"tenant"`
	EventID    string `json:"event_id"`
	EndpointID string `json:"endpoint_id"`
}

// Statement is what the exporter says: nothing else in the file vouches for it.
type Statement struct {
	ExportedAt   time.Time
	ExportedBy   string
	Software     string
	CheckpointAt time.Time // when the ledger says that it signed the checkpoint
	// Uncovered are the places of records that were found but that no
	// checkpoint covered yet; they are not in the file.
	Uncovered []uint64
	Queries   []Query
	Events    *Events // nil: EVENTS was not asked
}

// Query is one question that found records.
type Query struct {
	Finds string `json:"finds"` // what, for people
	SQL   string `json:"sql"`   // with its arguments in place
}

// Checkpoint is the signed note (C2SP tlog-checkpoint) with its cosignatures,
// and tokens of RFC 3161 over it.
type Checkpoint struct {
	Note       string
	Timestamps []Timestamp
}

// Timestamp is a token of an authority, DER.
type Timestamp struct {
	Authority string
	Token     []byte
}

// Record is one record at its place, and the proof of that.
type Record struct {
	Idx   uint64
	Epoch int64
	Seq   uint64
	Body  []byte
	Proof tlog.RecordProof
}

// The wire types fix the members and their order. Numbers are strings, so that
// no reader of JSON rounds them.
type wire struct {
	Format     string         `json:"format"`
	Subject    Subject        `json:"subject"`
	Limits     string         `json:"limits"`
	Statement  wireStatement  `json:"statement"`
	Checkpoint wireCheckpoint `json:"checkpoint"`
	Records    []wireRecord   `json:"records"`
	Digest     string         `json:"sha256"`
}

type wireStatement struct {
	ExportedAt   string   `json:"exported_at"`
	ExportedBy   string   `json:"exported_by"`
	Software     string   `json:"software"`
	CheckpointAt string   `json:"checkpoint_at"`
	Uncovered    []string `json:"uncovered"`
	Queries      []Query  `json:"queries"`

	Events *wireEvents `json:"events"`
}

type wireCheckpoint struct {
	Note       string          `json:"note"`
	Timestamps []wireTimestamp `json:"timestamps"`
}

type wireTimestamp struct {
	Authority string `json:"authority"`
	Token     []byte `json:"token"`
}

type wireRecord struct {
	Idx   string   `json:"idx"`
	Epoch string   `json:"epoch"`
	Seq   string   `json:"seq"`
	Body  []byte   `json:"body"`
	Proof [][]byte `json:"proof"`
}

func (f *File) format() string {
	if f.Statement.Events == nil {
		return Format1
	}
	return Format2
}

// Encode writes the file: there is one way to write it, byte for byte.
func (f *File) Encode() []byte {
	var b writer
	b.raw(`{"format":`).text(f.format())
	b.raw(",\n\"subject\":{\"tenant\":").text(f.Subject.Tenant).raw(`,"event_id":`).text(f.Subject.EventID).
		raw(`,"endpoint_id":`).text(f.Subject.EndpointID)
	b.raw("},\n\"limits\":").text(Limits)
	s := &f.Statement
	b.raw(",\n\"statement\":{\"exported_at\":").time(s.ExportedAt).raw(`,"exported_by":`).text(s.ExportedBy).
		raw(`,"software":`).text(s.Software).raw(`,"checkpoint_at":`).time(s.CheckpointAt).raw(`,"uncovered":[`)
	for i, idx := range s.Uncovered {
		b.comma(i).text(strconv.FormatUint(idx, 10))
	}
	b.raw(`],"queries":[`)
	for i, q := range s.Queries {
		b.comma(i).raw(`{"finds":`).text(q.Finds).raw(`,"sql":`).text(q.SQL).raw("}")
	}
	b.raw("]").events(s.Events).raw("},\n\"checkpoint\":{\"note\":").text(f.Checkpoint.Note).raw(`,"timestamps":[`)
	for i, t := range f.Checkpoint.Timestamps {
		b.comma(i).raw(`{"authority":`).text(t.Authority).raw(`,"token":`).bytes(t.Token).raw("}")
	}
	b.raw("]},\n\"records\":[")
	for i := range f.Records {
		b.comma(i)
		b.record(&f.Records[i])
	}
	b.raw("\n],\n")
	sum := sha256.Sum256(b.b)
	b.raw(lastLine(sum))
	return b.b
}

func lastLine(sum [sha256.Size]byte) string {
	return `"sha256":"` + hex.EncodeToString(sum[:]) + "\"}\n"
}

type writer struct{ b []byte }

func (w *writer) raw(s string) *writer { w.b = append(w.b, s...); return w }

func (w *writer) comma(i int) *writer {
	if i > 0 {
		w.raw(",")
	}
	return w
}

func (w *writer) bytes(b []byte) *writer {
	w.b = append(base64.StdEncoding.AppendEncode(append(w.b, '"'), b), '"')
	return w
}

// time is empty for none.
func (w *writer) time(t time.Time) *writer {
	if t.IsZero() {
		return w.text("")
	}
	return w.text(t.UTC().Format(time.RFC3339Nano))
}

func (w *writer) record(r *Record) {
	w.raw("\n{\"idx\":").text(strconv.FormatUint(r.Idx, 10)).raw(`,"epoch":`).text(strconv.FormatInt(r.Epoch, 10)).
		raw(`,"seq":`).text(strconv.FormatUint(r.Seq, 10)).raw(`,"body":`).bytes(r.Body).raw(`,"proof":[`)
	for i := range r.Proof {
		w.comma(i).bytes(r.Proof[i][:])
	}
	w.raw("]}")
}

// text writes a JSON string as RFC 8785 does: the shortest escapes, and only
// where JSON asks for one.
func (w *writer) text(s string) *writer {
	w.b = append(w.b, '"')
	for _, r := range s {
		const short = `btn?fr` // for U+0008 to U+000D
		switch {
		case r == '"' || r == '\\':
			w.b = append(w.b, '\\', byte(r))
		case r >= '\b' && r <= '\r' && r != '\v':
			w.b = append(w.b, '\\', short[r-'\b'])
		case r < 0x20:
			w.b = fmt.Appendf(w.b, `\u%04x`, r)
		default:
			w.b = utf8.AppendRune(w.b, r)
		}
	}
	w.b = append(w.b, '"')
	return w
}

// ErrNotEvidence says that bytes are no file of this format.
var ErrNotEvidence = errors.New("not an evidence file")

// Decode reads a file. It takes exactly what Encode writes, so that there is no
// byte that does not matter; only the digest in the last line it leaves to
// Intact.
func Decode(b []byte) (*File, error) {
	var which struct{ Format string }
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&which); err == nil && which.Format != Format1 &&
		which.Format != Format2 {
		return nil, fmt.Errorf("%w: its format is %.40q; this version reads %q and %q", ErrNotEvidence, which.Format, Format1,
			Format2)
	}
	var w wire
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotEvidence, position(b, err))
	}
	f, err := w.file()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotEvidence, err)
	}
	again := f.Encode()
	body := len(again) - len(lastLine([sha256.Size]byte{}))
	if at := firstDifference(again[:body], b); at < body {
		line, column := lineOf(b, at)
		return nil, fmt.Errorf("%w: line %d, column %d is not as this format writes it", ErrNotEvidence, line, column)
	}
	if len(b) != len(again) || string(b[body:]) != `"sha256":`+quotedHex(w.Digest)+"}\n" {
		return nil, fmt.Errorf("%w: its last line is not as this format writes it", ErrNotEvidence)
	}
	return f, nil
}

func quotedHex(s string) string { return `"` + s + `"` }

// Intact says whether the digest in the last line is that of all lines before
// it. It guards against accidents; whoever changes a file on purpose can write
// another digest.
func Intact(b []byte) error {
	last := len(lastLine([sha256.Size]byte{}))
	if len(b) <= last || b[len(b)-last-1] != '\n' {
		return errors.New("the file is cut off, or more was added: it does not end in a line with its digest")
	}
	sum := sha256.Sum256(b[:len(b)-last])
	if want := lastLine(sum); string(b[len(b)-last:]) != want {
		return fmt.Errorf("the file was changed since it was written: what it holds has SHA-256 %x, and its last line "+
			"says otherwise", sum)
	}
	return nil
}

func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func lineOf(b []byte, at int) (line, column int) {
	before := b[:min(at, len(b))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}

// position adds where a JSON error is.
func position(b []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line, column := lineOf(b, int(syntax.Offset)-1)
		return fmt.Errorf("line %d, column %d: %w", line, column, err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early")
	}
	return err
}

func (w *wire) file() (*File, error) {
	f := &File{Subject: w.Subject}
	s := &f.Statement
	var err error
	if s.ExportedAt, err = parseTime(w.Statement.ExportedAt); err != nil {
		return nil, fmt.Errorf("exported_at: %w", err)
	}
	if s.CheckpointAt, err = parseTime(w.Statement.CheckpointAt); err != nil {
		return nil, fmt.Errorf("checkpoint_at: %w", err)
	}
	s.ExportedBy, s.Software, s.Queries = w.Statement.ExportedBy, w.Statement.Software, w.Statement.Queries
	for _, u := range w.Statement.Uncovered {
		idx, err := strconv.ParseUint(u, 10, 63)
		if err != nil {
			return nil, fmt.Errorf("uncovered: %w", err)
		}
		s.Uncovered = append(s.Uncovered, idx)
	}
	if s.Events, err = w.Statement.Events.events(); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	f.Checkpoint.Note = w.Checkpoint.Note
	for _, t := range w.Checkpoint.Timestamps {
		f.Checkpoint.Timestamps = append(f.Checkpoint.Timestamps, Timestamp(t))
	}
	for i := range w.Records {
		r, err := w.Records[i].record()
		if err != nil {
			return nil, fmt.Errorf("record %d of the file: %w", i+1, err)
		}
		f.Records = append(f.Records, r)
	}
	return f, nil
}

func (w *wireRecord) record() (r Record, err error) {
	if r.Idx, err = strconv.ParseUint(w.Idx, 10, 63); err != nil {
		return r, fmt.Errorf("idx: %w", err)
	}
	if r.Epoch, err = strconv.ParseInt(w.Epoch, 10, 64); err != nil {
		return r, fmt.Errorf("epoch: %w", err)
	}
	if r.Seq, err = strconv.ParseUint(w.Seq, 10, 64); err != nil {
		return r, fmt.Errorf("seq: %w", err)
	}
	r.Body = w.Body
	for _, h := range w.Proof {
		if len(h) != tlog.HashSize {
			return r, fmt.Errorf("proof: a hash of %d bytes, want %d", len(h), tlog.HashSize)
		}
		r.Proof = append(r.Proof, tlog.Hash(h))
	}
	return r, nil
}

func parseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339Nano, s)
}
