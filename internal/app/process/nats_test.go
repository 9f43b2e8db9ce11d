package process

import (
	"context"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestNoPasswordIsInAnErrorAboutNATS(t *testing.T) {
	for _, urls := range []string{"nats://jo:hunter2@127.0.0.1:1", "nats://hunter2@127.0.0.1:1",
		"nats://127.0.0.1:1, nats://a:hunter2@127.0.0.1:2", "nats://a:hunter2@%zz"} {
		_, err := ConnectNATS(context.Background(), urls, "test", "", 0, zerolog.Nop())
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", urls, err)
		}
	}
}
