package main

import "time"

// scenarios of a run, about thirteen minutes at scale 1 on two cores.
func scenarios(scale float64) []scenario {
	n := func(events int) int { return max(int(float64(events)*scale), 50) }
	healthy := func(n int) group { return group{Path: "ok", N: n, Watch: true} }
	quick := map[string]any{"policy": map[string]any{"delays": []string{"100ms", "200ms", "400ms", "800ms", "1s", "1s",
		"1s"}}}
	half := 120.0 // events a second to ten endpoints: about half of what two cores take
	return []scenario{
		{Name: "fanout10", What: "fan-out 10, flat out", Sync: "1s", Groups: []group{healthy(10)}, Events: n(3000),
			Wait: 2 * time.Minute},
		{Name: "fanout1", What: "fan-out 1, flat out", Sync: "1s", Groups: []group{healthy(1)}, Events: n(15000),
			Wait: 2 * time.Minute},
		{Name: "fanout10-always", What: "fan-out 10, flat out, safe from a power cut", Sync: "always",
			Groups: []group{healthy(10)},
			Events: n(2000), Wait: 2 * time.Minute},
		{Name: "latency", What: "50 events a second", Sync: "1s", Groups: []group{healthy(1)}, Events: n(500), Rate: 50,
			Wait: time.Minute},
		{Name: "latency-always", What: "50 events a second, safe from a power cut", Sync: "always",
			Groups: []group{healthy(1)},
			Events: n(500), Rate: 50, Wait: time.Minute},
		{Name: "posts1-always", What: "64 clients post one event at a time, fan-out 1, safe from a power cut", Sync: "always",
			Groups: []group{healthy(1)}, Events: n(5000), Clients: 64, Wait: 2 * time.Minute},
		{Name: "posts1", What: "the same, at most a second lost in a power cut", Sync: "1s",
			Groups: []group{healthy(1)}, Events: n(5000), Clients: 64, Wait: 2 * time.Minute},
		{Name: "posts10-always", What: "64 clients post one event at a time, fan-out 10, safe from a power cut",
			Sync:   "always",
			Groups: []group{healthy(10)}, Events: n(1500), Clients: 64, Wait: 2 * time.Minute},
		{Name: "posts10", What: "the same, at most a second lost in a power cut", Sync: "1s",
			Groups: []group{healthy(10)}, Events: n(1500), Clients: 64, Wait: 2 * time.Minute},
		{Name: "failures", What: "one request in five fails, retried in 100 ms to 1 s", Sync: "1s",
			Groups: []group{{Path: "fail/20", N: 10, Watch: true, Spec: quick}}, Events: n(1500), Wait: 2 * time.Minute},
		{Name: "half", What: "ten endpoints at half of full load", Sync: "1s",
			Groups: []group{healthy(9), {Path: "ok", N: 1}},
			Events: n(1200), Rate: half, Wait: time.Minute},
		{Name: "hanging", What: "the same, one of the ten never answers", Sync: "1s", Baseline: "half",
			Groups: []group{healthy(9), {Path: "hang", N: 1}}, Events: n(1200), Rate: half, Wait: time.Minute},
		{Name: "flooded", What: "the same, one of the ten gets 20,000 more at once", Sync: "1s", Baseline: "half",
			Groups: []group{healthy(9), {Path: "ok", N: 1, Spec: map[string]any{"types": []string{loadType, floodType}}}},
			Events: n(1200), Rate: half, Flood: n(20000), Wait: time.Minute},
		{Name: "thousand", What: "1,000 endpoints, an event to each, flat out", Sync: "1s", Groups: []group{healthy(1000)},
			Events: n(25),
			Wait:   2 * time.Minute},
		{Name: "thousand-dead", What: "the same, 100 of them are down", Sync: "1s", Baseline: "thousand",
			Groups: []group{healthy(900), {Path: "down", N: 100}}, Events: n(25), Wait: 2 * time.Minute},
		{Name: "retry", What: "50 events a second fail once and are due again after 5 s, beside full load", Sync: "1s",
			Groups: []group{healthy(10), {Path: "first", N: 1, Spec: failing("5s", 0)}}, Events: n(4000), FloodRate: 50,
			Wait: 2 * time.Minute},
		{Name: "waiting", What: "200,000 deliveries wait for a retry, then fresh events at 50/s, then all become due " +
			"within 40 s", Sync: "1s",
			Baseline: "latency", Groups: []group{healthy(1), {Path: "first", N: 100, Spec: failing("120s", 0.33)}},
			Events: n(500), Rate: 50, Pile: n(200000), Wait: 2 * time.Minute},
		{Name: "catch-up", What: "ClickHouse stands still during the load, then the sink catches up", Sync: "1s",
			Groups: []group{healthy(10)}, Events: n(8000), Outage: outageClickHouse, Wait: 2 * time.Minute},
		{Name: "kill", What: "200 events at once to ten endpoints, kill -9 of everything when they are stored, and a start",
			Sync:   "1s",
			Groups: []group{healthy(10)}, Events: n(200), Outage: outageKill, Wait: time.Minute},
	}
}

// failing endpoints get the flood and are asked again after a delay.
func failing(delay string, stretch float64) map[string]any {
	return map[string]any{"types": []string{floodType},
		"policy": map[string]any{"delays": []string{delay, delay, delay}, "stretch": stretch}}
}
