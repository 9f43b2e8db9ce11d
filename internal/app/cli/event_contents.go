package cli

import (
	"fmt"
	"strconv"

	"github.com/waybill-dev/waybill/internal/operator/control"
)

// printContents shows what came in under an id when it was more than one event.
func printContents(s stdio, out format, e control.EventDetails) error {
	if len(e.Contents) == 0 {
		return nil
	}
	title := "More than one event came in under this id. One stands; the others were rejected:"
	if e.Contradicts() {
		title = "DIFFERENT EVENTS STAND UNDER THIS ID. Receivers may know either, by what came to be owed:"
	}
	if _, err := fmt.Fprintf(s.out, "\n%s\n", title); err != nil {
		return err
	}
	t := table{header: []string{"POSITION", "STORED", "STATE", "TYPE", "DATA SHA-256", "DELIVERIES"}, flow: true}
	for _, c := range e.Contents {
		t.add(strconv.FormatUint(c.Seq, 10), moment(c.StoredAt), spaced(c.State, c.Reason), c.Type, c.DataDigest,
			strconv.Itoa(c.Deliveries))
	}
	return t.show(s, out, "")
}
