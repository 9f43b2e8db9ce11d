// Package merkle is the tree over the ledger's records: what a leaf is, tiles,
// proofs. The tree is that of RFC 6962, its layout C2SP tlog-tiles.
package merkle

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"
)

// EntryPrefix begins every entry of this format. Its number changes when the
// format does; readers keep understanding every older one.
const EntryPrefix = "waybill-record/1 "

// Entry is the log entry of a record: one line of text, without an end of line,
//
//	waybill-record/1 EPOCH SEQUENCE DIGEST
//
// with the stream's epoch (nanoseconds since 1970) and the record's sequence in
// it, decimal, and the SHA-256 of the record's exact bytes in lower-case hex. It
// fixes both what the record says and where it came from, has less than 256
// bytes whatever the record's size, and tells a reader of the log nothing of
// what the record says.
func Entry(epoch int64, seq uint64, body []byte) []byte {
	return EntryOf(epoch, seq, sha256.Sum256(body))
}

// EntryOf is Entry for who has the body's digest only.
func EntryOf(epoch int64, seq uint64, digest [sha256.Size]byte) []byte {
	return appendEntry(make([]byte, 0, maxEntry), epoch, seq, digest)
}

const maxEntry = len(EntryPrefix) + 20 + 1 + 20 + 1 + 2*sha256.Size

func appendEntry(b []byte, epoch int64, seq uint64, digest [sha256.Size]byte) []byte {
	b = append(b, EntryPrefix...)
	b = strconv.AppendInt(b, epoch, 10)
	b = append(b, ' ')
	b = strconv.AppendUint(b, seq, 10)
	b = append(b, ' ')
	return hex.AppendEncode(b, digest[:])
}

// LeafHash is the hash of a record's leaf: SHA-256 of a zero byte and its Entry.
// It is tlog.RecordHash without allocations: verifying is mostly hashing.
func LeafHash(epoch int64, seq uint64, body []byte) tlog.Hash {
	var b [1 + maxEntry]byte
	return sha256.Sum256(appendEntry(b[:1], epoch, seq, sha256.Sum256(body)))
}
