package ledger

import "context"

// Storage is what the table takes.
type Storage struct {
	Records uint64 `json:"records"`
	Bytes   uint64 `json:"bytes"` // on disk, compressed, indices included
	Parts   uint64 `json:"parts"`
}

// Storage reads what the table takes on disk.
func (db *DB) Storage(ctx context.Context) (Storage, error) {
	var s Storage
	err := db.conn.QueryRow(ctx, `SELECT sum(rows), sum(bytes_on_disk), count() FROM system.parts
		WHERE database = ? AND table = 'records' AND active`, db.Database()).Scan(&s.Records, &s.Bytes, &s.Parts)
	return s, db.explain("reading the table's size", err)
}
