package main

// recordsSQL makes the mix of a ledger whose events go to three endpoints each:
// for every event one event.accepted, three delivery.owed and 3.3 attempts, with
// ids and digests as random as real ones, and bodies as record.Encode writes them.
const recordsSQL = `
INSERT INTO records (idx, stream_seq, stream_epoch, body, id, kind, at, tenant, event_id, endpoint_id, event_type, event_at, event_seq,
  stored_at, subject_type, subject_id, deliver_by, endpoints, attempt, started_at, duration_us, status, outcome, class, decision, next_attempt_at,
  url, payload_digest, endpoint_revision)
WITH
  number %% 22 AS place, intDiv(number, 22) * 3 + intDiv(place, 8) AS e, place %% 8 AS turn,
  multiIf(place = 0 OR place = 8 OR place = 16, 'event.accepted', turn < 4, 'delivery.owed', 'attempt') AS kind_,
  kind_ = 'attempt' AS is_attempt, kind_ = 'event.accepted' AS is_event, kind_ = 'delivery.owed' AS is_owed,
  cityHash64(number, 1) AS h, cityHash64(number, 2) AS h2, h %% 10 = 0 AS failed,
  toInt64(1790812800000000000) + number * 250000000 + h %% 200000000 AS ns,
  (x -> fromUnixTimestamp64Nano(toInt64(x), 'UTC')) AS instant,
  (x -> concat(formatDateTime(instant(x), '%%Y-%%m-%%dT%%H:%%i:%%S'), '.', leftPad(toString(toInt64(x) %% 1000000000), 9, '0'), 'Z')) AS rfc3339,
  (salt -> concat('01JB', substring(base32Encode(substring(MD5(salt), 1, 14)), 1, 22))) AS ulid,
  concat(is_attempt ? 'att_' : 'rec_', ulid(concat('r', toString(number)))) AS id_,
  concat('tenant-', toString(e %% 20)) AS tenant_, concat('evt_', ulid(concat('e', toString(e)))) AS event_,
  is_event ? '' : concat('ep_', ulid(concat('p', toString((e + turn) %% 200)))) AS endpoint_,
  concat('order.', ['created', 'paid', 'shipped', 'delivered', 'returned', 'refunded', 'cancelled', 'updated'][1 + e %% 8]) AS type_,
  toInt64(1790812800000000000) + e * 1800000000 AS event_ns, event_ns + 3500000 AS stored_ns, event_ns + 119000000000 AS due_ns, ns - 70000000 AS started_ns,
  toInt64(5000 + h2 %% 120000) AS total_, toInt64(failed ? 503 : 200) AS status_,
  lower(hex(SHA256(concat('payload', toString(number))))) AS digest_,
  concat('https://hooks', toString((e + turn) %% 200), '.example.net/v1/webhooks/receive') AS url_,
  concat('o_', toString(e)) AS subject_,
  concat('{"v":1,"id":"', id_, '","kind":"', kind_, '","at":"', rfc3339(ns), '","tenant":"', tenant_, '","event_id":"', event_, '"',
    is_event ? '' : concat(',"endpoint_id":"', endpoint_, '"'), ',"event_type":"', type_, '"',
    multiIf(
      is_event, concat(',"event_at":"', rfc3339(event_ns), '","event_seq":', toString(e + 1), ',"stored_at":"', rfc3339(stored_ns),
        '","subject_type":"order","subject_id":"', subject_, '","data_digest":"', digest_, '","data_bytes":', toString(300 + h %% 2000),
        ',"endpoints":3,"endpoint_ids":["ep_', ulid('1'), '","ep_', ulid('2'), '","ep_', ulid('3'), '"],"software":"1.0.0"}'),
      is_owed, concat(',"event_seq":', toString(e + 1), ',"deliver_by":"', rfc3339(due_ns), '","software":"1.0.0","endpoint_revision":3}'),
      concat(',"deliver_by":"', rfc3339(due_ns), '","attempt":1,"started_at":"', rfc3339(started_ns), '","resolve_us":', toString(300 + h %% 5000),
        ',"connect_us":', toString(800 + h %% 20000), ',"tls_us":', toString(2000 + h %% 30000), ',"first_byte_us":', toString(4000 + h2 %% 90000), ',"duration_us":', toString(total_),
        ',"status":', toString(status_), ',"outcome":"response","class":"', failed ? 'retryable' : 'delivered', '","decision":"', failed ? 'retry' : 'delivered', '"',
        failed ? concat(',"next_attempt_at":"', rfc3339(ns + 5000000000), '"') : '', ',"url":"', url_, '","remote_addr":"203.0.113.', toString((e + turn) %% 200),
        ':443","http_version":"HTTP/2.0","tls_version":"TLS 1.3","peer_fingerprint":"', lower(hex(SHA256(url_))), '","payload_digest":"', digest_,
        '","payload_bytes":', toString(300 + h %% 2000), ',"signature_scheme":"v1","key_ids":["whk_', ulid(url_), '"],"signed_at":"',
        formatDateTime(instant(started_ns), '%%Y-%%m-%%dT%%H:%%i:%%SZ'), '","response_headers":{"content-type":"application/json","x-request-id":"', lower(hex(h2)),
        '"},"response_excerpt":"{\\"received\\":true}","response_bytes":17,"dispatcher":"dispatcher-', toString(h2 %% 4), '","software":"1.0.0","endpoint_revision":3}'))) AS body_
SELECT number, number + 1, 1790000000000000007, body_, id_, kind_, instant(ns), tenant_, event_, endpoint_, type_,
  is_event ? instant(event_ns) : NULL, is_attempt ? 0 : e + 1, is_event ? instant(stored_ns) : NULL, is_event ? 'order' : '', is_event ? subject_ : '',
  is_event ? NULL : instant(due_ns), is_event ? 3 : 0, is_attempt ? 1 : 0, is_attempt ? instant(started_ns) : NULL, is_attempt ? total_ : 0, is_attempt ? status_ : 0,
  is_attempt ? 'response' : '', is_attempt ? (failed ? 'retryable' : 'delivered') : '', is_attempt ? (failed ? 'retry' : 'delivered') : '',
  is_attempt AND failed ? instant(ns + 5000000000) : NULL, is_attempt ? url_ : '', is_attempt ? digest_ : '', is_event ? 0 : 3
FROM numbers(%d)
SETTINGS max_threads = 2, max_insert_threads = 1`

// tilesSQL makes the tiles of level 0: 256 leaf hashes each.
const tilesSQL = `
INSERT INTO tiles (level, tile, hashes)
SELECT 0, tile, unhex(arrayStringConcat(arrayMap(x -> hex(x.2), arraySort(groupArray((idx, leaf)))))) AS hashes
FROM (SELECT idx, intDiv(idx, 256) AS tile,
  SHA256(concat(char(0), 'waybill-record/1 ', toString(stream_epoch), ' ', toString(stream_seq), ' ', lower(hex(SHA256(body))))) AS leaf FROM records)
GROUP BY tile HAVING count() = 256
SETTINGS max_threads = 2`
