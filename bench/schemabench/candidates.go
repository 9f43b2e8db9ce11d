package main

import (
	"fmt"
	"strings"
)

// candidate is one way to lay the records out.
type candidate struct {
	name    string
	why     string
	orderBy string
	indexes []string
	options map[string]string // column name to its definition, in place of the default
	tenant  bool              // finding an event needs its tenant
}

// column is a name with its type and codec.
type column struct{ name, definition string }

func columns() []column {
	const word = "LowCardinality(String)"
	const instant = "DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))"
	return []column{
		{"idx", "UInt64 CODEC(Delta, ZSTD(1))"}, {"stream_seq", "UInt64 CODEC(Delta, ZSTD(1))"},
		{"id", "String CODEC(ZSTD(1))"}, {"kind", word}, {"at", instant}, {"tenant", word},
		{"event_id", "String CODEC(ZSTD(1))"}, {"endpoint_id", word}, {"attempt", "UInt32 CODEC(T64, ZSTD(1))"},
		{"started_at", instant},
		{"resolve_us", "UInt32 CODEC(ZSTD(1))"}, {"connect_us", "UInt32 CODEC(ZSTD(1))"}, {"tls_us", "UInt32 CODEC(ZSTD(1))"},
		{"first_byte_us", "UInt32 CODEC(ZSTD(1))"}, {"duration_us", "UInt32 CODEC(ZSTD(1))"},
		{"status", "UInt16 CODEC(ZSTD(1))"},
		{"outcome", word}, {"class", word}, {"decision", word}, {"reason", word}, {"next_at", instant},
		{"deliver_by", instant},
		{"url", word}, {"remote_addr", word}, {"http_version", word}, {"tls_version", word}, {"peer_fingerprint", word},
		{"payload_digest", "FixedString(32) CODEC(ZSTD(1))"}, {"payload_bytes", "UInt32 CODEC(ZSTD(1))"},
		{"key_ids", "Array(LowCardinality(String))"},
		{"response_headers", "Map(LowCardinality(String), String) CODEC(ZSTD(1))"},
		{"response_excerpt", "String CODEC(ZSTD(1))"},
		{"response_bytes", "UInt32 CODEC(ZSTD(1))"}, {"dispatcher", word}, {"version", word}, {"event_type", word},
		{"body", "String CODEC(ZSTD(3))"},
	}
}

func candidates() []candidate {
	bloom := "INDEX by_event event_id TYPE bloom_filter(0.0001) GRANULARITY 1"
	minmax := "INDEX by_time at TYPE minmax GRANULARITY 1"
	// Cold columns read out of the bytes that were hashed instead of stored again.
	derived := map[string]string{
		"started_at": "DateTime64(9, 'UTC') ALIAS parseDateTime64BestEffortOrZero(JSONExtractString(body, " +
			"'started_at'), 9, 'UTC')",
		"payload_digest":   "FixedString(32) ALIAS toFixedString(unhex(JSONExtractString(body, 'payload_digest')), 32)",
		"peer_fingerprint": "String ALIAS JSONExtractString(body, 'peer_fingerprint')",
		"response_headers": "Map(String, String) ALIAS JSONExtract(body, 'response_headers', 'Map(String, String)')",
		"response_excerpt": "String ALIAS JSONExtractString(body, 'response_excerpt')",
	}
	for _, name := range []string{"resolve_us", "connect_us", "tls_us", "first_byte_us"} {
		derived[name] = fmt.Sprintf("UInt32 ALIAS JSONExtractUInt(body, '%s')", name)
	}
	bigBlocks := map[string]string{"body": "String CODEC(ZSTD(3)) SETTINGS (min_compress_block_size = 1048576, " +
		"max_compress_block_size = 1048576)"}
	fast := map[string]string{"body": "String CODEC(ZSTD(1))"}
	return []candidate{
		{"idx", "ORDER BY idx; bloom filter on event_id, minmax on at", "idx", []string{bloom, minmax}, nil, false},
		{"idx-plain", "ORDER BY idx; no index at all", "idx", nil, nil, false},
		{"idx-zstd1", "as idx, body with ZSTD(1)", "idx", []string{bloom, minmax}, fast, false},
		{"idx-blocks", "as idx, body in compression blocks of 1 MiB", "idx", []string{bloom, minmax}, bigBlocks, false},
		{"idx-derived", "as idx, cold columns are ALIAS over body", "idx", []string{bloom, minmax}, derived, false},
		{"idx-projection", "ORDER BY idx; projection event_id to row offset, minmax on at", "idx",
			[]string{"PROJECTION by_event (SELECT event_id, _part_offset ORDER BY event_id)", minmax}, nil, false},
		{"kind-at", "ORDER BY (kind, at, idx); bloom filter on event_id, minmax on idx", "(kind, at, idx)",
			[]string{bloom, "INDEX by_idx idx TYPE minmax GRANULARITY 1"}, nil, false},
		{"tenant-event", "ORDER BY (tenant, event_id, idx); minmax on at", "(tenant, event_id, idx)", []string{minmax}, nil,
			true},
		{"event", "ORDER BY (event_id, idx); minmax on at", "(event_id, idx)", []string{minmax}, nil, false},
	}
}

// event is the condition that finds the rows of one event.
func (c candidate) event(about subject) string {
	if c.tenant {
		return fmt.Sprintf("tenant = '%s' AND event_id = '%s'", about.tenant, about.event)
	}
	return fmt.Sprintf("event_id = '%s'", about.event)
}

// ddl is the candidate's CREATE TABLE. Every insert is on disk before it is
// acknowledged, and a repeated one is recognized by its token, as the sink needs.
func (c candidate) ddl(table string) string {
	var parts []string
	for _, column := range columns() {
		definition := column.definition
		if other, ok := c.options[column.name]; ok {
			definition = other
		}
		parts = append(parts, column.name+" "+definition)
	}
	parts = append(parts, c.indexes...)
	return fmt.Sprintf("CREATE TABLE %s (\n  %s\n) ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY %s\nSETTINGS "+
		"fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 1000",
		table, strings.Join(parts, ",\n  "), c.orderBy)
}

// stored lists the columns that an insert gives.
func (c candidate) stored() []string {
	var names []string
	for _, column := range columns() {
		if !strings.Contains(c.options[column.name], " ALIAS ") {
			names = append(names, column.name)
		}
	}
	return names
}
