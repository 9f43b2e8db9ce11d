ALTER TABLE records
    ADD COLUMN IF NOT EXISTS auth_us Int64 ALIAS JSONExtractInt(body, 'auth_us'),
    ADD COLUMN IF NOT EXISTS client_fingerprint String ALIAS JSONExtractString(body, 'client_fingerprint'),
    ADD COLUMN IF NOT EXISTS proxy String ALIAS JSONExtractString(body, 'proxy'),
    ADD COLUMN IF NOT EXISTS settings Map(String, String) ALIAS JSONExtract(body, 'settings', 'Map(String, String)');

CREATE OR REPLACE VIEW endpoint_history AS
SELECT idx, id, at, tenant, endpoint_id, endpoint_revision, action, actor, reason, detail, url, event_types, settings, body
FROM records
WHERE kind = 'endpoint.changed';

CREATE OR REPLACE VIEW attempts AS
SELECT
    idx, id, at, tenant, event_id, endpoint_id, event_type, attempt, replay_id,
    started_at, auth_us, resolve_us, connect_us, tls_us, first_byte_us, duration_us,
    status, outcome, class, decision, reason, detail, next_attempt_at, deliver_by,
    endpoint_revision, url, proxy, remote_addr, connection_reused, http_version, tls_version, peer_fingerprint, client_fingerprint,
    payload_digest, payload_bytes, signature_scheme, key_ids, signed_at,
    response_headers, response_excerpt, response_bytes, response_truncated, redactions,
    dispatcher, software
FROM records
WHERE kind = 'attempt';
