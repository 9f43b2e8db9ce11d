package streams

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

//go:embed *.json consumers/*.json
var files embed.FS

// Options of Apply and Check.
type Options struct {
	// Replicas of every stream: 1, 3 or 5. 0 leaves what the server has
	// alone, and means 1 for a stream that is created.
	Replicas int
	// Partitions of DELIVERIES and RETRY, each with its own consumers. 0 means 1.
	Partitions int
}

func (o Options) partitions() int { return max(o.Partitions, 1) }

// Definition is one stream or consumer as its file gives it.
type Definition struct {
	// Stream is the stream's name; Consumer is empty for the stream itself.
	Stream, Consumer string
	// Config is the file's object: exactly the keys that are ours to decide.
	Config map[string]any
}

// Name is how a report calls the definition.
func (d Definition) Name() string {
	if d.Consumer == "" {
		return "stream " + d.Stream
	}
	return "consumer " + d.Stream + "/" + d.Consumer
}

// Definitions in the order in which Apply creates them: streams, then consumers.
func Definitions(o Options) ([]Definition, error) {
	out, err := streamDefinitions(o)
	if err != nil {
		return nil, err
	}
	names, err := files.ReadDir("consumers")
	if err != nil {
		return nil, err
	}
	for _, f := range names {
		config, err := readConfig(path.Join("consumers", f.Name()))
		if err != nil {
			return nil, err
		}
		stream, _, _ := strings.Cut(f.Name(), ".")
		out = append(out, expandPartitions(stream, config, o.partitions())...)
	}
	return out, nil
}

func streamDefinitions(o Options) ([]Definition, error) {
	names, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var out []Definition
	for _, f := range names {
		if f.IsDir() {
			continue
		}
		config, err := readConfig(f.Name())
		if err != nil {
			return nil, err
		}
		if o.Replicas > 0 {
			config["num_replicas"] = json.Number(fmt.Sprint(o.Replicas))
		}
		name, _ := config["name"].(string)
		out = append(out, Definition{Stream: name, Config: config})
	}
	return out, nil
}

// expandPartitions turns the definition for partition 0 into one for each.
func expandPartitions(stream string, config map[string]any, partitions int) []Definition {
	name, _ := config["durable_name"].(string)
	base, partitioned := strings.CutSuffix(name, "-0")
	if !partitioned {
		return []Definition{{Stream: stream, Consumer: name, Config: config}}
	}
	var out []Definition
	for p := range partitions {
		c := maps.Clone(config)
		c["durable_name"] = fmt.Sprintf("%s-%d", base, p)
		c["name"] = c["durable_name"]
		filter, _ := config["filter_subject"].(string)
		c["filter_subject"] = strings.Replace(filter, ".0.", fmt.Sprintf(".%d.", p), 1)
		out = append(out, Definition{Stream: stream, Consumer: c["durable_name"].(string), Config: c})
	}
	return out
}

func readConfig(name string) (map[string]any, error) {
	b, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	config := map[string]any{}
	if err := decodeNumbers(b, &config); err != nil {
		return nil, fmt.Errorf("streams/%s: %w", name, err)
	}
	return config, nil
}

// decodeNumbers keeps numbers as written: sizes above 2^53 stay exact.
func decodeNumbers(b []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return dec.Decode(into)
}

// Change is what Apply did, or what Drift found, for one definition.
type Change struct {
	Name   string `json:"name"`
	Action string `json:"action"` // "created", "updated", "unchanged"; of Drift: "missing", "drifted", "unchanged"
	// Differences, one line a key: "max_age: file 1, server 2".
	Differences []string `json:"differences,omitempty"`
	// Kept are limits that the operator has set, one line a key. They stay as they are.
	Kept []string `json:"kept,omitempty"`
}

// Apply creates what is missing and updates what differs. Keys that the files
// do not name are left as the server has them. It stops at the first failure
// and returns the changes made until then.
func Apply(ctx context.Context, js jetstream.JetStream, o Options) ([]Change, error) {
	return compare(ctx, js, o, "created", "updated",
		func(d Definition, missing bool) error { return put(ctx, js, d, missing) })
}

// Drift reports how the server differs from the files, and changes nothing.
func Drift(ctx context.Context, js jetstream.JetStream, o Options) ([]Change, error) {
	return compare(ctx, js, o, "missing", "drifted", func(Definition, bool) error { return nil })
}

// compare does what is to be done about each definition that the server does not have, or not so.
func compare(ctx context.Context, js jetstream.JetStream, o Options, absent, differs string,
	do func(d Definition, missing bool) error) ([]Change, error) {
	defs, err := Definitions(o)
	if err != nil {
		return nil, err
	}
	var out []Change
	for _, d := range defs {
		diff, kept, missing, err := differences(ctx, js, d, o)
		if err != nil {
			return out, err
		}
		c := Change{Name: d.Name(), Differences: diff, Kept: kept, Action: "unchanged"}
		if missing || len(diff) > 0 {
			if err := do(d, missing); err != nil {
				return out, fmt.Errorf("%s: %w", d.Name(), err)
			}
			c.Action = map[bool]string{true: absent, false: differs}[missing]
		}
		out = append(out, c)
	}
	return out, nil
}

// Check is what each stage does at start: an error names everything that is
// missing or differs, and the command that mends it.
func Check(ctx context.Context, js jetstream.JetStream, o Options) error {
	changes, err := Drift(ctx, js, o)
	if err != nil {
		return err
	}
	var wrong []string
	for _, c := range changes {
		switch c.Action {
		case "missing":
			wrong = append(wrong, c.Name+" is missing")
		case "drifted":
			wrong = append(wrong, c.Name+" differs ("+strings.Join(c.Differences, "; ")+")")
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the streams are not as this version needs them: %s; mend them with: waybill streams apply",
			strings.Join(wrong, ", "))
	}
	return nil
}

// differences compares only the keys of the file. A limit that the operator has
// set is no difference: it is kept.
func differences(ctx context.Context, js jetstream.JetStream, d Definition, o Options) (diff, kept []string,
	missing bool, err error) {
	have, err := serverConfig(ctx, js, d)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, nil, true, nil
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("%s: %w", d.Name(), err)
	}
	diff, kept = d.differences(have, o.Replicas > 0)
	return diff, kept, false, nil
}

func (d Definition) differences(have map[string]any, replicas bool) (diff, kept []string) {
	for _, key := range slices.Sorted(maps.Keys(d.Config)) {
		if key == "num_replicas" && !replicas {
			continue
		}
		want, got := d.Config[key], have[key]
		switch {
		case equal(want, got):
		case d.operators(key, got):
			kept = append(kept, fmt.Sprintf("%s: %s, set here; %s by default", key, limitText(key, number(got)),
				limitText(key, number(want))))
		default:
			diff = append(diff, fmt.Sprintf("%s: file %v, server %v", key, want, got))
		}
	}
	return diff, kept
}

// Differences of a jetstream.StreamConfig or ConsumerConfig that the server has
// from the definition, as Drift reports them.
func (d Definition) Differences(config any) []string {
	have, err := configMap(config)
	if err != nil {
		return []string{err.Error()}
	}
	diff, _ := d.differences(have, false)
	return diff
}

// equal takes an absent key for its zero: the server omits zeros.
func equal(want, got any) bool {
	if got == nil {
		switch w := want.(type) {
		case json.Number:
			return w == "0"
		case bool:
			return !w
		case string:
			return w == ""
		}
	}
	return reflect.DeepEqual(want, got)
}

func serverConfig(ctx context.Context, js jetstream.JetStream, d Definition) (map[string]any, error) {
	var config any
	s, err := js.Stream(ctx, d.Stream)
	if err != nil {
		return nil, err
	}
	if d.Consumer == "" {
		config = s.CachedInfo().Config
	} else {
		c, err := s.Consumer(ctx, d.Consumer)
		if err != nil {
			return nil, err
		}
		config = c.CachedInfo().Config
	}
	return configMap(config)
}

func configMap(config any) (map[string]any, error) {
	b, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, decodeNumbers(b, &out)
}

// put lays the file's keys over what the server has, so that a key that the
// file does not name keeps its value, and so does a limit of the operator's.
func put(ctx context.Context, js jetstream.JetStream, d Definition, missing bool) error {
	ours := maps.Clone(d.Config)
	if !missing {
		have, err := serverConfig(ctx, js, d)
		if err != nil {
			return err
		}
		for key, got := range have {
			if _, named := ours[key]; named && d.operators(key, got) {
				delete(ours, key)
			}
		}
	}
	b, err := json.Marshal(ours)
	if err != nil {
		return err
	}
	if d.Consumer != "" {
		return putConsumer(ctx, js, d, b, missing)
	}
	var config jetstream.StreamConfig
	if !missing {
		s, err := js.Stream(ctx, d.Stream)
		if err != nil {
			return err
		}
		config = s.CachedInfo().Config
	}
	if err := json.Unmarshal(b, &config); err != nil {
		return err
	}
	if missing {
		_, err = js.CreateStream(ctx, config)
	} else {
		_, err = js.UpdateStream(ctx, config)
	}
	return err
}

func putConsumer(ctx context.Context, js jetstream.JetStream, d Definition, b []byte, missing bool) error {
	var config jetstream.ConsumerConfig
	if !missing {
		c, err := js.Consumer(ctx, d.Stream, d.Consumer)
		if err != nil {
			return err
		}
		config = c.CachedInfo().Config
	}
	if err := json.Unmarshal(b, &config); err != nil {
		return err
	}
	_, err := js.CreateOrUpdateConsumer(ctx, d.Stream, config)
	return err
}
