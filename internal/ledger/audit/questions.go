package audit

// Questions are those that an auditor asks, in the order of the report.
func Questions() []Question {
	return []Question{
		{
			Name: "attempts", View: "audit_attempts",
			Asked: "For event X, show every attempt with timestamps and responses.",
			Proves: []string{
				"Each request that Waybill put on record, with its number, its time, what came back and what was decided.",
				"Numbers run 1, 2, 3 … within a delivery. A number that is not on record is shown as missing; one whose process " +
					"died is shown as unknown.",
			},
			CannotProve: []string{
				"What the receiver did with a request. An answer of 2xx is the receiver's word that it took the event.",
				"Whether a request whose outcome is unknown arrived. Only the receiver can say.",
				"That the ledger itself was not changed: that is what ledger verify is for.",
			},
		},
		{
			Name: "duplicates", View: "audit_duplicates",
			Asked: "Show that duplicates could not cause duplicate action.",
			Proves: []string{
				"The id comes from the event as it was stored, before any attempt; every attempt, retry and replay to every " +
					"endpoint carries that same id.",
				"Each request after the first has its reason on record: the outcome before it, or a replay with the name of who " +
					"asked and why.",
				"An id belongs to one event of its tenant for as long as EVENTS holds that event. The same event published " +
					"again becomes no further delivery; another one under the id is rejected on record.",
			},
			CannotProve: []string{
				"That the receiver deduplicates on the id. A conformance check on record shows that it did on that day.",
				"That the producer gave one id to one fact, and assigned it in the transaction of the change itself.",
				"That a request whose outcome is unknown was not acted on. It is counted as one that may have arrived.",
			},
		},
		{
			Name: "failures", View: "audit_failures",
			Asked: "Show what happened when delivery failed.",
			Proves: []string{
				"Each dead letter has a reason code, the time it was given up, when a channel first took the message for a " +
					"human, and who took it on.",
				"How long that took is from the dead letter's record to the record of the message that a channel accepted.",
			},
			CannotProve: []string{
				"That a human read the message. A channel that accepted it is all that can be seen; an acknowledgement is by a " +
					"named person.",
				"That what a person did next was right, or was done at all.",
			},
		},
		{
			Name: "integrity", View: "audit_integrity",
			Asked: "Show that payloads were not altered.",
			Proves: []string{
				"The digest on record is the SHA-256 of the exact bytes that were signed for the attempt, and sent if there was " +
					"a connection.",
				"The data is the same on every attempt: its digest is on record once, with event.accepted. The digests of two " +
					"attempts differ because the body holds deliveryAttempt; two endpoints' attempts of one number have the same " +
					"digest.",
				"A payload from an archive whose digest is the one on record is, byte for byte, what was sent.",
			},
			CannotProve: []string{
				"What the receiver stored. Compare the receiver's copy with --payload.",
				"The digest of an attempt whose outcome is unknown: the process that knew it died.",
				"That the producer's data was right when it was published.",
			},
		},
		{
			Name: "controls", View: "audit_controls",
			Asked: "Show that the controls you documented were actually operating.",
			Proves: []string{
				"What ran on each day: events, attempts, people told, tests of channels, alarms, checkpoints, changes of the " +
					"configuration with who made them.",
				"A gap in LEDGER is a record of its own, and is counted on its day.",
			},
			CannotProve: []string{
				"That the watchdog ran on a day without alarms: a watchdog that has nothing to say leaves no record.",
				"That the documents describe these controls, or that they are enough.",
				"Changes made around Waybill, in NATS or ClickHouse themselves.",
			},
		},
		{
			Name: "completeness", View: "audit_completeness",
			Asked: "Show that nothing owed is unaccounted for.",
			Proves: []string{
				"Every delivery that an accepted event lists is delivered, dead-lettered, cancelled or pending, and each one " +
					"that is not is named.",
				"Events that matched nobody or were rejected are on record and counted.",
				"A delivery that began in a month whose records were retired, as the ledger itself has it, and went on in a " +
					"later one is told apart.",
				"Where NATS is asked too: each event on record is in EVENTS with that tenant, id and data, and each attempt was " +
					"claimed in CLAIMS, as far back as these go.",
			},
			CannotProve: []string{
				"That a producer published everything. Compare its own count with accepted, unmatched and rejected.",
				"Who stated a record. Whoever may publish to NATS can state one; EVENTS and CLAIMS show those that are of no " +
					"event or claim, unless these were forged too.",
				"That all records of an event were not removed together: then nothing is left to miss them. ledger verify finds " +
					"that; so does --nats-url while LEDGER still holds them.",
			},
		},
	}
}

func questionOf(name string) Question {
	for _, q := range Questions() {
		if q.Name == name {
			return q
		}
	}
	return Question{Name: name}
}
