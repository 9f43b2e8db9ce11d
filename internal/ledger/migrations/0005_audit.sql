CREATE OR REPLACE VIEW audit_attempts AS
SELECT
    tenant, event_id, endpoint_id, event_type, attempt,
    multiIf(outcome = 'unknown', 'unknown', status > 0, 'answered', 'unanswered') AS state,
    at, replay_id, started_at, resolve_us, connect_us, tls_us, first_byte_us, duration_us,
    status, outcome, class, decision, reason, error, next_attempt_at, deliver_by,
    endpoint_revision, url, remote_addr, http_version, tls_version, peer_fingerprint,
    payload_digest, payload_bytes, signature_scheme, key_ids, signed_at,
    response_headers, response_excerpt, response_bytes, response_truncated, redactions,
    dispatcher, software, id, idx
FROM attempts WHERE 1 /* scope */
UNION ALL
SELECT
    tenant, event_id, endpoint_id, event_type_ AS event_type, n AS attempt, 'missing' AS state,
    arrayMin(arrayMap(t -> t.2, arrayFilter(t -> t.1 > n, known))) AS at,
    '' AS replay_id, NULL AS started_at, 0 AS resolve_us, 0 AS connect_us, 0 AS tls_us, 0 AS first_byte_us, 0 AS duration_us,
    0 AS status, '' AS outcome, '' AS class, '' AS decision, '' AS reason, '' AS error, NULL AS next_attempt_at, NULL AS deliver_by,
    0 AS endpoint_revision, '' AS url, '' AS remote_addr, '' AS http_version, '' AS tls_version, '' AS peer_fingerprint,
    '' AS payload_digest, 0 AS payload_bytes, '' AS signature_scheme, CAST([], 'Array(String)') AS key_ids, NULL AS signed_at,
    CAST(map(), 'Map(String, String)') AS response_headers, '' AS response_excerpt, 0 AS response_bytes, false AS response_truncated, 0 AS redactions,
    '' AS dispatcher, '' AS software, '' AS id, 0 AS idx
FROM
(
    SELECT tenant, event_id, endpoint_id, max(event_type) AS event_type_, groupArray((attempt, at)) AS known, groupUniqArray(attempt) AS numbers
    FROM records
    WHERE kind = 'attempt' /* scope */
    GROUP BY tenant, event_id, endpoint_id
    HAVING length(numbers) < max(attempt)
)
ARRAY JOIN arrayFilter(x -> NOT has(numbers, x), arrayMap(x -> toInt64(x), range(1, least(arrayMax(numbers), 100000)))) AS n;

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
        arrayFilter(t -> t.6 NOT IN ('dns_failure', 'connection_refused', 'connection_failed', 'tls_failure', 'address_blocked', 'auth_failure'), ts) AS arrived,
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
            arraySort(t -> (t.1, t.2, t.3), groupArrayIf((toString(endpoint_id), attempt, idx, at, replay_id, toString(outcome), toString(class), status), kind = 'attempt')) AS tries_,
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

CREATE OR REPLACE VIEW audit_failures AS
SELECT
    'dead_letter' AS what, tenant, event_id, toString(endpoint_id) AS endpoint_id, toString(event_type) AS event_type, dead_lettered_at AS failed_at, toString(reason) AS reason, detail,
    attempts, replay_id, deliver_by, escalated_at, escalation_outcome,
    if(escalated_at IS NULL, NULL, dateDiff('microsecond', dead_lettered_at, escalated_at)) AS time_to_human_us,
    toBool(ifNull(time_to_human_us <= 300000000, false)) AS within_5_minutes,
    multiIf(within_5_minutes, 'kept', escalated_at IS NULL AND failed_at > now64(9, 'UTC') - INTERVAL 5 MINUTE, 'open', 'broken') AS promise,
    escalated_in_time, incident_id, acknowledged_at, acknowledged_by, owner, resolution, resolved_at, resolved_by, resolution_reason, succeeded_at, idx
FROM dead_letters
UNION ALL
SELECT
    'rejected_event' AS what, tenant, event_id_ AS event_id, '' AS endpoint_id, event_type_ AS event_type, failed_at, reason_ AS reason, detail_ AS detail,
    0 AS attempts, '' AS replay_id, deliver_by_ AS deliver_by, escalated_at, escalation_outcome,
    if(escalated_at IS NULL, NULL, dateDiff('microsecond', failed_at, escalated_at)) AS time_to_human_us,
    toBool(ifNull(time_to_human_us <= 300000000, false)) AS within_5_minutes,
    multiIf(within_5_minutes, 'kept', escalated_at IS NULL AND failed_at > now64(9, 'UTC') - INTERVAL 5 MINUTE, 'open', 'broken') AS promise,
    toBool(escalated_at IS NOT NULL AND (deliver_by IS NULL OR escalated_at <= deliver_by)) AS escalated_in_time,
    incident_id_ AS incident_id, acked.1 AS acknowledged_at, acked.2 AS acknowledged_by, owner_ AS owner,
    'open' AS resolution, NULL AS resolved_at, '' AS resolved_by, '' AS resolution_reason, NULL AS succeeded_at, idx_ AS idx
FROM
(
    SELECT
        tenant, about,
        maxIf(event_id, kind = 'event.rejected') AS event_id_,
        maxIf(toString(event_type), kind = 'event.rejected') AS event_type_,
        minOrNullIf(at, kind = 'event.rejected') AS rejected_at,
        assumeNotNull(rejected_at) AS failed_at,
        maxIf(toString(reason), kind = 'event.rejected') AS reason_,
        maxIf(if(kind = 'event.rejected', JSONExtractString(body, 'detail'), ''), kind = 'event.rejected') AS detail_,
        maxOrNullIf(deliver_by, kind = 'event.rejected') AS deliver_by_,
        minOrNullIf(at, kind = 'escalation' AND action != 'resolve' AND outcome = 'delivered') AS escalated_at,
        if(escalated_at IS NOT NULL, 'delivered', argMaxIf(toString(outcome), idx, kind = 'escalation' AND action != 'resolve')) AS escalation_outcome,
        maxIf(if(kind = 'escalation', JSONExtractString(body, 'incident_id'), ''), kind = 'escalation') AS incident_id_,
        argMinIf((toNullable(at), toString(actor)), idx, kind = 'escalation.acknowledged') AS acked_,
        if(countIf(kind = 'escalation.acknowledged') = 0, (NULL, ''), acked_) AS acked,
        argMaxIf(toString(actor), idx, kind = 'escalation.acknowledged') AS owner_,
        maxIf(idx, kind = 'event.rejected') AS idx_
    FROM
    (
        SELECT *, body, if(kind = 'event.rejected', id, extract(id, '(event/[0-9]+-[0-9]+)$')) AS about
        FROM records
        WHERE kind IN ('event.rejected', 'escalation', 'escalation.acknowledged') AND endpoint_id = ''
    )
    WHERE about != ''
    GROUP BY tenant, about
)
WHERE rejected_at IS NOT NULL;

CREATE OR REPLACE VIEW audit_integrity AS
SELECT
    tenant, event_id, t.1 AS endpoint_id, event_type_ AS event_type, t.2 AS attempt, t.4 AS at, t.5 AS outcome,
    multiIf(t.6 != '', 'signed', t.5 = 'unknown', 'unknown', 'not_sent') AS state,
    t.6 AS payload_digest, f.1 AS payload_bytes, f.2 AS signature_scheme, f.3 AS key_ids, f.4 AS signed_at, t.7 AS replay_id,
    toUInt64(arrayUniq(arrayMap(x -> x.6, arrayFilter(x -> x.2 = t.2 AND x.6 != '', tries_)))) AS digests_of_number,
    if(length(digests_) = 1, digests_[1], '') AS data_digest,
    length(digests_) AS data_digests,
    bytes_ AS data_bytes, event_at_ AS event_at,
    toBool(digests_of_number <= 1 AND data_digests = 1) AS agrees,
    t.3 AS idx
FROM
(
    SELECT
        tenant, event_id,
        max(event_type) AS event_type_,
        groupUniqArrayIf(if(kind = 'event.accepted', JSONExtractString(body, 'data_digest'), ''), kind = 'event.accepted') AS digests_,
        maxIf(if(kind = 'event.accepted', JSONExtractInt(body, 'data_bytes'), 0), kind = 'event.accepted') AS bytes_,
        maxOrNullIf(event_at, kind = 'event.accepted') AS event_at_,
        groupArrayIf((toString(endpoint_id), attempt, idx, at, toString(outcome), payload_digest, replay_id), kind = 'attempt') AS tries_,
        groupArrayIf((payload_bytes, signature_scheme, key_ids, signed_at), kind = 'attempt') AS facts_
    FROM records
    WHERE kind IN ('event.accepted', 'attempt') /* scope */
    GROUP BY tenant, event_id
)
ARRAY JOIN tries_ AS t, facts_ AS f;

CREATE OR REPLACE VIEW audit_controls AS
SELECT
    toDate(at, 'UTC') AS day, tenant, endpoint_id,
    count() AS records,
    countIf(kind = 'event.accepted') AS events_accepted,
    countIf(kind = 'event.unmatched') AS events_unmatched,
    countIf(kind = 'event.rejected') AS events_rejected,
    countIf(kind = 'delivery.owed') AS owed,
    countIf(kind = 'attempt') AS attempts,
    countIf(kind = 'attempt' AND class = 'delivered') AS delivered,
    countIf(kind = 'attempt' AND outcome = 'unknown') AS attempts_unknown,
    countIf(kind = 'delivery.dead_lettered') AS dead_lettered,
    countIf(kind = 'delivery.cancelled') AS cancelled,
    countIf(kind = 'escalation' AND action != 'resolve' AND outcome = 'delivered') AS people_told,
    countIf(kind = 'escalation' AND action != 'resolve' AND outcome NOT IN ('delivered', 'handed_over')) AS people_not_told,
    countIf(kind = 'escalation.acknowledged') AS acknowledged,
    countIf(kind = 'replay.requested') AS replays_requested,
    countIf(kind IN ('endpoint.changed', 'event_type.changed') OR kind = 'operator.action' AND match(action, '^(channel|escalation_policy|policy)\.(created|updated|deleted)')) AS changes,
    countIf(kind = 'conformance.checked') AS conformance_checks,
    countIf(kind = 'operator.action' AND action = 'channel.tested') AS escalation_tests,
    countIf(kind = 'operator.action' AND action = 'alarm.raised') AS alarms_raised,
    countIf(kind = 'operator.action' AND action = 'alarm.cleared') AS alarms_cleared,
    countIf(kind = 'operator.action' AND action = 'watchdog.not_told_in_time') AS not_told_in_time,
    countIf(kind = 'escalation' AND action = 'handed_over') AS watchdog_handed_over,
    countIf(kind = 'ledger.gap') AS ledger_gaps,
    0 AS checkpoints
FROM records
GROUP BY day, tenant, endpoint_id
UNION ALL
SELECT
    toDate(at, 'UTC') AS day, '' AS tenant, '' AS endpoint_id,
    0 AS records, 0 AS events_accepted, 0 AS events_unmatched, 0 AS events_rejected, 0 AS owed, 0 AS attempts, 0 AS delivered, 0 AS attempts_unknown,
    0 AS dead_lettered, 0 AS cancelled, 0 AS people_told, 0 AS people_not_told, 0 AS acknowledged, 0 AS replays_requested, 0 AS changes,
    0 AS conformance_checks, 0 AS escalation_tests, 0 AS alarms_raised, 0 AS alarms_cleared, 0 AS not_told_in_time, 0 AS watchdog_handed_over, 0 AS ledger_gaps,
    count() AS checkpoints
FROM checkpoints
GROUP BY day;

CREATE OR REPLACE VIEW audit_changes AS
SELECT
    at, tenant, kind, action, actor, reason, detail, endpoint_id, endpoint_revision, url,
    multiIf(channel != '', channel, escalation_policy != '', escalation_policy, event_types != [], arrayStringConcat(event_types, ' '), event_type) AS subject,
    revision, settings, idx
FROM records
WHERE kind IN ('endpoint.changed', 'event_type.changed')
    OR kind = 'operator.action' AND NOT match(action, '^(alarm|watchdog)\.');

CREATE OR REPLACE VIEW audit_completeness AS
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
    arrayFilter(m -> m.1 != '', arrayConcat(
        [
            (if(promised AND empty(arrayFilter(o -> o.2 = '', os)), 'not_owed', ''), 'event.accepted lists the endpoint, and no delivery.owed is on record'),
            (if(notEmpty(promised_) AND NOT promised AND notEmpty(arrayFilter(o -> o.2 = '', os)), 'not_promised', ''), 'delivery.owed is on record, and event.accepted does not list the endpoint'),
            (if(events_ = 0, 'event_missing', ''), 'nothing is on record of the event itself'),
            (if(events_ > 0 AND empty(promised_) AND expected_ != length(owed_to_), 'owed_count', ''),
                concat('the event was accepted for ', toString(expected_), ' endpoints, and is owed to ', toString(length(owed_to_))))
        ],
        arrayFlatten(arrayMap(r -> [
            (if(NOT arrayExists(o -> o.2 = r, os) AND arrayExists(t -> t.2 = r, ts) AND NOT (promised AND r = ''), 'attempt_not_owed', ''),
                concat(if(r = '', 'there are attempts', concat('there are attempts of replay ', r)), ', and nothing on record made them owed')),
            (if(NOT arrayExists(o -> o.2 = r, os) AND NOT arrayExists(t -> t.2 = r, ts) AND NOT (promised AND r = '') AND NOT has(asked_, r), 'end_not_owed', ''),
                concat(if(r = '', 'there is an end', concat('there is an end of replay ', r)), ', and nothing on record made it owed')),
            (if(arrayCount(o -> o.2 = r, os) > 1, 'owed_twice', ''),
                concat(if(r = '', 'it', concat('replay ', r)), ' is owed by ', toString(arrayCount(o -> o.2 = r, os)), ' records')),
            (if(arrayCount(t -> t.2 = r AND t.5, ts) + arrayCount(e -> e.2 = r, es) > 1, 'two_ends', ''),
                concat(if(r = '', 'it', concat('replay ', r)), ' was delivered ', toString(arrayCount(t -> t.2 = r AND t.5, ts)), ' times, dead-lettered ',
                    toString(arrayCount(e -> e.2 = r AND NOT e.4, es)), ' times and cancelled ', toString(arrayCount(e -> e.2 = r AND e.4, es)), ' times')),
            (if(arrayExists(t -> t.2 = r AND (arrayExists(e -> e.2 = r AND e.3 < t.3, es) OR arrayExists(s -> s.2 = r AND s.5 AND s.3 < t.3, ts)), ts), 'attempt_after_end', ''),
                concat(if(r = '', 'it', concat('replay ', r)), ' was attempted after its end'))
        ], arrayDistinct(arrayConcat(arrayMap(o -> o.2, os), arrayMap(t -> t.2, ts), arrayMap(e -> e.2, es))))),
        arrayMap(n -> ('attempt_missing', concat('attempt ', toString(n), ' is not on record')),
            arrayFilter(n -> NOT has(numbers, n), arrayMap(x -> toInt64(x), range(1, least(arrayMax(numbers), 100000))))),
        arrayMap(n -> ('attempt_twice', concat('attempt ', toString(n), ' is on record ', toString(arrayCount(x -> x = n, all_numbers)), ' times')),
            arrayFilter(n -> arrayCount(x -> x = n, all_numbers) > 1, numbers))
    )) AS mismatches
FROM
(
    SELECT
        *, endpoint,
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
ALTER TABLE audit_attempts
    COMMENT COLUMN tenant 'Owner of the event and endpoint',
    COMMENT COLUMN event_id 'The producer''s id of the event',
    COMMENT COLUMN endpoint_id 'The receiver, ep_…',
    COMMENT COLUMN event_type 'Type of the event',
    COMMENT COLUMN attempt '1, 2, 3 … within the delivery, across replays',
    COMMENT COLUMN state 'answered; unanswered; unknown: the process that made it died during it; missing: nothing is on record of this number, and there is a higher one',
    COMMENT COLUMN at 'When the attempt was put on record; of a missing one, when the next was',
    COMMENT COLUMN replay_id 'The replay that this belongs to, rpl_…',
    COMMENT COLUMN started_at 'When the request started',
    COMMENT COLUMN resolve_us 'Name resolution',
    COMMENT COLUMN connect_us 'TCP connection',
    COMMENT COLUMN tls_us 'TLS handshake',
    COMMENT COLUMN first_byte_us 'Until the first byte of the response',
    COMMENT COLUMN duration_us 'How long the call took, without any queueing',
    COMMENT COLUMN status 'HTTP status; 0: no response',
    COMMENT COLUMN outcome 'What became of the request; unknown: a process died during it',
    COMMENT COLUMN class 'delivered, retryable, terminal',
    COMMENT COLUMN decision 'delivered, retry, dead_letter',
    COMMENT COLUMN reason 'Code, if the decision was a dead letter',
    COMMENT COLUMN error 'What went wrong with the request, for people',
    COMMENT COLUMN next_attempt_at 'When the next attempt is due',
    COMMENT COLUMN deliver_by 'The deadline; NULL: none',
    COMMENT COLUMN endpoint_revision 'Revision of the endpoint''s settings',
    COMMENT COLUMN url 'The endpoint''s URL without its query',
    COMMENT COLUMN remote_addr 'Address that was called',
    COMMENT COLUMN http_version 'Of the response',
    COMMENT COLUMN tls_version 'Of the connection',
    COMMENT COLUMN peer_fingerprint 'SHA-256 of the receiver''s certificate',
    COMMENT COLUMN payload_digest 'SHA-256 of the exact signed bytes',
    COMMENT COLUMN payload_bytes 'Length of the signed bytes',
    COMMENT COLUMN signature_scheme 'How it was signed',
    COMMENT COLUMN key_ids 'With which keys; never the keys',
    COMMENT COLUMN signed_at 'The signed timestamp, whole seconds',
    COMMENT COLUMN response_headers 'Those worth keeping',
    COMMENT COLUMN response_excerpt 'Up to 1 KiB of the response, redacted',
    COMMENT COLUMN response_bytes 'How much of the response was read',
    COMMENT COLUMN response_truncated 'There was more',
    COMMENT COLUMN redactions 'How many pieces were removed from headers, excerpt and error',
    COMMENT COLUMN dispatcher 'The process that made the request',
    COMMENT COLUMN software 'Its version',
    COMMENT COLUMN id 'Of the attempt, att_…',
    COMMENT COLUMN idx 'Place in the ledger: 0, 1, 2 … without a hole. Leaf number in the Merkle tree';

ALTER TABLE audit_changes
    COMMENT COLUMN at 'When it was changed',
    COMMENT COLUMN tenant 'Owner of the event and endpoint',
    COMMENT COLUMN kind 'Kind of the record',
    COMMENT COLUMN action 'What was done',
    COMMENT COLUMN actor 'Who did it',
    COMMENT COLUMN reason 'Why, as a code',
    COMMENT COLUMN detail 'Why, for people',
    COMMENT COLUMN endpoint_id 'The receiver, ep_…',
    COMMENT COLUMN endpoint_revision 'Revision of the endpoint''s settings',
    COMMENT COLUMN url 'The endpoint''s URL without its query',
    COMMENT COLUMN subject 'What was changed: an endpoint, event type, channel or policy',
    COMMENT COLUMN revision 'Revision that it made',
    COMMENT COLUMN settings 'What it became; secrets left out',
    COMMENT COLUMN idx 'Place in the ledger: 0, 1, 2 … without a hole. Leaf number in the Merkle tree';

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
    COMMENT COLUMN mismatches 'What is not as in a whole ledger: pairs of a code and a sentence';

ALTER TABLE audit_controls
    COMMENT COLUMN day 'UTC day of the records',
    COMMENT COLUMN tenant 'Owner of the event and endpoint',
    COMMENT COLUMN endpoint_id 'The receiver; empty: the row counts the days events instead',
    COMMENT COLUMN records 'Records of all kinds',
    COMMENT COLUMN events_accepted 'Events that became deliveries',
    COMMENT COLUMN events_unmatched 'Events that nobody subscribes to',
    COMMENT COLUMN events_rejected 'Events that were no valid events',
    COMMENT COLUMN owed 'Deliveries that came to be owed',
    COMMENT COLUMN attempts 'Attempts on record',
    COMMENT COLUMN delivered 'Attempts that delivered',
    COMMENT COLUMN attempts_unknown 'Attempts whose outcome is unknown',
    COMMENT COLUMN dead_lettered 'Deliveries that ended unfulfilled',
    COMMENT COLUMN cancelled 'Deliveries that were cancelled',
    COMMENT COLUMN people_told 'Tries of a channel that were taken',
    COMMENT COLUMN people_not_told 'Tries of a channel that failed',
    COMMENT COLUMN acknowledged 'Dead letters that a person took',
    COMMENT COLUMN replays_requested 'Replays that people asked for',
    COMMENT COLUMN changes 'Changes of endpoints, event types, channels and policies',
    COMMENT COLUMN conformance_checks 'Conformance checks of receivers',
    COMMENT COLUMN escalation_tests 'Tests of channels',
    COMMENT COLUMN alarms_raised 'Alarms of the watchdog',
    COMMENT COLUMN alarms_cleared 'Those that ended',
    COMMENT COLUMN not_told_in_time 'Dead letters of which nobody was told in time',
    COMMENT COLUMN watchdog_handed_over 'Dead letters that the watchdog told people of by itself',
    COMMENT COLUMN ledger_gaps 'Gaps in the stream LEDGER',
    COMMENT COLUMN checkpoints 'Checkpoints that were signed; in rows without a tenant';

ALTER TABLE audit_duplicates
    COMMENT COLUMN tenant 'Owner of the event and endpoint',
    COMMENT COLUMN event_id 'The producer''s id of the event',
    COMMENT COLUMN endpoint_id 'The receiver, ep_…',
    COMMENT COLUMN event_type 'Type of the event',
    COMMENT COLUMN published 'Records of the event itself. More than 1: it was stored more than once under its id',
    COMMENT COLUMN with_msg_id 'It was published with Nats-Msg-Id',
    COMMENT COLUMN data_digests 'Different data that was accepted under the id. More than 1: the producer gave one id to two facts',
    COMMENT COLUMN requests 'Attempts on record',
    COMMENT COLUMN may_have_arrived 'Those that may have reached the receiver: all but those that found no address, connection, TLS session or token',
    COMMENT COLUMN delivered 'Successes on record',
    COMMENT COLUMN after_success 'Requests after the first success',
    COMMENT COLUMN after_success_by_replay 'Of them, those of a replay',
    COMMENT COLUMN after_success_unexplained 'Of them, the others, of which there should be none',
    COMMENT COLUMN first_at 'When the first attempt was put on record',
    COMMENT COLUMN repeats 'For each attempt after the first, why it was made',
    COMMENT COLUMN conformance_at 'The endpoint''s last conformance check on record',
    COMMENT COLUMN conformance_outcome 'What it found';

ALTER TABLE audit_failures
    COMMENT COLUMN what 'dead_letter or rejected_event',
    COMMENT COLUMN tenant 'Owner of the event and endpoint',
    COMMENT COLUMN event_id 'The producer''s id of the event',
    COMMENT COLUMN endpoint_id 'The receiver, ep_…',
    COMMENT COLUMN event_type 'Type of the event',
    COMMENT COLUMN failed_at 'When it was dead-lettered or rejected',
    COMMENT COLUMN reason 'Why, as a code',
    COMMENT COLUMN detail 'Why, for people',
    COMMENT COLUMN attempts 'Attempts made until then',
    COMMENT COLUMN replay_id 'The replay that this belongs to, rpl_…',
    COMMENT COLUMN deliver_by 'The deadline; NULL: none',
    COMMENT COLUMN escalated_at 'When a channel first took the message; NULL: nobody was told',
    COMMENT COLUMN escalation_outcome 'delivered, or the outcome of the last try; empty: there was none',
    COMMENT COLUMN time_to_human_us 'From the failure to when a channel first took the message; NULL: none did',
    COMMENT COLUMN within_5_minutes 'That is at most 5 minutes',
    COMMENT COLUMN promise 'kept; broken; open: nobody was told yet, and the 5 minutes are not over',
    COMMENT COLUMN escalated_in_time 'A channel took it, before the deadline if there is one',
    COMMENT COLUMN incident_id 'Under which people were told, inc_…',
    COMMENT COLUMN acknowledged_at 'When a person first took it on',
    COMMENT COLUMN acknowledged_by 'Who took it on first',
    COMMENT COLUMN owner 'Who took it on last',
    COMMENT COLUMN resolution 'open, replayed, delivered (by a replay, afterwards), delivered before, or resolved (a person said so)',
    COMMENT COLUMN resolved_at 'When a person said that it is settled',
    COMMENT COLUMN resolved_by 'Who said so',
    COMMENT COLUMN resolution_reason 'Why, in their words',
    COMMENT COLUMN succeeded_at 'When the delivery was delivered',
    COMMENT COLUMN idx 'Place in the ledger of the failure';

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

ALTER TABLE audit_attempts MODIFY COMMENT 'Question one: every attempt, those that are not on record too';
ALTER TABLE audit_duplicates MODIFY COMMENT 'Question two: per delivery, why a duplicate could not cause a duplicate action';
ALTER TABLE audit_failures MODIFY COMMENT 'Question three: each dead letter and rejected event, and when people were told';
ALTER TABLE audit_integrity MODIFY COMMENT 'Question four: per attempt, the digests of what was sent and of what was accepted';
ALTER TABLE audit_controls MODIFY COMMENT 'Question five: per day, tenant and endpoint, what the controls did';
ALTER TABLE audit_changes MODIFY COMMENT 'Each change of the configuration, with its actor';
ALTER TABLE audit_completeness MODIFY COMMENT 'Per delivery, its state, and what is not as in a whole ledger';
