package cli_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/test/testkit"
)

// The two pages that list an endpoint's settings have what the table says.
func TestTheReferenceOfEndpointSettingsIsUpToDate(t *testing.T) {
	full, api := "| Setting | Flags | Meaning | May be | Default | Since |\n| --- | --- | --- | --- | --- | --- |\n",
		"| Field | Meaning | May be | Default |\n| --- | --- | --- | --- |\n"
	for _, s := range registry.Settings() {
		var flags []string
		for _, f := range s.AllFlags() {
			flags = append(flags, "`--"+f.Name+"`")
		}
		middle := fmt.Sprintf("%s | %s | %s |", meaning(s), s.Values, defaultText(s))
		api += fmt.Sprintf("| `%s` | %s\n", s.Name, middle)
		full += fmt.Sprintf("| `%s` | %s | %s %s |\n", s.Name, strings.Join(flags, ", "), middle, s.Since)
	}
	between(t, "docs/endpoints.md", full)
	between(t, "docs/api.md", api)
}

func meaning(s registry.Setting) string {
	text := s.Meaning
	for _, more := range []struct {
		holds bool
		text  string
	}{{s.Secret, "Kept encrypted"}, {s.Nullable, "`null` in a change removes it"}, {s.Fixed, "Cannot be changed"}} {
		if more.holds {
			text += ". " + more.text
		}
	}
	return text
}

func defaultText(s registry.Setting) string {
	if s.Default == nil {
		return ""
	}
	spec := control.DefaultSpec()
	if d, ok := spec.Setting(s.Name).(*control.Duration); ok {
		return "`" + d.String() + "`"
	}
	return fmt.Sprintf("`%v`", s.Default)
}

// between compares what stands between the marks of a page.
func between(t *testing.T, page, want string) {
	t.Helper()
	const from, to = "<!-- settings -->\n", "<!-- end of settings -->\n"
	path := testkit.Path(t, page)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), from)
	_, after, ended := strings.Cut(rest, to)
	if !found || !ended {
		t.Fatalf("%s: has no %q and %q", page, from, to)
	}
	golden(t, path, before+from+"\n"+want+"\n"+to+after)
}
