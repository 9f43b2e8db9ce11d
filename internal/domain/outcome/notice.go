package outcome

// What became of one try to tell people, besides Delivered, Timeout and
// AddressBlocked.
const (
	Rejected      Outcome = "rejected"
	Busy          Outcome = "busy"
	Unreachable   Outcome = "unreachable"
	TLSFailed     Outcome = "tls_failed"
	Misconfigured Outcome = "misconfigured"
	NobodyTold    Outcome = "nobody_told"
	Expired       Outcome = "expired"
	HandedOver    Outcome = "handed_over"
)

var notices = []said[Outcome]{
	{Rejected, "the channel did not take the message"},
	{Busy, "the channel asked to be tried later"},
	{Unreachable, "the channel could not be reached"},
	{TLSFailed, "no secure connection to the channel could be made"},
	{Misconfigured, "the channel has to be changed before it can work"},
	{NobodyTold, "there is nobody to tell"},
	{Expired, "the incident's longest time was over first"},
	{HandedOver, "the watchdog asked the escalator to tell them"},
}
