package evidence

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
)

// Options of Verify.
type Options struct {
	// Keys are those that may have signed for the ledger. Without one, nothing
	// is proven.
	Keys []Key
	// Witnesses are keys of witnesses: each MUST have signed.
	Witnesses []Key
	// Roots are certificates of authorities for time stamps. With them, one MUST
	// have stamped the checkpoint.
	Roots *x509.CertPool
	// Payload, if it is not nil, is compared with the digests on record.
	Payload []byte
}

// Report is what a file proves.
type Report struct {
	// Proven is true when a given key signed for every record in the file, and
	// nothing is wrong with it.
	Proven bool `json:"proven"`
	// Problems are why not, with what they are about.
	Problems []string `json:"problems"`
	// Contradictions are what is on record, signed for, and cannot be as it should:
	// two events under one id. They make no file wrong, and MUST NOT be overlooked.
	Contradictions []string `json:"contradictions"`
	// Findings are what EVENTS did not vouch for when the file was written: the
	// exporter's word, which makes no file wrong and MUST NOT be overlooked.
	Findings []string `json:"findings"`
	// Payload is what came of comparing Options.Payload; "": it was not compared.
	// Another payload makes no file wrong.
	Payload        PayloadVerdict `json:"payload,omitempty"`
	PayloadProblem string         `json:"payload_problem,omitempty"`

	Subject   Subject    `json:"subject"`
	Claims    []Claim    `json:"proven_claims"`
	NotProven []string   `json:"not_proven"`
	Origin    string     `json:"origin,omitempty"` // the ledger's name
	Size      uint64     `json:"size"`             // how many records the checkpoint covers
	Root      string     `json:"root,omitempty"`   // base64
	SignedBy  string     `json:"signed_by,omitempty"`
	Witnessed []Witness  `json:"witnessed"`
	Stamps    []Stamp    `json:"timestamps"`
	Story     *Story     `json:"-"`
	Facts     []Fact     `json:"-"`
	Statement *Statement `json:"-"`
	Digest    string     `json:"-"` // of the file
}

// PayloadVerdict says whether bytes are what is on record.
type PayloadVerdict string

const (
	PayloadMatches PayloadVerdict = "matches"
	PayloadDiffers PayloadVerdict = "differs"
)

// Claim is one thing that is proven, about the ledger, the event, or the
// delivery to an endpoint.
type Claim struct {
	About string `json:"about"`
	Text  string `json:"text"`
}

// Witness is a signature beside the ledger's.
type Witness struct {
	Key      string    `json:"key"`
	At       time.Time `json:"at,omitzero"` // when it says that it signed
	Verified bool      `json:"verified"`    // with a key that was given
	Ledgers  bool      `json:"ledgers"`     // it is no witness, but another key of the ledger
}

func (r *Report) wrong(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Verify checks everything there is to check in a file, and says what it
// proves. It reads nothing but its arguments.
func Verify(b []byte, o Options) *Report {
	r := &Report{Problems: []string{}, Contradictions: []string{}, Findings: []string{}, Claims: []Claim{},
		NotProven: []string{},
		Witnessed: []Witness{}, Stamps: []Stamp{}, Digest: hexDigest(b)}
	if err := Intact(b); err != nil {
		r.wrong("%v", err)
	}
	f, err := Decode(b)
	if err != nil {
		r.wrong("%v", err)
		return r
	}
	r.Subject, r.Statement = f.Subject, &f.Statement
	if e := f.Statement.Events; e != nil {
		r.Findings = append(r.Findings, e.Findings...)
	}
	if f.Subject.EventID == "" || f.Subject.Tenant == "" {
		r.wrong("the file names no event or no tenant")
	}
	tree, signed := r.checkpoint(&f.Checkpoint, o)
	if tree != nil {
		r.records(f, *tree)
		r.Story = Tell(f.Subject, r.Facts)
		r.Contradictions = r.Story.contradictions()
	}
	if len(o.Keys) == 0 {
		r.NotProven = append(r.NotProven, "Who signed: no key was given. Without it nothing in this file is proven.")
		return r
	}
	if r.Story != nil && o.Payload != nil {
		r.payload(o.Payload)
	}
	r.Proven = signed && len(r.Problems) == 0
	if r.Proven {
		r.claim(f)
	} else {
		r.Claims, r.Payload, r.PayloadProblem = []Claim{}, "", ""
	}
	return r
}

// checkpoint checks the signatures; tree is nil when it states none.
func (r *Report) checkpoint(c *Checkpoint, o Options) (tree *checkpoint.Checkpoint, signed bool) {
	text, sigs, err := splitNote(c.Note)
	if err != nil {
		r.wrong("%v", err)
		return nil, false
	}
	t, err := checkpoint.Parse(text)
	if err != nil {
		r.wrong("%v", err)
		return nil, false
	}
	r.Origin, r.Size, r.Root = t.Origin, t.Size, base64.StdEncoding.EncodeToString(t.Root[:])
	left := r.ledgerSignature(text, t, sigs, o.Keys)
	r.witnesses(text, left, o.Witnesses)
	r.timestamps(text, sigs, c.Timestamps, o.Roots)
	return &t, r.SignedBy != ""
}

// ledgerSignature finds a signature by one of the keys, and returns those that are
// somebody else's.
func (r *Report) ledgerSignature(text string, t checkpoint.Checkpoint, sigs []signature,
	keys []Key) (left []signature) {
	if len(keys) == 0 {
		return sigs
	}
	bad := false
next:
	for _, s := range sigs {
		for _, k := range keys {
			if !k.made(s) {
				continue
			}
			if _, ok := k.verify(text, s); !ok {
				r.wrong("the checkpoint's signature by %s does not fit what the checkpoint says", k)
				bad = true
			} else if k.v.Name() != t.Origin {
				r.wrong("the checkpoint is of the ledger %q, and the key %s is of another", t.Origin, k)
				bad = true
			} else if r.SignedBy == "" {
				r.SignedBy = k.String()
			}
			continue next
		}
		left = append(left, s)
	}
	if r.SignedBy == "" && !bad {
		for _, k := range keys {
			r.wrong("the checkpoint of the ledger %q is not signed by the key %s", t.Origin, k)
		}
	}
	return left
}

// witnesses checks the signatures that are not the ledger's own.
func (r *Report) witnesses(text string, sigs []signature, keys []Key) {
	signed := map[string]bool{}
	for _, s := range sigs {
		w := Witness{Key: s.key(), Ledgers: s.name == r.Origin}
		for _, k := range keys {
			if !k.made(s) {
				continue
			}
			at, ok := k.verify(text, s)
			if !ok {
				r.wrong("the witness's signature by %s does not fit what the checkpoint says", k)
			}
			w.At, w.Verified, signed[k.String()] = at, ok, true
		}
		r.Witnessed = append(r.Witnessed, w)
	}
	for _, k := range keys {
		if !signed[k.String()] {
			r.wrong("the witness %s has not signed this checkpoint", k)
		}
	}
}

// records checks that each is in the tree, that they are in order, and that
// each belongs.
func (r *Report) records(f *File, tree checkpoint.Checkpoint) {
	if len(f.Records) == 0 {
		r.wrong("the file holds no record")
	}
	for i := range f.Records {
		x := &f.Records[i]
		if i > 0 && x.Idx <= f.Records[i-1].Idx {
			r.wrong("record %d is out of order: it follows record %d", x.Idx, f.Records[i-1].Idx)
		}
		if err := Included(tree, x); err != nil {
			r.wrong("record %d: %v", x.Idx, err)
		}
		rec, err := record.Decode(x.Body)
		if err != nil {
			r.wrong("record %d cannot be read: %v", x.Idx, err)
			continue
		}
		r.Facts = append(r.Facts, Fact{Idx: x.Idx, Digest: hexDigest(x.Body), Record: rec})
	}
	for _, u := range f.Statement.Uncovered {
		if u < tree.Size {
			r.wrong("the statement calls record %d uncovered, and the checkpoint covers it", u)
		}
	}
	var own []record.Record
	for i := range r.Facts {
		if f.Subject.Owns(&r.Facts[i].Record) {
			own = append(own, r.Facts[i].Record)
		}
	}
	want := Want(f.Subject, own)
	for i := range r.Facts {
		x := &r.Facts[i]
		var ok bool
		if x.Role, ok = want.Role(&x.Record); !ok {
			r.wrong("record %d (%s %s) does not belong: it is not about event %s of tenant %s", x.Idx, x.Kind, x.ID,
				f.Subject.EventID, f.Subject.Tenant)
		}
	}
	if len(own) == 0 && len(f.Records) > 0 {
		r.wrong("no record in the file is about event %s of tenant %s", f.Subject.EventID, f.Subject.Tenant)
	}
}

// Included says why a record is not in the tree, nil if it is.
func Included(tree checkpoint.Checkpoint, x *Record) error {
	if x.Idx >= tree.Size {
		return fmt.Errorf("the checkpoint covers records 0 to %d only", int64(tree.Size)-1)
	}
	leaf := merkle.LeafHash(x.Epoch, x.Seq, x.Body)
	if tlog.CheckRecord(x.Proof, int64(tree.Size), tree.Root, int64(x.Idx), leaf) != nil {
		return fmt.Errorf("its bytes, place and proof do not lead to the checkpoint's root: one of them was changed, or " +
			"it is not in the ledger")
	}
	return nil
}
