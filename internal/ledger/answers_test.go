package ledger_test

// answers are what the questions of docs/queries.md are answered with, by
// number, as tab-separated rows: the scenario of scenario_test.go and what
// analysts adds to it.
func answers() map[string]string {
	return map[string]string{
		"1": "2026-11-02\tacme\t7\t8\n" +
			"2026-11-02\tother\t0\t1",
		"2": "cancelled\t1\n" +
			"dead_lettered\t1\n" +
			"delivered\t4\n" +
			"pending\t3",
		"3": "ep_a\t1\t2026-11-02 12:00:03.500000000\t200\tdelivered\tdelivered\n" +
			"ep_b\t1\t2026-11-02 12:00:04.500000000\t503\tstatus_retryable\tretry\n" +
			"ep_b\t2\t2026-11-02 12:00:05.500000000\t0\tunknown\tretry\n" +
			"ep_b\t4\t2026-11-02 12:00:06.500000000\t200\tdelivered\tdelivered",
		"4": "ep_a\t4\t16\t33\t33\n" +
			"ep_b\t4\t22\t25\t25",
		"5": "ep_a\t3\t2\t7\n" +
			"ep_b\t1\t4\t4",
		"6": "ep_a\thttps://ep_a/in\t15.8\t33\n" +
			"ep_b\thttps://ep_b/in\t14.8\t25",
		"7": "acme\t8\t4\t4\n" +
			"other\t1\t0\t1",
		"8": "e3\tep_b\tpending\t2026-11-02 12:01:00.000000000\t\\N\n" +
			"e4\tep_b\tpending\t2026-11-02 12:01:00.000000000\t\\N\n" +
			"e5\tep_a\tcancelled\t2026-11-02 12:01:00.000000000\t\\N\n" +
			"e9\tep_b\tdead_lettered\t2026-11-02 12:01:00.000000000\t\\N",
		"9": "connection_refused\t0\t1\t1\n" +
			"status_retryable\t503\t1\t1\n" +
			"status_terminal\t422\t1\t1\n" +
			"timeout\t0\t1\t1\n" +
			"unknown\t0\t1\t1",
		"10": "attempts_exhausted\t1\t1\n" +
			"deadline_exceeded\t1\t1\n" +
			"endpoint_unreachable\t1\t1\n" +
			"permanently_rejected\t1\t1",
		"11": "ep_b\t1\t4\t0.8\n" +
			"ep_a\t3\t1\t0.25",
		"12": "1\t2\n" +
			"2\t1\n" +
			"3\t1",
		"13": "e3\tep_b\t1\ttimeout\t2026-11-02 13:00:22.000000000\n" +
			"e4\tep_b\t1\tconnection_refused\t2026-11-02 13:00:25.000000000",
		"14": "acme\te3\tep_b\t2026-11-02 12:00:18.000000000\t1\n" +
			"acme\te4\tep_b\t2026-11-02 12:00:24.000000000\t1\n" +
			"other\te1\tep_c\t2026-11-02 12:00:37.000000000\t0",
		"15": "e9\tep_b\tattempts_exhausted\t2026-11-02 12:00:41.000000000\t",
		"16": "e2\t2026-11-02 12:00:11.000000000\t2026-11-02 12:00:12.000000000\ttrue\tbob\tdelivered\n" +
			"e3\t2026-11-02 12:00:19.000000000\t\\N\tfalse\t\treplayed\n" +
			"e8\t2026-11-02 12:00:35.000000000\t\\N\tfalse\t\tdelivered before\n" +
			"e9\t2026-11-02 12:00:41.000000000\t\\N\tfalse\t\topen",
		"17": "\tdelivered\t1\t1",
		"18": "e2\tbob\t2",
		"19": "alice\treceiver mended\t1\t['delivered']\n" +
			"alice\ttry again\t1\t['pending']\n" +
			"carol\tdrill\t1\t['requested']",
		"20": "e2\tep_a\tdelivered\t1\t2026-11-02 12:00:16.000000000",
		"21": "2026-11-02 12:00:00.000000000\t1\tcreate\talice\t\n" +
			"2026-11-02 12:00:38.000000000\t2\tdisable\talice\t",
		"22": "2026-11-02 12:00:00.000000000\tendpoint.changed\tcreate\talice\tep_a\n" +
			"2026-11-02 12:00:38.000000000\tendpoint.changed\tdisable\talice\tep_a",
		"23": "acme\t8\t4\t1\t1\t2\t8\t0\t1\n" +
			"other\t1\t0\t0\t0\t1\t0\t0\t0",
		"24": "acme\te1\tep_b\t3\t1",
		"25": "e1\tep_b\t2\t2026-11-02 12:00:05.500000000",
		"26": "e6\torder.lost\tunmatched\t\t\n" +
			"e7\t\trejected\tinvalid_event\tevents.acme.x",
		"27": "ep_a\t1\tdigest-e1-1\n" +
			"ep_b\t1\tdigest-e1-1\n" +
			"ep_b\t4\tdigest-e1-4",
		"28": "ep_a\tkey_1\t3\t2026-11-02 12:00:03.500000000\t2026-11-02 12:00:15.500000000\n" +
			"ep_a\tkey_2\t1\t2026-11-02 12:00:32.500000000\t2026-11-02 12:00:32.500000000\n" +
			"ep_b\tkey_1\t2\t2026-11-02 12:00:04.500000000\t2026-11-02 12:00:06.500000000\n" +
			"ep_b\tkey_2\t2\t2026-11-02 12:00:21.500000000\t2026-11-02 12:00:24.500000000",
		"29": "42\t42\t0\t0",
		"30": "39\t2026-11-02 12:02:00.000000000\twaybill.example+1\t[]\n" +
			"20\t2026-11-02 12:01:00.000000000\twaybill.example+1\t['w1+2']",
		"31": "ep_a\temail\t2\n" +
			"ep_a\tcard\t1",
		"32": "records\t42\t1",
	}
}
