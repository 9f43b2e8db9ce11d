package streams

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Partitions counts the partitions that the server has consumers for; 0 when
// there are none yet. Deliveries of a partition without a dispatcher would
// wait for ever, so whoever starts with fewer MUST be refused.
func Partitions(ctx context.Context, js jetstream.JetStream) (int, error) {
	s, err := js.Stream(ctx, Deliveries)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("stream %s: %w", Deliveries, err)
	}
	base, _ := strings.CutSuffix(DispatchConsumer(0), "0")
	most := 0
	names := s.ConsumerNames(ctx)
	for name := range names.Name() {
		rest, ok := strings.CutPrefix(name, base)
		if p, err := strconv.Atoi(rest); ok && err == nil {
			most = max(most, p+1)
		}
	}
	if err := names.Err(); err != nil {
		return 0, fmt.Errorf("consumers of %s: %w", Deliveries, err)
	}
	return most, nil
}

// ChoosePartitions settles how many partitions there are: as many as asked
// for, or when that is 0, as many as the server has, or one.
func ChoosePartitions(ctx context.Context, js jetstream.JetStream, asked int) (int, error) {
	have, err := Partitions(ctx, js)
	if err != nil {
		return 0, err
	}
	if asked == 0 {
		return max(have, 1), nil
	}
	if asked < have {
		return 0, fmt.Errorf("there are %d partitions, and deliveries may wait in each: --partitions %d would strand "+
			"them; give %d or more", have, asked, have)
	}
	return asked, nil
}
