package roles_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/roles"
)

// Who waits for a checkpoint, say, has more time than an analyst's question.
func TestAQuestionMayBeAskedWithMorePatienceThanItsUserHas(t *testing.T) {
	t.Parallel()
	d := deployWith(t, roles.EmbeddedXML("waybill", map[string]string{owner: "x"}), map[string]string{owner: "x"})
	db := mustNew(t, d.e.DSN("default", "waybill"))
	long, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if at, err := db.Last(long); err != nil || at.Next != 2 {
		t.Errorf("an analyst who is patient is refused: %v", err)
	}
	over, end := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer end()
	if _, err := db.Last(over); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
}
