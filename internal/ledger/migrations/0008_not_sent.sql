CREATE OR REPLACE VIEW audit_duplicates AS
SELECT
    tenant, event_id, d.endpoint_id AS endpoint_id, event_type, published, with_msg_id, data_digests,
    requests, may_have_arrived, delivered, after_success, after_success_by_replay, after_success_unexplained,
    first_at, repeats, conformance_at, conformance_outcome
FROM
(
    SELECT
        tenant, event_id, endpoint AS endpoint_id, event_type_ AS event_type,
        published_ AS published, toBool(published_ > 0 AND without_ = 0) AS with_msg_id, digests_ AS data_digests,
        arrayFilter(t -> t.1 = endpoint, tries_) AS ts,
        length(ts) AS requests,
        arrayFilter(t -> NOT t.9 AND t.6 NOT IN ('not_sent', 'dns_failure', 'connection_refused', 'connection_failed', 'tls_failure', 'address_blocked', 'auth_failure'), ts) AS arrived,
        length(arrived) AS may_have_arrived,
        toUInt64(arrayCount(t -> t.7 = 'delivered', ts)) AS delivered,
        if(delivered = 0, [], arrayFilter(t -> t.3 > arrayMin(arrayMap(x -> x.3, arrayFilter(x -> x.7 = 'delivered', ts))), ts)) AS later,
        length(later) AS after_success,
        toUInt64(arrayCount(t -> t.5 != '', later)) AS after_success_by_replay,
        toInt64(after_success) - toInt64(after_success_by_replay) AS after_success_unexplained,
        arrayMin(arrayMap(t -> t.4, ts)) AS first_at,
        arrayMap((t, p) -> concat('attempt ', toString(t.2), ': ', multiIf(
                t.5 != p.5, concat('replay ', t.5, arrayStringConcat(arraySlice(arrayMap(a -> concat(' by ', a.2, ', ', a.3), arrayFilter(a -> a.1 = t.5, asked_)), 1, 1))),
                p.6 = 'unknown', concat('what became of attempt ', toString(p.2), ' is unknown'),
                concat('attempt ', toString(p.2), ' ended as ', p.6, if(p.8 > 0, concat(' with status ', toString(p.8)), '')))),
            arrayPopFront(ts), arrayPopBack(ts)) AS repeats
    FROM
    (
        SELECT
            tenant, event_id,
            max(event_type) AS event_type_,
            countIf(kind IN ('event.accepted', 'event.unmatched', 'event.rejected')) AS published_,
            countIf(if(kind IN ('event.accepted', 'event.unmatched', 'event.rejected'), JSONExtractBool(body, 'no_msg_id'), false)) AS without_,
            uniqExactIf(if(kind = 'event.accepted', JSONExtractString(body, 'data_digest'), ''), kind = 'event.accepted') AS digests_,
            arraySort(t -> (t.1, t.2, t.3), groupArrayIf((toString(endpoint_id), attempt, idx, at, replay_id, toString(outcome), toString(class), status, if(kind = 'attempt' AND outcome = 'interrupted', startsWith(error, 'no request was made'), false)), kind = 'attempt')) AS tries_,
            groupArrayIf((replay_id, toString(actor), toString(reason)), kind = 'replay.requested') AS asked_
        FROM records
        WHERE kind IN ('event.accepted', 'event.unmatched', 'event.rejected', 'attempt', 'replay.requested') /* scope */
        GROUP BY tenant, event_id
    )
    ARRAY JOIN arrayDistinct(arrayMap(t -> t.1, tries_)) AS endpoint
) AS d
LEFT JOIN
(
    SELECT tenant AS checked_tenant, toString(endpoint_id) AS checked_endpoint, maxOrNull(at) AS conformance_at, argMax(toString(outcome), idx) AS conformance_outcome
    FROM records
    WHERE kind = 'conformance.checked'
    GROUP BY tenant, endpoint_id
) AS c ON d.tenant = c.checked_tenant AND d.endpoint_id = c.checked_endpoint;

ALTER TABLE audit_duplicates
    COMMENT COLUMN tenant 'Owner of the event and endpoint',
    COMMENT COLUMN event_id 'The producer''s id of the event',
    COMMENT COLUMN endpoint_id 'The receiver, ep_…',
    COMMENT COLUMN event_type 'Type of the event',
    COMMENT COLUMN published 'Records of the event itself. More than 1: it was stored more than once under its id',
    COMMENT COLUMN with_msg_id 'It was published with Nats-Msg-Id',
    COMMENT COLUMN data_digests 'Different data that was accepted under the id. More than 1: the producer gave one id to two facts',
    COMMENT COLUMN requests 'Attempts on record',
    COMMENT COLUMN may_have_arrived 'Those that may have reached the receiver: all but those that found no address, connection, TLS session or token, and those that were never sent',
    COMMENT COLUMN delivered 'Successes on record',
    COMMENT COLUMN after_success 'Requests after the first success',
    COMMENT COLUMN after_success_by_replay 'Of them, those of a replay',
    COMMENT COLUMN after_success_unexplained 'Of them, the others, of which there should be none',
    COMMENT COLUMN first_at 'When the first attempt was put on record',
    COMMENT COLUMN repeats 'For each attempt after the first, why it was made',
    COMMENT COLUMN conformance_at 'The endpoint''s last conformance check on record',
    COMMENT COLUMN conformance_outcome 'What it found';

ALTER TABLE audit_duplicates MODIFY COMMENT 'Question two: per delivery, why a duplicate could not cause a duplicate action';
