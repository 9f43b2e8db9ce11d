CREATE TABLE IF NOT EXISTS tiles
(
    level UInt8 COMMENT '0: hashes of records; a hash of a level above is the root over 256 of the level below',
    tile UInt64 COMMENT 'Number in its level: 0, 1, 2 …',
    hashes String COMMENT '256 hashes of 32 bytes each' CODEC(NONE)
)
ENGINE = MergeTree ORDER BY (level, tile)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

CREATE TABLE IF NOT EXISTS checkpoints
(
    size UInt64 COMMENT 'How many records it covers: those with a smaller idx' CODEC(Delta(8), ZSTD(1)),
    at DateTime64(9, 'UTC') COMMENT 'When it was signed' CODEC(Delta(8), ZSTD(1)),
    origin LowCardinality(String) COMMENT 'Names the deployment''s ledger',
    key LowCardinality(String) COMMENT 'Which key signed, as name+hash',
    root String COMMENT 'Root of the tree, hex' CODEC(ZSTD(1)),
    note String COMMENT 'The signed note itself (C2SP tlog-checkpoint)' CODEC(ZSTD(1))
)
ENGINE = MergeTree ORDER BY (size, at)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

CREATE TABLE IF NOT EXISTS checkpoint_signatures
(
    size UInt64 COMMENT 'Of the checkpoint' CODEC(Delta(8), ZSTD(1)),
    at DateTime64(9, 'UTC') COMMENT 'When it arrived' CODEC(Delta(8), ZSTD(1)),
    kind LowCardinality(String) COMMENT 'witness: a line of a signed note; timestamp: a token of RFC 3161',
    signer LowCardinality(String) COMMENT 'The witness''s key as name+hash, or the authority''s address',
    signature String COMMENT 'The line, or the token in base64' CODEC(ZSTD(1))
)
ENGINE = MergeTree ORDER BY (size, at)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;
