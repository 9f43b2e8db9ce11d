package main

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// rowsPerDelivery is what the mix below makes: one owed, 1.1 attempts, a third
// of an accepted, and a dead letter for one delivery in a hundred.
const rowsPerDelivery = 1 + 1.1 + 1.0/3 + 0.01

// days is the span that the deliveries are spread over, all in one month.
const days = 30

// keysSQL makes the skeleton of the ledger, in ledger order: which record, of
// which delivery, when. Every third delivery begins a new event.
const keysSQL = `
CREATE TABLE keys ENGINE = MergeTree ORDER BY idx AS
SELECT rowNumberInAllBlocks() AS idx, kind, d, n, at FROM (
  WITH
    toDateTime64('2026-10-01 00:00:00', 9, 'UTC') AS start,
    intDiv(d, 3) AS e,
    toUInt64(%d) AS step,
    cityHash64(d) %% 100 AS fate,
    toInt64(toUnixTimestamp64Nano(start)) + e * step + cityHash64(e, 1) %% step AS t
  SELECT d, row.1 AS kind, row.2 AS n, fromUnixTimestamp64Nano(toInt64(t + row.3), 'UTC') AS at
  FROM (SELECT number AS d FROM numbers(%d))
  ARRAY JOIN arrayFilter(r -> r.2 < 250, [
    ('event.accepted', if(d %% 3 = 0, 0, 250), 0),
    ('delivery.owed', 0, 2000000 + (d %% 3) * 50000 + cityHash64(d, 2) %% 40000),
    ('attempt', 1, 80000000 + cityHash64(d, 3) %% 200000000),
    ('attempt', if(fate < 10, 2, 250), 5100000000 + cityHash64(d, 4) %% 1200000000),
    ('delivery.dead_lettered', if(fate = 0, 0, 250), 6400000000 + cityHash64(d, 5) %% 1000000)
  ]) AS row
  ORDER BY at, d
) SETTINGS max_threads = 2`

// sourceSQL gives every record its columns and its exact bytes. Ids are the
// length and the entropy of ULIDs (48 bits of time, 80 random), digests are
// random bytes, so nothing compresses that would not in production.
const sourceSQL = `
CREATE TABLE source ENGINE = MergeTree ORDER BY idx SETTINGS index_granularity_bytes = 0, min_bytes_for_wide_part = 0 AS
WITH
  intDiv(d, 3) AS e, cityHash64(d) % 100 AS fate, cityHash64(d, n, 7) AS h, cityHash64(d, n, 8) AS h2,
  kind = 'attempt' AS is_attempt, is_attempt AND (n = 2 ? fate != 0 : fate >= 10) AS ok,
  (ms, salt) -> concat(substring(base32Encode(unhex(leftPad(hex(toUInt64(ms)), 12, '0'))), 1, 10), base32Encode(substring(MD5(salt), 1, 10))) AS ulid,
  toUnixTimestamp64Milli(at) AS ms,
  1790812800000 + e * 1000 AS event_ms,
  cityHash64(d, 9) % 200 AS ep_no, e % 20 AS tenant_no,
  h % 2 AS fresh,
  toUInt32(fresh ? 300 + h % 5000 : 0) AS d_resolve,
  toUInt32(fresh ? 800 + intDiv(h, 10) % 20000 : 0) AS d_connect,
  toUInt32(fresh ? 2000 + intDiv(h, 100) % 30000 : 0) AS d_tls,
  toUInt32(5000 + intDiv(h, 1000) % 90000) AS d_first,
  toUInt32(d_resolve + d_connect + d_tls + d_first + intDiv(h, 10000) % 3000) AS d_total,
  SHA256(concat('payload', toString(d), '/', toString(n))) AS digest,
  lower(hex(cityHash64(d, n, 11))) AS request_id,
  concat('https://hooks', toString(ep_no), '.example.net/v1/webhooks/receive') AS endpoint_url,
  concat('203.0.113.', toString(ep_no), ':443') AS endpoint_addr,
  lower(hex(SHA256(concat('cert', toString(ep_no))))) AS fingerprint,
  concat('whk_', ulid(1780000000000, concat('key', toString(ep_no)))) AS key_id,
  dateAdd(second, 119000, at) AS due, dateAdd(second, 5, at) AS retry_at,
  (x -> concat(formatDateTime(x, '%Y-%m-%dT%H:%i:%S'), '.', leftPad(toString(toUnixTimestamp64Nano(x) % 1000000000), 9, '0'), 'Z')) AS rfc3339
SELECT
  idx, idx + 1 AS stream_seq,
  concat(is_attempt ? 'att_' : 'rec_', ulid(ms, concat('rec', toString(d), kind, toString(n)))) AS id,
  kind, at, concat('tenant-', toString(tenant_no)) AS tenant,
  concat('evt_', ulid(event_ms, concat('evt', toString(e)))) AS event_id,
  kind = 'event.accepted' ? '' : concat('ep_', ulid(1780000000000, concat('ep', toString(ep_no)))) AS endpoint_id,
  toUInt32(n) AS attempt,
  is_attempt ? fromUnixTimestamp64Nano(toUnixTimestamp64Nano(at) - d_total * 1000, 'UTC') : toDateTime64(0, 9, 'UTC') AS started_at,
  is_attempt ? d_resolve : 0 AS resolve_us, is_attempt ? d_connect : 0 AS connect_us, is_attempt ? d_tls : 0 AS tls_us,
  is_attempt ? d_first : 0 AS first_byte_us, is_attempt ? d_total : 0 AS duration_us,
  toUInt16(is_attempt ? (ok ? 200 : (h2 % 3 = 0 ? 500 : 503)) : 0) AS status,
  is_attempt ? (ok ? 'response' : (h2 % 7 = 0 ? 'timeout' : 'response')) : '' AS outcome,
  is_attempt ? (ok ? 'delivered' : 'retryable') : '' AS class,
  is_attempt ? (ok ? 'delivered' : (fate = 0 AND n = 2 ? 'dead_letter' : 'retry')) : '' AS decision,
  kind = 'delivery.dead_lettered' ? ['attempts_exhausted', 'endpoint_unreachable', 'deadline_exceeded'][1 + d % 3] : '' AS reason,
  is_attempt AND NOT ok ? retry_at : toDateTime64(0, 9, 'UTC') AS next_at,
  kind = 'event.accepted' ? toDateTime64(0, 9, 'UTC') : due AS deliver_by,
  is_attempt ? endpoint_url : '' AS url, is_attempt ? endpoint_addr : '' AS remote_addr,
  is_attempt ? 'HTTP/2.0' : '' AS http_version, is_attempt ? 'TLS 1.3' : '' AS tls_version,
  is_attempt ? fingerprint : '' AS peer_fingerprint,
  is_attempt ? digest : toFixedString('', 32) AS payload_digest,
  toUInt32(kind = 'delivery.owed' ? 0 : 300 + cityHash64(e, 12) % 2700) AS payload_bytes,
  is_attempt ? [key_id] : [] AS key_ids,
  is_attempt ? map('content-type', ok ? 'application/json' : 'text/html', 'x-request-id', request_id) : map() AS response_headers,
  is_attempt ? (ok ? '{"received":true}' : concat('<html><head><title>', toString(status), '</title></head><body><h1>Service Unavailable</h1><p>The server is temporarily unable to service your request. Reference ', request_id, '</p></body></html>')) : '' AS response_excerpt,
  toUInt32(length(response_excerpt)) AS response_bytes,
  is_attempt ? concat('dispatcher-', toString(h2 % 4)) : '' AS dispatcher, '1.0.0' AS version,
  concat('order.', ['created', 'paid', 'shipped', 'delivered', 'returned', 'refunded', 'cancelled', 'updated'][1 + cityHash64(e, 13) % 8]) AS event_type,
  concat('{"id":"', id, '","kind":"', kind, '","at":"', rfc3339(at), '","tenant":"', tenant, '","event_id":"', event_id,
    multiIf(
      is_attempt, concat('","endpoint_id":"', endpoint_id, '","event_type":"', event_type, '","attempt":', toString(n), ',"started_at":"', rfc3339(started_at),
        '","resolve_us":', toString(resolve_us), ',"connect_us":', toString(connect_us), ',"tls_us":', toString(tls_us), ',"first_byte_us":', toString(first_byte_us), ',"duration_us":', toString(duration_us),
        ',"status":', toString(status), ',"outcome":"', outcome, '","class":"', class, '","decision":"', decision,
        ok ? '' : concat('","next_at":"', rfc3339(next_at)), '","deliver_by":"', rfc3339(deliver_by),
        '","endpoint_revision":3,"url":"', url, '","remote_addr":"', remote_addr, '","http_version":"', http_version, '","tls_version":"', tls_version, '","peer_fingerprint":"', peer_fingerprint,
        '","payload_digest":"', lower(hex(payload_digest)), '","payload_bytes":', toString(payload_bytes), ',"signature_scheme":"v1","key_ids":["', key_id, '"],"signed_at":', toString(intDiv(ms, 1000)),
        ',"response_headers":', toJSONString(response_headers), ',"response_excerpt":', toJSONString(response_excerpt), ',"response_bytes":', toString(response_bytes), ',"dispatcher":"', dispatcher, '","version":"', version, '"}'),
      kind = 'event.accepted', concat('","event_type":"', event_type, '","payload_bytes":', toString(payload_bytes), ',"version":"', version, '"}'),
      concat('","endpoint_id":"', endpoint_id, '","event_type":"', event_type, '","deliver_by":"', rfc3339(deliver_by), reason = '' ? '' : concat('","reason":"', reason), '","version":"', version, '"}'))) AS body
FROM keys ORDER BY idx
SETTINGS max_threads = 2, max_insert_threads = 1`

// makeSource fills the table that every candidate is filled from.
func makeSource(ctx context.Context, conn driver.Conn, rows int) error {
	deliveries := int(float64(rows) / rowsPerDelivery)
	step := int64(days) * 86400 * 1e9 / int64(deliveries/3+1)
	for _, statement := range []string{fmt.Sprintf(keysSQL, step, deliveries), sourceSQL} {
		if err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("make the source: %w", err)
		}
	}
	return nil
}
