package watchdog

import (
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
)

// reachable counts the policies that name a channel which exists.
func reachable(policies []escalation.Policy, has func(string) bool) int {
	n := 0
	for _, p := range policies {
		for _, c := range p.ChannelNames() {
			if has(c) {
				n++
				break
			}
		}
	}
	return n
}

func channelExists(all []channel.Channel) func(string) bool {
	names := map[string]bool{}
	for _, c := range all {
		names[c.Name] = true
	}
	return func(name string) bool { return names[name] }
}
