package control

// What a list is as JSON, over HTTP and on the command line alike: an object,
// so that something can be added to it.

// EndpointList is one page of endpoints, the oldest first.
type EndpointList struct {
	Endpoints []Endpoint `json:"endpoints"`
	Next      string     `json:"next,omitempty"` // cursor of the next page
}

// EventTypeList is everything that is set, in the order in which patterns win.
type EventTypeList struct {
	EventTypes []EventType `json:"event_types"`
}

// ChannelList is every channel.
type ChannelList struct {
	Channels []Channel `json:"channels"`
}

// EscalationPolicyList holds a warning where nobody would be told of a dead letter.
type EscalationPolicyList struct {
	Policies []EscalationPolicy `json:"escalation_policies"`
	Warning  string             `json:"warning,omitempty"`
}

// EscalationList is incidents, the latest first.
type EscalationList struct {
	Escalations []Escalation `json:"escalations"`
}

// DeliveryDetailList is the deliveries of one event with their attempts: a
// DeliveryPage that says more of each.
type DeliveryDetailList struct {
	Deliveries []DeliveryDetails `json:"deliveries"`
}
