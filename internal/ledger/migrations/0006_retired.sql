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
            (if(notEmpty(promised_) AND NOT promised AND notEmpty(arrayFilter(o -> o.2 = '', os)), 'not_promised', ''), 'delivery.owed is on record, and event.accepted does not list the endpoint', false),
            (if(events_ = 0, 'event_missing', ''), 'nothing is on record of the event itself', event_gone_),
            (if(events_ > 0 AND empty(promised_) AND expected_ != length(owed_to_), 'owed_count', ''),
                concat('the event was accepted for ', toString(expected_), ' endpoints, and is owed to ', toString(length(owed_to_))), owed_gone_)
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
    has(promised_, endpoint) AS promised,
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
        *, endpoint,
        -- Between two records of a delivery lie at most 36 days, and a replay can be asked for 30 days.
        if(events_ = 0, first_ - toIntervalDay(66), first_) AS earliest_,
        arrayExists(m -> m BETWEEN toYYYYMM(earliest_) AND toYYYYMM(first_), retired) AS event_gone_,
        arrayExists(m -> m BETWEEN toYYYYMM(first_) AND toYYYYMM(first_ + toIntervalDay(1)), retired) AS owed_gone_,
        arrayFilter(o -> o.1 = endpoint, owed_) AS os,
        arrayFilter(t -> t.1 = endpoint, tries_) AS ts,
        arrayFilter(e -> e.1 = endpoint, ends_) AS es,
        arrayMap(t -> t.4, ts) AS all_numbers,
        arrayDistinct(all_numbers) AS numbers,
        arraySort(t -> t.3, arrayFilter(t -> t.5, ts)) AS successes
    FROM
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
            arrayDistinct(arrayFlatten(groupArrayIf(if(kind = 'event.accepted', JSONExtract(body, 'endpoint_ids', 'Array(String)'), []), kind = 'event.accepted'))) AS promised_,
            groupArrayIf((toString(endpoint_id), replay_id, idx, at, deliver_by), kind = 'delivery.owed') AS owed_,
            arrayDistinct(arrayMap(o -> o.1, arrayFilter(o -> o.2 = '', owed_))) AS owed_to_,
            groupArrayIf((toString(endpoint_id), replay_id, idx, attempt, class = 'delivered', at, outcome = 'unknown'), kind = 'attempt') AS tries_,
            groupArrayIf((toString(endpoint_id), replay_id, idx, kind = 'delivery.cancelled', at), kind IN ('delivery.dead_lettered', 'delivery.cancelled')) AS ends_,
            groupUniqArrayIf(replay_id, kind = 'replay.requested') AS asked_
        FROM records
        WHERE kind IN ('event.accepted', 'event.unmatched', 'event.rejected', 'delivery.owed', 'attempt', 'delivery.dead_lettered', 'delivery.cancelled', 'replay.requested') /* scope */
        GROUP BY tenant, event_id
    )
    ARRAY JOIN arrayDistinct(arrayConcat(promised_, arrayMap(o -> o.1, owed_), arrayMap(t -> t.1, tries_), arrayMap(e -> e.1, ends_))) AS endpoint
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
