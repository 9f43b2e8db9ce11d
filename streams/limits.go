package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The keys of a stream's configuration that bound what it keeps.
const (
	MaxBytes = "max_bytes" // bytes; -1 for no bound
	MaxAge   = "max_age"   // nanoseconds; 0 for no bound
)

// limits are the keys that the operator may set, by stream: how much disk and how
// long a past are theirs to give. The files hold what a new stream begins with.
// Once the server has another value, that one is kept: a limit that was raised
// while ClickHouse was away must not be taken back by the next start.
var limits = map[string][]string{
	Events:      {MaxBytes, MaxAge},
	Deliveries:  {MaxBytes},
	Retry:       {MaxBytes},
	Replays:     {MaxBytes},
	Escalations: {MaxBytes},
	Ledger:      {MaxBytes},
	Claims:      {MaxBytes},
	Checkpoints: {MaxBytes, MaxAge},
}

// formerDefaults are values that an earlier version's files had. A stream that
// has one was not set by its operator, so it follows the file of this version.
var formerDefaults = map[string]map[string][]string{}

// operators says whether got is a limit that the operator has set.
func (d Definition) operators(key string, got any) bool {
	if d.Consumer != "" || !slices.Contains(limits[d.Stream], key) {
		return false
	}
	return !slices.Contains(formerDefaults[d.Stream][key], fmt.Sprint(got))
}

// Limit is one of a stream's limits.
type Limit struct {
	Stream string `json:"stream"`
	Key    string `json:"key"` // MaxBytes or MaxAge
	// Value that holds, and the Default that a new stream begins with, in the key's
	// unit: bytes or nanoseconds; -1 or 0 for no bound.
	Value   int64 `json:"value"`
	Default int64 `json:"default"`
	// Own: the operator set it, and it is kept.
	Own bool `json:"own"`
	// Bytes that the stream holds now.
	Bytes uint64 `json:"bytes"`

	discardsOld bool // it makes room for what is new, rather than refuse it
}

// Text of a limit's value: "16 GiB", "30 days", "no bound".
func (l Limit) Text() string { return limitText(l.Key, l.Value) }

// DefaultText is the same for the default.
func (l Limit) DefaultText() string { return limitText(l.Key, l.Default) }

func limitText(key string, v int64) string {
	if v <= 0 {
		return "no bound"
	}
	if key == MaxAge {
		if d := time.Duration(v); d%(24*time.Hour) == 0 {
			return fmt.Sprintf("%d days", d/(24*time.Hour))
		}
		return time.Duration(v).String()
	}
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if v%unit.size == 0 {
			return fmt.Sprintf("%d %s", v/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", v)
}

// Limits reads every limit that the operator may set.
func Limits(ctx context.Context, js jetstream.JetStream) ([]Limit, error) {
	defs, err := streamDefinitions(Options{})
	if err != nil {
		return nil, err
	}
	var out []Limit
	for _, d := range defs {
		if len(limits[d.Stream]) == 0 {
			continue
		}
		s, err := js.Stream(ctx, d.Stream)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name(), err)
		}
		have, err := serverConfig(ctx, js, d)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name(), err)
		}
		for _, key := range limits[d.Stream] {
			l := Limit{Stream: d.Stream, Key: key, Value: number(have[key]), Default: number(d.Config[key]),
				Bytes: s.CachedInfo().State.Bytes, discardsOld: s.CachedInfo().Config.Discard == jetstream.DiscardOld}
			l.Own = l.Value != l.Default && d.operators(key, have[key])
			out = append(out, l)
		}
	}
	return out, nil
}

// number of a configuration's value; one that is absent is 0, as the server omits zeros.
func number(v any) int64 {
	n, _ := strconv.ParseInt(fmt.Sprint(v), 10, 64)
	return n
}

// LosesError refuses a limit that would delete what a stream holds.
type LosesError struct{ Limit Limit }

func (e *LosesError) Error() string {
	return fmt.Sprintf("stream %s holds %d bytes; with %s of %s it deletes the oldest of them at once", e.Limit.Stream,
		e.Limit.Bytes, e.Limit.Key, e.Limit.Text())
}

// SetLimit sets one limit, which Apply then keeps. value is in the key's unit.
// A limit that may delete what the stream holds is refused with a *LosesError,
// unless lose is true.
func SetLimit(ctx context.Context, js jetstream.JetStream, stream, key string, value int64, lose bool) (Limit, error) {
	if !slices.Contains(limits[stream], key) {
		return Limit{}, fmt.Errorf("stream %q has no limit %s that can be set; these can: %s", stream, key, settable())
	}
	all, err := Limits(ctx, js)
	if err != nil {
		return Limit{}, err
	}
	i := slices.IndexFunc(all, func(l Limit) bool { return l.Stream == stream && l.Key == key })
	before := all[i]
	next := before
	next.Value, next.Own = value, value != before.Default
	if before.loses(value) && !lose {
		return before, &LosesError{next}
	}
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return before, fmt.Errorf("stream %s: %w", stream, err)
	}
	config := s.CachedInfo().Config
	b, err := json.Marshal(map[string]int64{key: value})
	if err != nil {
		return before, err
	}
	if err := json.Unmarshal(b, &config); err != nil {
		return before, err
	}
	if _, err := js.UpdateStream(ctx, config); err != nil {
		return before, fmt.Errorf("stream %s: %s of %s: %w", stream, key, next.Text(), err)
	}
	return next, nil
}

// loses says whether another value would delete what the stream holds: a shorter
// age always may, a smaller size does where the stream makes room for what is new.
func (l Limit) loses(value int64) bool {
	bounded := value > 0
	if l.Key == MaxAge {
		return bounded && (l.Value <= 0 || value < l.Value) && l.Bytes > 0
	}
	return bounded && uint64(value) < l.Bytes && l.discardsOld
}

// settable lists what SetLimit takes.
func settable() string {
	var out []string
	for _, stream := range slices.Sorted(maps.Keys(limits)) {
		out = append(out, stream+" "+strings.Join(limits[stream], ", "))
	}
	return strings.Join(out, "; ")
}

// DefaultLimit is what a new stream begins with.
func DefaultLimit(stream, key string) (int64, error) {
	defs, err := streamDefinitions(Options{})
	if err != nil {
		return 0, err
	}
	for _, d := range defs {
		if d.Stream == stream && slices.Contains(limits[stream], key) {
			return number(d.Config[key]), nil
		}
	}
	return 0, errors.New("no such limit; these can be set: " + settable())
}
