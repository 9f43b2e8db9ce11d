package record_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

func TestARetirementIsReadAsItWasWritten(t *testing.T) {
	want := record.Retirement{ID: "ret_1", Month: 201501, Parts: 2, Part: 1,
		Ranges: []record.IdxRange{{First: 0, Last: 9}, {First: 12, Last: 12}}}
	got, err := record.ReadRetirement(want.Settings())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	if d := want.Detail(); d != "11 records of 2015-01, with idx from 0 to 12, are dropped (part 1 of 2); their hashes "+
		"stay" {
		t.Error(d)
	}
	kept := record.Retirement{ID: "ret_1", Month: 201501}
	if record.TakenBack(kept.Settings()) != "ret_1" || !strings.Contains(kept.Detail(), "taken back") {
		t.Errorf("%v", kept.Settings())
	}
}

func TestWhatIsNoRetirementIsRefused(t *testing.T) {
	for _, name := range []string{"retirement", "month", "parts", "part", "ranges"} {
		for _, bad := range []string{"", "9-", "9-1", "x"} {
			s := record.Retirement{ID: "ret_1", Month: 201501, Parts: 1, Part: 1,
				Ranges: []record.IdxRange{{First: 0, Last: 9}}}.Settings()
			s[name] = bad
			if r, err := record.ReadRetirement(s); err == nil && (name != "retirement" || bad == "") {
				t.Errorf("%s %q: %+v", name, bad, r)
			}
		}
	}
}
