ALTER TABLE records ADD COLUMN IF NOT EXISTS endpoints_digest String ALIAS JSONExtractString(body, 'endpoints_digest') AFTER endpoint_ids;

ALTER TABLE records ADD COLUMN IF NOT EXISTS endpoints_at Array(UInt64) ALIAS JSONExtract(body, 'endpoints_at', 'Array(UInt64)') AFTER endpoints_digest;

ALTER TABLE records
    COMMENT COLUMN endpoint_ids 'To which endpoints an accepted event is owed, decided once; of one for more than 1,000 endpoints, a part of the list (event.endpoints)',
    COMMENT COLUMN endpoints_digest 'Of an event for more endpoints than one record lists: the SHA-256 of all their ids, joined by line feeds',
    COMMENT COLUMN endpoints_at 'Where in LEDGER the records event.endpoints are that list them, by sequence';
