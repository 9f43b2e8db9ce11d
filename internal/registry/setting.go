package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

// SharedSettings are stored, asked for and shown in one form. A new setting of
// an endpoint goes here, and into the table.
type SharedSettings struct {
	// MaxPerSecond limits the requests of all dispatchers together. 0: no limit.
	MaxPerSecond float64 `json:"max_per_second,omitempty"`
}

// Setting declares one setting of an endpoint. The API, the command line, the
// record of changes and the reference in docs/endpoints.md read it here.
type Setting struct {
	Name string // in JSON: of the API and of the registry
	// Flag is the one flag of a setting that the command line can read as it is.
	Flag Flag
	// Flags are those of a setting that the command line puts together.
	Flags []Flag
	Title string // its row in endpoint show
	Shown int    // the place of that row. 0: after the others
	// Meaning and Values are for the reference: what it does, and what it may be.
	Meaning, Values string
	Default         any    // absent: the zero value
	Since           string // the version that brought it

	Fixed    bool // it never changes
	Secret   bool // it is sealed, and never shown
	Own      bool // package control has code of its own for it
	Nullable bool // null in a change removes it

	// check looks at the value that is stored, early at one that the command line
	// was given, where that is less than check asks.
	check, early func(*Endpoint) error
	// record is what goes on record of a change. Empty: nothing.
	record func(*Endpoint) string
}

// Flag is a flag of waybill endpoint create and update.
type Flag struct {
	Name, Help string
	Env        string // its environment variable, where that is not made from the name
}

// Wrong is a value out of bounds.
type Wrong struct {
	Setting   string
	Got, Want string
}

func (w *Wrong) Error() string { return w.Setting + ": " + w.Got + "; want " + w.Want }

// Settings are those of an endpoint. Nobody may change the answer.
func Settings() []Setting { return settings }

var settings = slices.Concat(receiverSettings, signingSettings, deliverySettings, connectionSettings)

// SettingNames are those of the settings that match.
func SettingNames(match func(Setting) bool) []string {
	var out []string
	for _, s := range settings {
		if match(s) {
			out = append(out, s.Name)
		}
	}
	return out
}

// Early says what is wrong with the value in an endpoint that has nothing but
// what the command line was given.
func (s Setting) Early(e *Endpoint) error {
	if s.early != nil {
		return s.early(e)
	}
	if s.check != nil {
		return s.check(e)
	}
	return nil
}

// AllFlags are those that set it.
func (s Setting) AllFlags() []Flag {
	if s.Flag.Name != "" {
		return []Flag{s.Flag}
	}
	return s.Flags
}

// FlagHelp is what a flag says of itself. It panics for one that no setting has.
func FlagHelp(name string) string {
	for _, s := range settings {
		for _, f := range s.AllFlags() {
			if f.Name == name {
				return f.Help
			}
		}
	}
	panic("registry: no setting has the flag --" + name)
}

// firstWrong says which of the settings is wrong, the first one only.
func (e *Endpoint) firstWrong(of []Setting) error {
	for _, s := range of {
		if s.check == nil {
			continue
		}
		if err := s.check(e); err != nil {
			return err
		}
	}
	return nil
}

// bounded refuses what is not from low to high, but for the zero value where zero says what it means.
func bounded[T cmp.Ordered](name string, get func(*Endpoint) T, low, high T, zero string) func(*Endpoint) error {
	want := fmt.Sprintf("%v to %v", low, high)
	if zero != "" {
		want += ", or " + zero
	}
	return func(e *Endpoint) error {
		var none T
		v := get(e)
		if v >= low && v <= high || zero != "" && v == none {
			return nil
		}
		return &Wrong{name, fmt.Sprint(v), want}
	}
}

// notNegative is what the command line asks of a duration.
func notNegative[T cmp.Ordered](name string, get func(*Endpoint) T) func(*Endpoint) error {
	return func(e *Endpoint) error {
		var none T
		if v := get(e); v < none {
			return &Wrong{name, fmt.Sprint(v), "0s or more"}
		}
		return nil
	}
}

// Validate says which field is wrong, the first one only. Whether the URL may
// be called is for package egress to say.
func (e Endpoint) Validate() error {
	if err := envelope.ValidateTenant(e.Tenant); err != nil {
		return err
	}
	if err := e.firstWrong(receiverSettings); err != nil {
		return err
	}
	return errors.Join(e.validateSigning(), e.firstWrong(deliverySettings), e.validateCredentials())
}
