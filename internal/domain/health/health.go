// Package health is what a look at a running deployment says: one check is one line.
package health

// State of a check.
type State string

// The states.
const (
	OK     State = "ok"
	Warned State = "warning"
	Wrong  State = "wrong"
)

// Check is one line of what doctor says.
type Check struct {
	Name   string `json:"check"`
	State  State  `json:"state"`
	Code   string `json:"code,omitempty"` // of the finding, see docs/watchdog.md
	Detail string `json:"detail"`
	Next   string `json:"next,omitempty"` // what to do
}

// NotAnswering is the code where something that was asked does not answer.
const NotAnswering = "not_answering"
