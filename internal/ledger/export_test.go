package ledger

// SetWindowRecords makes the windows of a long period so small that a test's
// period has many.
func (db *DB) SetWindowRecords(n int) { db.windowRecords = n }
