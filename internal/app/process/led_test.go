package process

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What was asked while nobody led is never answered. It is asked again, and not
// taken for the end of the time that a start has.
func TestAStartAsksAgainWhatNobodyAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const elected = 12 * time.Second
		began, asked := time.Now(), 0
		err := WaitForJetStream(t.Context(), 30*time.Second, func(ctx context.Context) error {
			asked++
			if time.Since(began) < elected {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		if took := time.Since(began); err != nil || asked < 2 || took > 25*time.Second {
			t.Errorf("after %s, asked %d times: %v", took, asked, err)
		}
	})
}

// Nobody waits for what an election does not mend, nor for ever.
func TestAStartEndsOnceWaitingDoesNotHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, broken := time.Now(), errors.New("the streams are not as this version needs them")
		err := WaitForJetStream(t.Context(), 30*time.Second, func(context.Context) error { return broken })
		if !errors.Is(err, broken) || time.Since(began) > 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		err = WaitForJetStream(t.Context(), 30*time.Second, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took < 30*time.Second ||
			took > time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
