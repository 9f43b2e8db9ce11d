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
    arrayFirst(i -> i != '', arrayMap(e -> e.5, es)) AS incident_id,
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

ALTER TABLE dead_letters
    COMMENT COLUMN tenant 'Owner of the event and endpoint',
    COMMENT COLUMN event_id 'The producer''s id of the event',
    COMMENT COLUMN endpoint_id 'The receiver, ep_…',
    COMMENT COLUMN event_type 'Type of the event',
    COMMENT COLUMN idx 'Place in the ledger: 0, 1, 2 … without a hole. Leaf number in the Merkle tree',
    COMMENT COLUMN dead_lettered_at 'When the delivery ended unfulfilled',
    COMMENT COLUMN replay_id 'The replay that this belongs to, rpl_…',
    COMMENT COLUMN reason 'Why, as a code',
    COMMENT COLUMN attempts 'Attempts made until then',
    COMMENT COLUMN deliver_by 'The deadline; NULL: none',
    COMMENT COLUMN detail 'Why, for people',
    COMMENT COLUMN escalated_at 'When a channel first took the message; NULL: nobody was told',
    COMMENT COLUMN escalation_outcome 'delivered, or the outcome of the last try; empty: there was none',
    COMMENT COLUMN acknowledged_at 'When a person first took it on',
    COMMENT COLUMN acknowledged_by 'Who took it on first',
    COMMENT COLUMN owned_at 'When it was last taken on',
    COMMENT COLUMN owner 'Who took it on last',
    COMMENT COLUMN escalated_in_time 'A channel took it, before the deadline if there is one',
    COMMENT COLUMN resolution 'open, replayed, delivered (by a replay, afterwards), delivered before, or resolved (a person said so)',
    COMMENT COLUMN succeeded_at 'When the delivery was delivered',
    COMMENT COLUMN incident_id 'Under which people were told, inc_…',
    COMMENT COLUMN resolved_at 'When a person said that it is settled',
    COMMENT COLUMN resolved_by 'Who said so',
    COMMENT COLUMN resolution_reason 'Why, in their words';
ALTER TABLE dead_letters MODIFY COMMENT 'Each delivery that ended unfulfilled, and what people did about it';
