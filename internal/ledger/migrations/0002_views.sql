CREATE OR REPLACE VIEW events AS
SELECT
    idx, id, at, tenant, event_id,
    transform(kind, ['event.accepted', 'event.unmatched', 'event.rejected'], ['accepted', 'unmatched', 'rejected'], '') AS state,
    event_type, event_at, event_seq, stored_at, subject_type, subject_id, deliver_by, endpoints,
    data_digest, data_bytes, no_msg_id, nats_subject, reason, detail
FROM records
WHERE kind IN ('event.accepted', 'event.unmatched', 'event.rejected');

CREATE OR REPLACE VIEW attempts AS
SELECT
    idx, id, at, tenant, event_id, endpoint_id, event_type, attempt, replay_id,
    started_at, auth_us, resolve_us, connect_us, tls_us, first_byte_us, duration_us,
    status, outcome, class, error, decision, reason, detail, next_attempt_at, deliver_by,
    endpoint_revision, url, proxy, remote_addr, connection_reused, http_version, tls_version, peer_fingerprint, client_fingerprint,
    payload_digest, payload_bytes, signature_scheme, key_ids, signed_at,
    response_headers, response_excerpt, response_bytes, response_truncated, redactions,
    dispatcher, software
FROM records
WHERE kind = 'attempt';

CREATE OR REPLACE VIEW deliveries AS
SELECT
    tenant, event_id, endpoint_id, event_type_ AS event_type,
    multiIf(was_delivered, 'delivered',
            last_turn = 'delivery.dead_lettered', 'dead_lettered',
            last_turn = 'delivery.cancelled', 'cancelled',
            'pending') AS state,
    attempt_count_ AS attempt_count,
    attempts_missing_ AS attempts_missing,
    owed_at_ AS owed_at,
    deliver_by_ AS deliver_by,
    succeeded_at_ AS succeeded_at,
    dead_lettered_at_ AS dead_lettered_at,
    cancelled_at_ AS cancelled_at,
    if(state IN ('dead_lettered', 'cancelled'), end_reason, '') AS reason,
    payload_digest_ AS payload_digest,
    url_ AS url,
    last_status_ AS last_status,
    last_outcome_ AS last_outcome,
    last_attempt_at_ AS last_attempt_at,
    if(state = 'pending' AND last_attempt_idx > last_owed_idx, planned_at, NULL) AS next_attempt_at,
    replay_count_ AS replay_count,
    replay_id_ AS replay_id,
    owed_idx_ AS owed_idx
FROM
(
    SELECT
        tenant, event_id, endpoint_id,
        max(event_type) AS event_type_,
        countIf(kind = 'attempt' AND class = 'delivered') > 0 AS was_delivered,
        argMaxIf(kind, idx, kind != 'attempt') AS last_turn,
        countIf(kind = 'attempt') AS attempt_count_,
        maxIf(attempt, kind = 'attempt') - toInt64(uniqExactIf(attempt, kind = 'attempt')) AS attempts_missing_,
        minOrNullIf(at, kind = 'delivery.owed') AS owed_at_,
        argMaxIf(tuple(deliver_by), idx, kind = 'delivery.owed').1 AS deliver_by_,
        minOrNullIf(at, kind = 'attempt' AND class = 'delivered') AS succeeded_at_,
        maxOrNullIf(at, kind = 'delivery.dead_lettered') AS dead_lettered_at_,
        maxOrNullIf(at, kind = 'delivery.cancelled') AS cancelled_at_,
        argMaxIf(reason, idx, kind IN ('delivery.dead_lettered', 'delivery.cancelled')) AS end_reason,
        argMaxIf(payload_digest, (attempt, idx), kind = 'attempt' AND payload_digest != '') AS payload_digest_,
        argMaxIf(url, (attempt, idx), kind = 'attempt' AND url != '') AS url_,
        argMaxIf(status, (attempt, idx), kind = 'attempt') AS last_status_,
        argMaxIf(outcome, (attempt, idx), kind = 'attempt') AS last_outcome_,
        argMaxIf(tuple(started_at), (attempt, idx), kind = 'attempt').1 AS last_attempt_at_,
        argMaxIf(tuple(next_attempt_at), (attempt, idx), kind = 'attempt').1 AS planned_at,
        maxIf(idx, kind = 'attempt') AS last_attempt_idx,
        maxIf(idx, kind = 'delivery.owed') AS last_owed_idx,
        minOrNullIf(idx, kind = 'delivery.owed') AS owed_idx_,
        uniqExactIf(replay_id, kind = 'delivery.owed' AND replay_id != '') AS replay_count_,
        argMaxIf(replay_id, idx, kind = 'delivery.owed') AS replay_id_
    FROM records
    WHERE kind IN ('delivery.owed', 'attempt', 'delivery.dead_lettered', 'delivery.cancelled') /* scope */
    GROUP BY tenant, event_id, endpoint_id
);

CREATE OR REPLACE VIEW escalations AS
SELECT
    tenant, event_id, endpoint_id,
    e.1 AS idx, e.2 AS at, e.3 AS replay_id, e.4 AS reason, e.5 AS action, e.6 AS outcome, e.7 AS status,
    e.8 AS url, e.9 AS actor, e.10 AS deliver_by, e.11 AS detail,
    if(empty(later), NULL, later[1].2) AS acknowledged_at,
    if(empty(later), '', later[1].4) AS acknowledged_by,
    toBool(deliver_by IS NULL OR at <= deliver_by) AS in_time,
    e.12 AS attempt, e.13 AS duration_us,
    f.1 AS incident_id, f.2 AS message_id, f.3 AS escalation_policy, f.4 AS step, f.5 AS channel, f.6 AS channel_kind, f.7 AS error
FROM
(
    SELECT
        tenant, event_id, endpoint_id,
        groupArrayIf((idx, at, replay_id, reason, action, outcome, status, url, actor, deliver_by, detail, attempt, duration_us), kind = 'escalation') AS es,
        groupArrayIf((incident_id, message_id, escalation_policy, step, channel, channel_kind, error), kind = 'escalation') AS fs,
        arraySort(groupArrayIf((idx, at, replay_id, actor), kind = 'escalation.acknowledged')) AS acks
    FROM records
    WHERE kind IN ('escalation', 'escalation.acknowledged')
    GROUP BY tenant, event_id, endpoint_id
)
ARRAY JOIN es AS e, fs AS f, arrayMap(x -> arrayFilter(a -> a.1 > x.1 AND a.3 = x.3, acks), es) AS later;

CREATE OR REPLACE VIEW dead_letters AS
SELECT
    tenant, event_id, endpoint_id, event_type_ AS event_type,
    d.1 AS idx, d.2 AS dead_lettered_at, d.3 AS replay_id, d.4 AS reason, d.5 AS attempts, d.6 AS deliver_by, d.7 AS detail,
    if(empty(told), NULL, told[1].2) AS escalated_at,
    if(notEmpty(told), 'delivered', if(empty(es), '', es[-1].4)) AS escalation_outcome,
    if(empty(acks), NULL, acks[1].2) AS acknowledged_at,
    if(empty(acks), '', acks[1].4) AS acknowledged_by,
    if(empty(acks), NULL, acks[-1].2) AS owned_at,
    if(empty(acks), '', acks[-1].4) AS owner,
    toBool(notEmpty(told) AND (deliver_by IS NULL OR escalated_at <= deliver_by)) AS escalated_in_time,
    multiIf(delivered_at_ IS NOT NULL AND delivered_at_ > dead_lettered_at, 'delivered',
            delivered_at_ IS NOT NULL, 'delivered before',
            notEmpty(settled), 'resolved',
            arrayExists(o -> o > d.1, owed), 'replayed',
            'open') AS resolution,
    delivered_at_ AS succeeded_at,
    if(empty(es), '', es[1].5) AS incident_id,
    if(empty(settled), NULL, settled[1].2) AS resolved_at,
    if(empty(settled), '', settled[1].4) AS resolved_by,
    if(empty(settled), '', settled[1].5) AS resolution_reason
FROM
(
    SELECT
        tenant, event_id, endpoint_id,
        max(event_type) AS event_type_,
        groupArrayIf((idx, at, replay_id, reason, attempts, deliver_by, detail), kind = 'delivery.dead_lettered') AS ds,
        arraySort(groupArrayIf((idx, at, replay_id, outcome, incident_id), kind = 'escalation' AND action != 'resolve')) AS all_es,
        arraySort(groupArrayIf((idx, at, replay_id, actor), kind = 'escalation.acknowledged')) AS all_acks,
        arraySort(groupArrayIf((idx, at, replay_id, actor, reason), kind = 'operator.action' AND action = 'deadletter.resolved')) AS all_settled,
        groupArrayIf(idx, kind = 'delivery.owed') AS owed,
        minOrNullIf(at, kind = 'attempt' AND class = 'delivered') AS delivered_at_
    FROM records
    WHERE kind IN ('delivery.dead_lettered', 'escalation', 'escalation.acknowledged', 'operator.action', 'delivery.owed', 'attempt')
        AND event_id IN (SELECT event_id FROM records WHERE kind = 'delivery.dead_lettered') /* scope */
    GROUP BY tenant, event_id, endpoint_id
)
ARRAY JOIN
    ds AS d,
    arrayMap(x -> arrayFilter(e -> e.3 = x.3, all_es), ds) AS es,
    arrayMap(x -> arrayFilter(e -> e.3 = x.3 AND e.4 = 'delivered', all_es), ds) AS told,
    arrayMap(x -> arrayFilter(a -> a.3 = x.3, all_acks), ds) AS acks,
    arrayMap(x -> arrayFilter(a -> a.3 = x.3, all_settled), ds) AS settled;

CREATE OR REPLACE VIEW replays AS
SELECT
    tenant, replay_id, event_id, endpoint_id,
    requested_at_ AS requested_at, actor_ AS actor, reason_ AS reason, detail_ AS detail,
    owed_at_ AS owed_at, attempt_count_ AS attempt_count,
    multiIf(was_delivered, 'delivered',
            last_turn = 'delivery.dead_lettered', 'dead_lettered',
            last_turn = 'delivery.cancelled', 'cancelled',
            owed_count > 0, 'pending',
            'requested') AS state,
    ended_at_ AS ended_at,
    end_reason AS end_reason
FROM
(
    SELECT
        *,
        min(asked_at) OVER r AS requested_at_,
        max(asked_by) OVER r AS actor_,
        max(asked_why) OVER r AS reason_,
        max(asked_detail) OVER r AS detail_,
        max(owed_count) OVER r AS any_owed
    FROM
    (
        SELECT
            tenant, replay_id, event_id, endpoint_id,
            minOrNullIf(at, kind = 'replay.requested') AS asked_at,
            maxIf(actor, kind = 'replay.requested') AS asked_by,
            maxIf(reason, kind = 'replay.requested') AS asked_why,
            maxIf(detail, kind = 'replay.requested') AS asked_detail,
            countIf(kind = 'delivery.owed') AS owed_count,
            minOrNullIf(at, kind = 'delivery.owed') AS owed_at_,
            countIf(kind = 'attempt') AS attempt_count_,
            countIf(kind = 'attempt' AND class = 'delivered') > 0 AS was_delivered,
            argMaxIf(kind, idx, kind NOT IN ('attempt', 'replay.requested')) AS last_turn,
            maxOrNullIf(at, class = 'delivered' OR kind IN ('delivery.dead_lettered', 'delivery.cancelled')) AS ended_at_,
            argMaxIf(reason, idx, kind IN ('delivery.dead_lettered', 'delivery.cancelled')) AS end_reason
        FROM records
        WHERE replay_id != ''
            AND kind IN ('replay.requested', 'delivery.owed', 'attempt', 'delivery.dead_lettered', 'delivery.cancelled')
        GROUP BY tenant, replay_id, event_id, endpoint_id
    )
    WINDOW r AS (PARTITION BY tenant, replay_id)
)
WHERE owed_count > 0 OR any_owed = 0;

CREATE OR REPLACE VIEW endpoint_history AS
SELECT idx, id, at, tenant, endpoint_id, endpoint_revision, action, actor, reason, detail, url, event_types, settings, body
FROM records
WHERE kind = 'endpoint.changed';

CREATE OR REPLACE VIEW completeness AS
SELECT
    toDate(coalesce(owed_at, last_attempt_at), 'UTC') AS day, tenant, endpoint_id,
    count() AS owed,
    countIf(state = 'delivered') AS delivered,
    countIf(state = 'dead_lettered') AS dead_lettered,
    countIf(state = 'cancelled') AS cancelled,
    countIf(state = 'pending') AS pending,
    countIf(owed_at IS NULL) AS not_owed,
    sum(attempts_missing) AS attempts_missing,
    0 AS events_accepted, 0 AS events_unmatched, 0 AS events_rejected, 0 AS expected
FROM deliveries
GROUP BY day, tenant, endpoint_id
UNION ALL
SELECT
    day, tenant, '' AS endpoint_id,
    0 AS owed, 0 AS delivered, 0 AS dead_lettered, 0 AS cancelled, 0 AS pending, 0 AS not_owed, 0 AS attempts_missing,
    countIf(has(kinds, 'event.accepted')) AS events_accepted,
    countIf(has(kinds, 'event.unmatched')) AS events_unmatched,
    countIf(has(kinds, 'event.rejected')) AS events_rejected,
    sum(expected_) AS expected
FROM
(
    SELECT tenant, event_id, toDate(min(at), 'UTC') AS day, groupUniqArray(kind) AS kinds, max(endpoints) AS expected_
    FROM records
    WHERE kind IN ('event.accepted', 'event.unmatched', 'event.rejected')
    GROUP BY tenant, event_id
)
GROUP BY day, tenant;
