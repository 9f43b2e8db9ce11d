package control

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/registry"
)

// plain are the settings whose value is kept and shown as it was given.
var plain = registry.SettingNames(func(s registry.Setting) bool { return !s.Own })

// FixedSettings never change: a change that names one is refused. A secret has
// a rotation.
var FixedSettings = append(registry.SettingNames(func(s registry.Setting) bool { return s.Fixed }), "tenant", "secret")

// NullableSettings are removed by null in a change.
var NullableSettings = registry.SettingNames(func(s registry.Setting) bool { return s.Nullable })

// Where a setting is in each struct that has it, by its name in JSON.
var (
	inSpec     = places(reflect.TypeFor[EndpointSpec]())
	inShown    = places(reflect.TypeFor[Endpoint]())
	inRegistry = places(reflect.TypeFor[registry.Endpoint]())
)

func places(t reflect.Type) map[string][]int {
	out := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			out[name] = f.Index
		}
	}
	return out
}

// place is where a struct has the setting. It panics for a name that it has
// not: the table and the structs are the program's own.
func place(of any, name string) reflect.Value {
	known := inRegistry
	switch of.(type) {
	case *EndpointSpec:
		known = inSpec
	case *Endpoint:
		known = inShown
	}
	index, ok := known[name]
	if !ok {
		panic(fmt.Sprintf("control: %T has no setting %s", of, name))
	}
	return reflect.ValueOf(of).Elem().FieldByIndex(index)
}

// copySettings copies the settings of these names, from one struct that has
// them to another. A nil pointer leaves a value as it is.
func copySettings(from, to any, names []string) {
	for _, name := range names {
		value, target := place(from, name), place(to, name)
		if value.Kind() == reflect.Pointer && target.Kind() != reflect.Pointer {
			if value.IsNil() {
				continue
			}
			value = value.Elem()
		}
		target.Set(value.Convert(target.Type()))
	}
}

// withDefaults sets what a spec leaves out.
func withDefaults(s EndpointSpec) EndpointSpec {
	if s.Tenant == "" {
		s.Tenant = DefaultTenant
	}
	for _, setting := range registry.Settings() {
		if setting.Default == nil {
			continue
		}
		at := place(&s, setting.Name)
		if !at.IsZero() {
			continue
		}
		if at.Kind() == reflect.Pointer {
			at.Set(reflect.New(at.Type().Elem()))
			at = at.Elem()
		}
		at.Set(reflect.ValueOf(setting.Default).Convert(at.Type()))
	}
	return s
}

// DefaultSpec is the spec of an endpoint of which nothing is said.
func DefaultSpec() EndpointSpec { return withDefaults(EndpointSpec{}) }

// Setting points to a setting, so that a flag can set it.
func (s *EndpointSpec) Setting(name string) any { return pointer(place(s, name)) }

// Setting points to a setting, so that it can be shown.
func (e *Endpoint) Setting(name string) any { return pointer(place(e, name)) }

func pointer(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		return v.Interface()
	}
	return v.Addr().Interface()
}

// Early says what is wrong with a setting without asking anybody.
func (s *EndpointSpec) Early(setting registry.Setting) error {
	var e registry.Endpoint
	copySettings(s, &e, []string{setting.Name})
	return setting.Early(&e)
}

// EndpointPatch changes an endpoint: what it names becomes what the spec says.
// A setting that is removed by null is named, and nil in the spec.
type EndpointPatch struct {
	EndpointSpec
	Named []string
}

// Patch is the change to a spec of the settings of these names.
func Patch(s EndpointSpec, names ...string) EndpointPatch { return EndpointPatch{s, names} }

// Empty says that the patch changes nothing.
func (p EndpointPatch) Empty() bool { return len(p.Named) == 0 }

func (p EndpointPatch) names(setting string) bool { return slices.Contains(p.Named, setting) }

func (p EndpointPatch) apply(e *registry.Endpoint) {
	for _, name := range plain {
		if p.names(name) {
			copySettings(&p.EndpointSpec, e, []string{name})
		}
	}
	if p.names("ca") {
		e.CA = p.CA
	}
}
