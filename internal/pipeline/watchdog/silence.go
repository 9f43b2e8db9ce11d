package watchdog

import (
	"fmt"

	"github.com/waybill-dev/waybill/internal/platform/text"
)

// Replica is one server's copy of a stream or consumer, as its leader sees it.
type Replica struct {
	Of     string // the stream, or stream/consumer
	Server string
	Gone   string // why it could not take over; "": it could
	Level  bool
	Lag    uint64 // operations that it lacks
}

// lagBound is what a replica may lack while it works: at the highest rate that
// was measured, less than a second's worth.
const lagBound = 50_000

// judgeSilence says what did not answer. Pure.
func judgeSilence(s Snapshot) (out []Finding) {
	for _, q := range s.Silent {
		f := Finding{NotAnswering, Wrong, q.What, "it does not answer: " + q.Err.Error(),
			"see that every NATS server runs, and their logs: docs/operations.md, A stream has no leader"}
		if q.Leaderless && q.Stream != "" {
			f.Code = StreamLeaderless
			f.Detail = "nothing is stored in it or taken from it: " + q.Err.Error()
			f.Next = "see that most of the NATS servers that hold it run; if they do and it stays: docs/operations.md, A " +
				"stream has no leader"
		}
		out = append(out, f)
	}
	return out
}

// judgeReplicas says which copies could not take over. One finding for each
// server: what is wrong is a server, seldom a stream. Pure.
func judgeReplicas(s Snapshot) (out []Finding) {
	type problem struct {
		replica Replica
		streams int
	}
	byServer := map[string]*problem{}
	var order []string
	for _, r := range s.Replicas {
		if r.Gone == "" && (r.Level || r.Lag < lagBound) {
			continue
		}
		t := byServer[r.Server]
		if t == nil {
			t = &problem{replica: r}
			byServer[r.Server] = t
			order = append(order, r.Server)
		}
		t.streams++
	}
	for _, server := range order {
		t := byServer[server]
		r := t.replica
		what := r.Gone
		if what == "" {
			what = fmt.Sprintf("it is behind by %d operations of %s", r.Lag, r.Of)
		}
		out = append(out, Finding{ReplicaGone, Wrong, server,
			fmt.Sprintf("%s: %d of its copies of streams and consumers could not take over", what, t.streams),
			"see that this NATS server runs, that its disk has room, and that its JetStream is on (its log; /healthz of its " +
				"monitoring); restart it"})
	}
	return out
}

// judgeEntries says which entries of the registry hold what cannot be read. Pure.
func judgeEntries(s Snapshot) []Finding {
	if len(s.Unreadable) == 0 {
		return nil
	}
	return []Finding{{EntryUnreadable, Wrong, s.Unreadable[0],
		text.Count(len(s.Unreadable), "entry of the registry holds", "entries of the registry hold") +
			" as the newest revision what is none; the revision before it stands, where there is one",
		"somebody else writes there: check who may publish to $KV.>; the next change of each mends it: waybill endpoint " +
			"update, event-type set, channel update or escalation-policy update"}}
}
