package watchdog

// Meaning explains a code.
type Meaning struct {
	Code  Code
	Means string
}

// Codes are all codes, in the order of the documents.
func Codes() []Meaning {
	return []Meaning{
		{PastDeadline, "a delivery has no verdict though its attempts should have ended"},
		{DeliveryOverdue, "a delivery without deadline waits for an attempt that is long due"},
		{NotEscalated, "nobody was told of a dead letter in time"},
		{ConsumerStalled, "a stage's consumer has something to do and does nothing"},
		{ConsumerMissing, "a stage's consumer is not there"},
		{SinkBehind, "ClickHouse lacks records that are old"},
		{LedgerFilling, "LEDGER is nearly full"},
		{ClaimsForgotten, "CLAIMS forgets claims before their day, for want of room"},
		{MessagesMissing, "messages within EVENTS or LEDGER are gone"},
		{MessagesRemoved, "messages of EVENTS or LEDGER were removed before their time"},
		{StreamRewound, "EVENTS or LEDGER ends before where it was seen to end"},
		{StreamsDrifted, "a stream, bucket or consumer is not as this version needs it"},
		{EscalatorAbsent, "no escalator runs"},
		{NobodyToTell, "no escalation policy names anybody"},
		{RegistryUnread, "the endpoints cannot be read"},
		{ClockJumped, "this machine's clock jumped"},
		{ClockOffset, "this machine's clock and the NATS server's differ"},
		{NATSUnreachable, "the NATS server does not answer"},
		{WatchdogBehind, "the watchdog does not keep up with LEDGER"},
		{StreamLeaderless, "nobody leads a stream: nothing is stored in it or taken from it"},
		{ReplicaGone, "a NATS server's copies of the streams could not take over"},
		{NotAnswering, "something that was asked does not answer"},
		{EntryUnreadable, "entries of the registry hold what is no revision"},
		{WeakSync, "the NATS server can lose acknowledged messages in a power cut"},
	}
}
