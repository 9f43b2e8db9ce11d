ALTER TABLE records
    ADD COLUMN IF NOT EXISTS incident_id String ALIAS JSONExtractString(body, 'incident_id'),
    ADD COLUMN IF NOT EXISTS message_id String ALIAS JSONExtractString(body, 'message_id'),
    ADD COLUMN IF NOT EXISTS escalation_policy String ALIAS JSONExtractString(body, 'escalation_policy'),
    ADD COLUMN IF NOT EXISTS step Int64 ALIAS JSONExtractInt(body, 'step'),
    ADD COLUMN IF NOT EXISTS channel String ALIAS JSONExtractString(body, 'channel'),
    ADD COLUMN IF NOT EXISTS channel_kind String ALIAS JSONExtractString(body, 'channel_kind'),
    ADD COLUMN IF NOT EXISTS revision UInt64 ALIAS JSONExtractUInt(body, 'revision');

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
