// Package logevent has the names of what is logged, each once, with what it means
// and what to do. An operator searches for them: they never change. docs/logs.md is
// made from here.
package logevent

// Processes.
const (
	// A stage works, and serves its HTTP address.
	StageStarted = "stage.started"
	// A stage has ended what it had in hand, and stopped.
	StageStopped = "stage.stopped"
	// A stop has waited as long as it may. What is still in hand is interrupted, and is done again
	// after the next start.
	StopInterrupting = "stop.interrupting"
	// Everything in this process works.
	UpReady = "up.ready"
	// A signal came: everything is being stopped, the last stage first.
	UpStopping = "up.stopping"
	// One part of a process was closed at its stop.
	Cleanup = "cleanup"
	// The HTTP server of this process ended with an error. Restart the process.
	HTTPFailed = "http.failed"
	// Profiles of Go are served at this address.
	DebugListening = "debug.listening"
	// Traces are sent to this address.
	TracingOn = "tracing.on"
	// Traces could not be sent and are dropped. See that the collector runs; deliveries are not
	// affected.
	TracesLost = "traces.lost"
	// Traces are sent again after a failure.
	TracesSentAgain = "traces.sent_again"
	// Other users of this machine may read the data directory, and it could not be closed. Change
	// its mode to 0700.
	DataOpenToOthers = "data.open_to_others"
	// A start made a stream, bucket or consumer, or changed one that an older version had made.
	StreamsChanged = "streams.changed"
	// Secrets of some endpoints do not open with the keys that were given. Give the key that they
	// were sealed with, or replace the secrets.
	SecretsDoNotOpen = "secrets.do_not_open"
	// A secret that an older version stored in the clear could not be sealed. It is tried again at
	// the next start.
	SecretsNotSealed = "secrets.not_sealed"
	// A secret that an older version had stored in the clear is sealed now.
	SecretsSealed = "secrets.sealed"
)

// NATS and the streams.
const (
	// The connection to NATS is lost. It is made anew by itself.
	NATSDisconnected = "nats.disconnected"
	// The connection to NATS works again.
	NATSReconnected = "nats.reconnected"
	// NATS reported an error that belongs to no single request.
	NATSError = "nats.error"
	// A message could not be stored in its stream, and is published again under the same id.
	PublishRetry = "publish.retry"
	// A batch was refused as a whole. Its messages are published one by one.
	PublishBatchRefused = "publish.batch_refused"
	// Taking messages failed for a moment. It is tried again.
	ConsumerError = "consumer.error"
	// A consumer cannot be read. It is opened again after a pause; when it stays, run `waybill
	// streams apply`.
	ConsumerLost = "consumer.lost"
	// The server could not be told that a message is still in hand. It may come a second time, and
	// is recognised.
	InProgressFailed = "in_progress.failed"
	// A message could not be acknowledged or handed back. It comes again, and is recognised.
	SettleFailed = "settle.failed"
	// A message in a queue is none that this version understands. It is set aside.
	MessageMalformed = "message.malformed"
	// A message that had been settled was still in its queue, and was removed.
	LeftoverRemoved = "leftover.removed"
	// A message that had been settled is still in its queue. It is looked for again in a minute.
	LeftoverNotRemoved = "leftover.not_removed"
	// A queue could not be searched for messages that had been settled. It is tried again.
	QueueNotSwept = "queue.not_swept"
	// A lease could not be given back. It ends by itself.
	LeaseNotReleased = "lease.not_released"
	// The clocks of this machine and of the NATS server differ. Times are corrected by the
	// difference; keep both clocks with NTP.
	ClockApart = "clock.apart"
	// The two clocks agree again.
	ClockTogether = "clock.together"
	// The clocks could not be compared. It is tried again.
	ClockNotCompared = "clock.not_compared"
	// The wall clock of this machine was set back. Messages that wait are taken up again, so that
	// nobody waits longer than was decided.
	ClockSetBack = "clock.set_back"
	// Messages that waited for a time of the old clock are taken up again.
	ClockTakenUpAgain = "clock.taken_up_again"
	// Messages that wait could not be taken up again. It is tried again.
	ClockNotTakenUp = "clock.not_taken_up"
)

// Events and fan-out.
const (
	// An event that came in is invalid. It is on record, and its producer is told.
	EventRejected = "event.rejected"
	// An event could not be fanned out now. It comes again.
	EventHandedBack = "event.handed_back"
	// What an event would become can never be stored. It is on record as rejected, and people are
	// told.
	EventNotStorable = "event.not_storable"
	// The list of endpoints that an event was owed to is gone from LEDGER. Those that match now
	// are taken.
	EventEndpointsGone = "event.endpoints_gone"
	// The producer of a rejected event could not be told. The rejection is on record.
	RejectionNotAnnounced = "rejection.not_announced"
	// The answer to a producer on NATS could not be sent. The producer publishes again under the
	// same id.
	IngestAnswerLost = "ingest.answer_lost"
	// An event that was published without asking for an answer could not be stored. Nobody else
	// knows of it.
	IngestEventNotStored = "ingest.event_not_stored"
	// More events came over NATS than could be taken, and NATS dropped some. Producers that wait
	// for answers publish again.
	IngestEventsDropped = "ingest.events_dropped"
	// The index of events' ids lost its stream, and reads on.
	EventIDsReopened = "event_ids.reopened"
	// EVENTS is not the stream that the index was made of. The index is made anew.
	EventIDsStreamChanged = "event_ids.stream_changed"
	// A segment of the index was stored.
	EventIDsSegmentKept = "event_ids.segment_kept"
	// A segment of the index could not be stored. It is read from EVENTS again at the next start.
	EventIDsSegmentNotKept = "event_ids.segment_not_kept"
	// A stored segment of the index cannot be read. It is made anew from EVENTS.
	EventIDsSegmentUnreadable = "event_ids.segment_unreadable"
	// A replay was fanned out.
	Replay = "replay"
	// A request for a replay is none that this version understands. It is set aside.
	ReplayMalformed = "replay.malformed"
)

// Registry.
const (
	// A change of an endpoint is on record.
	EndpointChanged = "endpoint.changed"
	// A change of an event type is on record.
	EventTypeChanged = "event_type.changed"
	// A change of a channel or an escalation policy is on record.
	RegistryChanged = "registry.changed"
	// A change of the registry could not be put on record now. It comes again.
	RecordHandedBack = "record.handed_back"
	// The newest entry of the registry under a key is none. The one before it holds; check who may
	// publish to `$KV.>`.
	RegistryUnreadable = "registry.unreadable"
	// Somebody removed an entry from a bucket by hand, past Waybill. Check who may do so.
	RegistryRemovedByForce = "registry.removed_by_force"
	// The registry is not followed for a moment. What was known holds; it is opened again.
	RegistryWatchLost = "registry.watch_lost"
	// The registry lacks endpoints that are on record: their events match nobody. See [The
	// registry is lost](operations.md#the-registry-is-lost).
	RegistryEndpointsLost = "registry.endpoints_lost"
	// Waybill disabled an endpoint that took nothing for too long.
	EndpointDisabled = "endpoint.disabled"
	// An endpoint that took nothing for too long could not be disabled. It is tried again.
	EndpointNotDisabled = "endpoint.not_disabled"
	// What is stored of an endpoint's health cannot be read, and counts for nothing.
	EndpointHealthUnreadable = "endpoint_health.unreadable"
	// Health of endpoints is not followed for a moment. It is opened again.
	EndpointHealthWatchLost = "endpoint_health.watch_lost"
	// An endpoint's failures could not be stored. They are written with the next ones.
	EndpointHealthNotWritten = "endpoint_health.not_written"
	// An endpoint's success could not be stored. It is written with the next one.
	EndpointHealthNotCleared = "endpoint_health.not_cleared"
)

// Deliveries.
const (
	// An attempt was made. Its fields are those of its record.
	Attempt = "attempt"
	// An attempt could not be made for a reason of ours. It says nothing of the receiver and costs
	// the delivery nothing; mend what the error names.
	AttemptNotMade = "attempt.not_made"
	// An attempt whose process died was found and put on record as `unknown`. The delivery goes
	// on.
	AttemptResumed = "attempt.resumed"
	// This process was away so long that its attempt was put on record by another one. What stands
	// on record holds.
	AttemptOvertaken = "attempt.overtaken"
	// An endpoint fails. Its deliveries wait, and one at a time tries it.
	BreakerOpened = "breaker.opened"
	// An endpoint answers again.
	BreakerClosed = "breaker.closed"
	// A secret does not open: its deliveries wait, and cost nothing. Give the key.
	DeliveryWaitsForKey = "delivery.waits_for_key"
	// The queue of an ordered endpoint cannot be read. It is tried again.
	FIFONotServed = "fifo.not_served"
	// A delivery ended without success. People are told, as its policy says.
	DeliveryDeadLettered = "delivery.dead_lettered"
	// A delivery could not be handled now. It comes again.
	DeliveryHandedBack = "delivery.handed_back"
	// A delivery in a queue is none that this version understands. It is set aside.
	DeliveryMalformed = "delivery.malformed"
	// The record of a delivery can never be stored. The delivery ends, and people are told.
	DeliveryNotStorable = "delivery.not_storable"
)

// Escalation.
const (
	// This escalator tells people.
	EscalatorLeading = "escalator.leading"
	// Another escalator tells people; this one waits.
	EscalatorStandby = "escalator.standby"
	// The escalator cannot work, and says for what it waits.
	EscalatorWaiting = "escalator.waiting"
	// A try to tell people was made.
	Escalation = "escalation"
	// No person could be told of dead letters. Make a channel and a policy, or mend them.
	EscalationNobodyTold = "escalation.nobody_told"
	// No policy names a person to tell.
	EscalationNoPolicy = "escalation.no_policy"
	// A dead letter could not be taken up now. It comes again.
	EscalationHandedBack = "escalation.handed_back"
	// A request to tell people is none that this version understands. It is set aside.
	EscalationMalformed = "escalation.malformed"
	// A try to tell people could not be put on record.
	EscalationNotRecorded = "escalation.not_recorded"
	// An incident began.
	IncidentOpened = "incident.opened"
	// A person has taken an incident.
	IncidentAcknowledged = "incident.acknowledged"
	// An incident ended, and nobody had acknowledged it.
	IncidentExpired = "incident.expired"
	// A stored incident or problem cannot be read. The watchdog looks after its deliveries.
	IncidentUnreadable = "incident.unreadable"
	// How far an incident has come could not be stored. It is tried again; people are told
	// meanwhile.
	IncidentNotSaved = "incident.not_saved"
	// A problem of an incident that has ended still names that one. It is part of the new one all
	// the same.
	IncidentNotMoved = "incident.not_moved"
	// How an incident ended is not on record yet. It is tried again.
	IncidentNotRecorded = "incident.not_recorded"
	// Incidents are not followed for a moment. They are read again.
	IncidentsWatchLost = "incidents.watch_lost"
)

// The watchdog.
const (
	// This watchdog acts.
	WatchdogLeading = "watchdog.leading"
	// Another watchdog acts; this one waits.
	WatchdogStandby = "watchdog.standby"
	// The watchdog cannot work, and says for what it waits.
	WatchdogWaiting = "watchdog.waiting"
	// The watchdog asked the escalator to tell people of a delivery that is overdue, or a dead
	// letter that nobody was told of.
	WatchdogHandedOver = "watchdog.handed_over"
	// No policy names a person to tell.
	WatchdogNobodyToTell = "watchdog.nobody_to_tell"
	// What the escalator was to be asked could not be written. The watchdog tells people itself.
	WatchdogNotHandedOver = "watchdog.not_handed_over"
	// The watchdog told people itself, or tried: `told` says which.
	WatchdogTold = "watchdog.told"
	// People could not be told before the deadline. It is on record.
	WatchdogNotToldInTime = "watchdog.not_told_in_time"
	// That people could not be told in time could not be written as a record.
	WatchdogNotCounted = "watchdog.not_counted"
	// A try to tell people could not be written as a record.
	WatchdogNotRecorded = "watchdog.not_recorded"
	// What the watchdog did is not stored yet. It is tried again.
	WatchdogNotStored = "watchdog.not_stored"
	// The incident that the watchdog began could not be stored. People are told all the same, and
	// may be told twice.
	WatchdogIncidentNotStored = "watchdog.incident_not_stored"
	// Whether some deliveries have ended could not be asked. It is asked again before anybody is
	// told.
	WatchdogDoubtsNotCleared = "watchdog.doubts_not_cleared"
	// The record of an overdue delivery is no longer in LEDGER.
	WatchdogRecordGone = "watchdog.record_gone"
	// The record of an overdue delivery cannot be read now. It is tried again.
	WatchdogRecordUnread = "watchdog.record_unread"
	// LEDGER is not read for a moment. It is opened again.
	WatchdogLedgerLost = "watchdog.ledger_lost"
	// How far the watchdog has read is not stored. After a start it reads more again.
	WatchdogPlaceNotStored = "watchdog.place_not_stored"
	// What the watchdog before had stored cannot be read. It begins anew.
	WatchdogStatusUnread = "watchdog.status_unread"
	// What the watchdog looks at is not stored. It is tried again.
	WatchdogStatusNotStored = "watchdog.status_not_stored"
	// One look at the server showed nothing. After more of them an alarm is raised.
	WatchdogUnseen = "watchdog.unseen"
	// Something is wrong with the deployment: `code` says what, see [the watchdog](watchdog.md).
	AlarmRaised = "alarm.raised"
	// It is still wrong.
	AlarmRepeated = "alarm.repeated"
	// It is no longer wrong.
	AlarmCleared = "alarm.cleared"
	// An alarm could not be stored. It is raised again at the next look.
	AlarmNotStored = "alarm.not_stored"
	// The wall clock of the watchdog's machine jumped. Keep it with NTP, slewed, not stepped.
	ClockJumped = "clock.jumped"
)

// The ledger.
const (
	// This ledger-sink writes.
	LedgerSinkWriting = "ledger_sink.writing"
	// Another ledger-sink writes; this one waits.
	LedgerSinkStandby = "ledger_sink.standby"
	// Nothing is written to ClickHouse, and the cause is named. LEDGER keeps everything meanwhile.
	LedgerSinkWaiting = "ledger_sink.waiting"
	// How far the sink has come could not be told to others. It is told again.
	LedgerSinkPositionNotSaid = "ledger_sink.position_not_said"
	// A message in LEDGER is no record. It is stored as kind `invalid`.
	RecordInvalid = "record.invalid"
	// A record is of a newer version. What this version understands of it is stored, and all of
	// its bytes.
	RecordNewerFormat = "record.newer_format"
	// A record came again that ClickHouse has.
	RecordKnown = "record.known"
	// Messages of LEDGER are missing. The ledger says so as `ledger.gap`.
	LedgerStreamGap = "ledger_stream.gap"
	// A gap of LEDGER could not be put on record. It is tried again.
	LedgerStreamGapNotRecorded = "ledger_stream.gap_not_recorded"
	// LEDGER is not the stream that ClickHouse was filled from. What it holds is compared with the
	// last records.
	LedgerStreamMadeAnew = "ledger_stream.made_anew"
	// LEDGER ends before what ClickHouse has. What is stated again is recognised.
	LedgerStreamLostTail = "ledger_stream.lost_tail"
	// LEDGER no longer keeps what ClickHouse has had for long enough.
	LedgerStreamTrimmed = "ledger_stream.trimmed"
	// LEDGER could not be trimmed. It is tried again.
	LedgerStreamNotTrimmed = "ledger_stream.not_trimmed"
	// Checkpoints are signed with this key.
	LedgerLogKey = "ledger_log.key"
	// No key signs checkpoints.
	LedgerLogNoKey = "ledger_log.no_key"
	// A new key signs from here on.
	LedgerLogKeyRotated = "ledger_log.key_rotated"
	// The file of the signing key changed and cannot be read. The key of before goes on signing.
	LedgerLogKeyFileNotRead = "ledger_log.key_file_not_read"
	// No checkpoint is signed, because what would be signed contradicts what was signed before.
	// Read `why`, then run `waybill ledger verify`.
	LedgerLogSignsNothing = "ledger_log.signs_nothing"
	// That no checkpoint is signed could not be put on record.
	LedgerLogRefusalNotOnRecord = "ledger_log.refusal_not_on_record"
	// What is stored agrees with what was signed. Checkpoints are signed again.
	LedgerLogAgreesAgain = "ledger_log.agrees_again"
	// The log does not grow for a moment, and the cause is named.
	LedgerLogWaiting = "ledger_log.waiting"
	// The log is being made for records that were there before it.
	LedgerLogBackFilling = "ledger_log.back_filling"
	// The log covers every record.
	LedgerLogBackFilled = "ledger_log.back_filled"
	// CHECKPOINTS does not take checkpoints. Without it a replaced ledger is not noticed.
	LedgerLogNoCheckpointOnStream = "ledger_log.no_checkpoint_on_stream"
	// A checkpoint could not be published. The next one is tried.
	LedgerLogNotPublished = "ledger_log.not_published"
	// A request for the log could not be answered.
	LedgerLogNotServed = "ledger_log.not_served"
	// A time stamping authority did not stamp a checkpoint. It is asked again.
	LedgerLogNotTimestamped = "ledger_log.not_timestamped"
	// A witness did not sign a checkpoint. It is asked again.
	LedgerLogWitness = "ledger_log.witness"
	// LEDGER begins later than what ClickHouse has ends: records in between are lost to
	// ClickHouse. The ledger says so as `ledger.gap`.
	LedgerStreamBeginsLate = "ledger_stream.begins_late"
)
