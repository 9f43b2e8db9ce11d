CREATE OR REPLACE VIEW audit_completeness AS
WITH
    (
        SELECT groupUniqArray(toUInt32OrZero(settings['month']))
        FROM records
        WHERE kind = 'operator.action' AND action = 'ledger.retired' AND settings['retirement'] NOT IN
            (SELECT settings['retirement'] FROM records WHERE kind = 'operator.action' AND action = 'ledger.kept')
    ) AS retired,
    arrayFilter(m -> m.1 != '', arrayConcat(
        [
            (if(promised AND empty(arrayFilter(o -> o.2 = '', os)), 'not_owed', ''), 'event.accepted lists the endpoint, and no delivery.owed is on record', owed_gone_),
            (if(lists_ AND NOT promised AND notEmpty(arrayFilter(o -> o.2 = '', os)), 'not_promised', ''), 'delivery.owed is on record, and event.accepted does not list the endpoint', false),
            (if(events_ = 0, 'event_missing', ''), 'nothing is on record of the event itself', event_gone_),
            (if(events_ > 0 AND NOT lists_ AND expected_ != owed_to_, 'owed_count', ''),
                concat('the event was accepted for ', toString(expected_), ' endpoints, and is owed to ', toString(owed_to_)), owed_gone_)
        ],
        arrayFlatten(arrayMap(r -> [
            (if(NOT arrayExists(o -> o.2 = r, os) AND arrayExists(t -> t.2 = r, ts) AND NOT (promised AND r = ''), 'attempt_not_owed', ''),
                concat(if(r = '', 'there are attempts', concat('there are attempts of replay ', r)), ', and nothing on record made them owed'),
                arrayExists(m -> m BETWEEN toYYYYMM(earliest_) AND toYYYYMM(arrayMin(arrayConcat(arrayMap(t -> t.6, arrayFilter(t -> t.2 = r, ts)), arrayMap(e -> e.5, arrayFilter(e -> e.2 = r, es))))), retired)),
            (if(NOT arrayExists(o -> o.2 = r, os) AND NOT arrayExists(t -> t.2 = r, ts) AND NOT (promised AND r = '') AND NOT has(asked_, r), 'end_not_owed', ''),
                concat(if(r = '', 'there is an end', concat('there is an end of replay ', r)), ', and nothing on record made it owed'),
                arrayExists(m -> m BETWEEN toYYYYMM(earliest_) AND toYYYYMM(arrayMin(arrayConcat(arrayMap(t -> t.6, arrayFilter(t -> t.2 = r, ts)), arrayMap(e -> e.5, arrayFilter(e -> e.2 = r, es))))), retired)),
            (if(arrayCount(o -> o.2 = r, os) > 1, 'owed_twice', ''),
                concat(if(r = '', 'it', concat('replay ', r)), ' is owed by ', toString(arrayCount(o -> o.2 = r, os)), ' records'), false),
            (if(arrayCount(t -> t.2 = r AND t.5, ts) + arrayCount(e -> e.2 = r, es) > 1, 'two_ends', ''),
                concat(if(r = '', 'it', concat('replay ', r)), ' was delivered ', toString(arrayCount(t -> t.2 = r AND t.5, ts)), ' times, dead-lettered ',
                    toString(arrayCount(e -> e.2 = r AND NOT e.4, es)), ' times and cancelled ', toString(arrayCount(e -> e.2 = r AND e.4, es)), ' times'), false),
            (if(arrayExists(t -> t.2 = r AND (arrayExists(e -> e.2 = r AND e.3 < t.3, es) OR arrayExists(s -> s.2 = r AND s.5 AND s.3 < t.3, ts)), ts), 'attempt_after_end', ''),
                concat(if(r = '', 'it', concat('replay ', r)), ' was attempted after its end'), false)
        ], arrayDistinct(arrayConcat(arrayMap(o -> o.2, os), arrayMap(t -> t.2, ts), arrayMap(e -> e.2, es))))),
        arrayMap(n -> ('attempt_missing', concat('attempt ', toString(n), ' is not on record'),
                arrayExists(m -> m BETWEEN toYYYYMM(arrayMax(arrayConcat([earliest_], arrayMap(t -> t.6, arrayFilter(t -> t.4 < n, ts))))) AND toYYYYMM(arrayMin(arrayMap(t -> t.6, arrayFilter(t -> t.4 > n, ts)))), retired)),
            arrayFilter(n -> NOT has(numbers, n), arrayMap(x -> toInt64(x), range(1, least(arrayMax(numbers), 100000))))),
        arrayMap(n -> ('attempt_twice', concat('attempt ', toString(n), ' is on record ', toString(arrayCount(x -> x = n, all_numbers)), ' times'), false),
            arrayFilter(n -> arrayCount(x -> x = n, all_numbers) > 1, numbers))
    )) AS found
SELECT
    tenant, event_id, endpoint AS endpoint_id, event_type_ AS event_type,
    coalesce(accepted_, unowned_, first_owed_, first_try_, first_end_) AS accepted_at,
    promised,
    multiIf(arrayExists(t -> t.5, ts), 'delivered',
            empty(os) AND empty(es), if(empty(ts), 'not_owed', 'pending'),
            empty(es) OR arrayMax(arrayMap(o -> o.3, os)) > arrayMax(arrayMap(e -> e.3, es)), 'pending',
            arraySort(e -> e.3, es)[-1].4, 'cancelled',
            'dead_lettered') AS state,
    length(ts) AS attempt_count,
    toUInt64(arrayCount(t -> t.7, ts)) AS attempts_unknown,
    arraySort(o -> o.3, arrayFilter(o -> o.2 = '', os))[1].5 AS deliver_by,
    if(empty(successes), NULL, successes[1].6) AS succeeded_at,
    if(succeeded_at IS NULL OR stored_ IS NULL OR successes[1].2 != '', NULL, dateDiff('microsecond', stored_, succeeded_at)) AS latency_us,
    arrayMap(m -> (m.1, m.2), arrayFilter(m -> NOT m.3, found)) AS mismatches,
    toBool(arrayExists(m -> m.3 AND m.1 NOT IN ('attempt_missing'), found)) AS begun_retired
FROM
(
    SELECT
        *,
        -- Between two records of a delivery lie at most 36 days, and a replay can be asked for 30 days.
        if(events_ = 0, first_ - toIntervalDay(66), first_) AS earliest_,
        arrayExists(m -> m BETWEEN toYYYYMM(earliest_) AND toYYYYMM(first_), retired) AS event_gone_,
        arrayExists(m -> m BETWEEN toYYYYMM(first_) AND toYYYYMM(first_ + toIntervalDay(1)), retired) AS owed_gone_,
        arrayMap(t -> t.4, ts) AS all_numbers,
        arrayDistinct(all_numbers) AS numbers,
        arraySort(t -> t.3, arrayFilter(t -> t.5, ts)) AS successes
    FROM
    (
        -- Each delivery by itself: what an event has of them is never held against each of them.
        SELECT
            tenant, event_id, endpoint,
            toUInt8(max(listed)) AS promised,
            groupArrayIf((endpoint, replay_id, idx, at, deliver_by), kind = 'delivery.owed') AS os,
            groupArrayIf((endpoint, replay_id, idx, attempt, class = 'delivered', at, outcome = 'unknown'), kind = 'attempt') AS ts,
            groupArrayIf((endpoint, replay_id, idx, kind = 'delivery.cancelled', at), kind IN ('delivery.dead_lettered', 'delivery.cancelled')) AS es
        FROM
        (
            SELECT tenant, event_id, toString(endpoint_id) AS endpoint, kind, replay_id, idx, at, deliver_by, attempt, class, outcome, false AS listed
            FROM records
            WHERE kind IN ('delivery.owed', 'attempt', 'delivery.dead_lettered', 'delivery.cancelled') /* scope */
            UNION ALL
            SELECT tenant, event_id, arrayJoin(JSONExtract(body, 'endpoint_ids', 'Array(String)')) AS endpoint, kind, replay_id, idx, at, deliver_by, attempt, class, outcome, true AS listed
            FROM records
            WHERE kind = 'event.accepted' /* scope */
        )
        GROUP BY tenant, event_id, endpoint
    ) AS deliveries
    INNER JOIN
    (
        SELECT
            tenant, event_id,
            max(event_type) AS event_type_,
            countIf(kind IN ('event.accepted', 'event.unmatched', 'event.rejected')) AS events_,
            min(at) AS first_,
            minOrNullIf(at, kind = 'event.accepted') AS accepted_,
            minOrNullIf(stored_at, kind = 'event.accepted') AS stored_,
            minOrNullIf(at, kind IN ('event.unmatched', 'event.rejected')) AS unowned_,
            minOrNullIf(at, kind = 'delivery.owed') AS first_owed_,
            minOrNullIf(at, kind = 'attempt') AS first_try_,
            minOrNullIf(at, kind IN ('delivery.dead_lettered', 'delivery.cancelled')) AS first_end_,
            maxIf(endpoints, kind = 'event.accepted') AS expected_,
            countIf(kind = 'event.accepted' AND JSONLength(body, 'endpoint_ids') > 0) > 0 AS lists_,
            uniqExactIf(endpoint_id, kind = 'delivery.owed' AND replay_id = '') AS owed_to_,
            groupUniqArrayIf(replay_id, kind = 'replay.requested') AS asked_
        FROM records
        WHERE kind IN ('event.accepted', 'event.unmatched', 'event.rejected', 'delivery.owed', 'attempt', 'delivery.dead_lettered', 'delivery.cancelled', 'replay.requested') /* scope */
        GROUP BY tenant, event_id
    ) AS events USING (tenant, event_id)
);

-- What the columns mean: docs/dictionary.generated.md is made of this.
ALTER TABLE audit_completeness
    COMMENT COLUMN tenant 'Owner of the event and endpoint',
    COMMENT COLUMN event_id 'The producer''s id of the event',
    COMMENT COLUMN endpoint_id 'The receiver, ep_…',
    COMMENT COLUMN event_type 'Type of the event',
    COMMENT COLUMN accepted_at 'When its event was accepted; if that is not on record, the first that is known of it',
    COMMENT COLUMN promised 'event.accepted lists the endpoint',
    COMMENT COLUMN state 'delivered, dead_lettered, cancelled, pending; not_owed: promised, and nothing else is on record',
    COMMENT COLUMN attempt_count 'Attempts on record',
    COMMENT COLUMN attempts_unknown 'Those whose outcome is unknown',
    COMMENT COLUMN deliver_by 'Deadline of the first obligation; NULL: none',
    COMMENT COLUMN succeeded_at 'When it was first delivered',
    COMMENT COLUMN latency_us 'From when EVENTS stored the event to then; NULL if a replay delivered it',
    COMMENT COLUMN mismatches 'What is not as in a whole ledger: pairs of a code and a sentence',
    COMMENT COLUMN begun_retired 'Its beginning is gone with a month that was retired; that it is missing is no mismatch';

ALTER TABLE audit_completeness MODIFY COMMENT 'Per delivery, its state, and what is not as in a whole ledger';

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
        tries_ AS ts,
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
                t.5 != p.5, concat('replay ', t.5, arrayStringConcat(arraySlice(arrayMap(a -> concat(' by ', a.2, ', ', a.3), arrayFilter(a -> a.1 = t.5, arrayConcat(asked_, asked_of_all_))), 1, 1))),
                p.6 = 'unknown', concat('what became of attempt ', toString(p.2), ' is unknown'),
                concat('attempt ', toString(p.2), ' ended as ', p.6, if(p.8 > 0, concat(' with status ', toString(p.8)), '')))),
            arrayPopFront(ts), arrayPopBack(ts)) AS repeats
    FROM
    (
        -- Each delivery by itself: what an event has of them is never held against each of them.
        SELECT
            tenant, event_id, CAST(endpoint_id, 'String') AS endpoint,
            arraySort(t -> (t.1, t.2, t.3), groupArrayIf((toString(endpoint_id), attempt, idx, at, replay_id, toString(outcome), toString(class), status, if(kind = 'attempt' AND outcome = 'interrupted', startsWith(error, 'no request was made'), false)), kind = 'attempt')) AS tries_,
            groupArrayIf((replay_id, toString(actor), toString(reason)), kind = 'replay.requested') AS asked_
        FROM records
        WHERE kind IN ('attempt', 'replay.requested') /* scope */
        GROUP BY tenant, event_id, endpoint_id
        HAVING notEmpty(tries_)
    ) AS deliveries
    INNER JOIN
    (
        SELECT
            tenant, event_id,
            max(event_type) AS event_type_,
            countIf(kind IN ('event.accepted', 'event.unmatched', 'event.rejected')) AS published_,
            countIf(if(kind IN ('event.accepted', 'event.unmatched', 'event.rejected'), JSONExtractBool(body, 'no_msg_id'), false)) AS without_,
            uniqExactIf(if(kind = 'event.accepted', JSONExtractString(body, 'data_digest'), ''), kind = 'event.accepted') AS digests_,
            groupArrayIf((replay_id, toString(actor), toString(reason)), kind = 'replay.requested' AND endpoint_id = '') AS asked_of_all_
        FROM records
        WHERE kind IN ('event.accepted', 'event.unmatched', 'event.rejected', 'attempt', 'replay.requested') /* scope */
        GROUP BY tenant, event_id
    ) AS events USING (tenant, event_id)
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

CREATE OR REPLACE VIEW audit_integrity AS
SELECT
    tenant, event_id, endpoint_id, event_type_ AS event_type, attempt, at, outcome,
    multiIf(payload_digest != '', 'signed', outcome = 'unknown', 'unknown', 'not_sent') AS state,
    payload_digest, payload_bytes, signature_scheme, key_ids, signed_at, replay_id,
    toUInt64(digests_of_number_) AS digests_of_number,
    if(length(digests_) = 1, digests_[1], '') AS data_digest,
    length(digests_) AS data_digests,
    bytes_ AS data_bytes, event_at_ AS event_at,
    toBool(digests_of_number <= 1 AND data_digests = 1) AS agrees,
    idx
FROM
(
    SELECT tenant, event_id, CAST(endpoint_id, 'String') AS endpoint_id, attempt, at, CAST(outcome, 'String') AS outcome, payload_digest, payload_bytes,
        signature_scheme, key_ids, signed_at, replay_id, idx
    FROM records
    WHERE kind = 'attempt' /* scope */
) AS tries
INNER JOIN
(
    SELECT tenant, event_id, attempt, uniqExactIf(payload_digest, payload_digest != '') AS digests_of_number_
    FROM records
    WHERE kind = 'attempt' /* scope */
    GROUP BY tenant, event_id, attempt
) AS numbers USING (tenant, event_id, attempt)
INNER JOIN
(
    SELECT
        tenant, event_id,
        max(event_type) AS event_type_,
        groupUniqArrayIf(if(kind = 'event.accepted', JSONExtractString(body, 'data_digest'), ''), kind = 'event.accepted') AS digests_,
        maxIf(if(kind = 'event.accepted', JSONExtractInt(body, 'data_bytes'), 0), kind = 'event.accepted') AS bytes_,
        maxOrNullIf(event_at, kind = 'event.accepted') AS event_at_
    FROM records
    WHERE kind IN ('event.accepted', 'attempt') /* scope */
    GROUP BY tenant, event_id
) AS events USING (tenant, event_id);

ALTER TABLE audit_integrity
    COMMENT COLUMN tenant 'Owner of the event and endpoint',
    COMMENT COLUMN event_id 'The producer''s id of the event',
    COMMENT COLUMN endpoint_id 'The receiver, ep_…',
    COMMENT COLUMN event_type 'Type of the event',
    COMMENT COLUMN attempt '1, 2, 3 … within the delivery, across replays',
    COMMENT COLUMN at 'When the attempt was put on record',
    COMMENT COLUMN outcome 'What became of the request; unknown: a process died during it',
    COMMENT COLUMN state 'signed; unknown: the process that knew the digest died; not_sent: the attempt ended before there was something to sign',
    COMMENT COLUMN payload_digest 'SHA-256 of the exact signed bytes',
    COMMENT COLUMN payload_bytes 'Length of the signed bytes',
    COMMENT COLUMN signature_scheme 'How it was signed',
    COMMENT COLUMN key_ids 'With which keys; never the keys',
    COMMENT COLUMN signed_at 'The signed timestamp, whole seconds',
    COMMENT COLUMN replay_id 'The replay that this belongs to, rpl_…',
    COMMENT COLUMN digests_of_number 'Different digests of attempts with this number, to whatever endpoint. It should be 1: the body holds the event and the number, nothing else',
    COMMENT COLUMN data_digest 'SHA-256 of the data that the event was accepted with',
    COMMENT COLUMN data_digests 'How many different ones are on record under the id; 0: the event''s record is missing',
    COMMENT COLUMN data_bytes 'Length of the data',
    COMMENT COLUMN event_at 'The producer''s timestamp',
    COMMENT COLUMN agrees 'One digest for the number, one for the data',
    COMMENT COLUMN idx 'Place in the ledger: 0, 1, 2 … without a hole. Leaf number in the Merkle tree';

ALTER TABLE audit_integrity MODIFY COMMENT 'Question four: per attempt, the digests of what was sent and of what was accepted';
