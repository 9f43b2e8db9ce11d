package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// ErrInUse is wrapped by Start's error when another engine holds the directory.
var ErrInUse = errors.New("the ClickHouse data directory is in use")

// lockPoll is how often a held lock is tried again.
const lockPoll = 50 * time.Millisecond

// lockDir takes the directory's lock. The file is passed on to every engine
// process, and the kernel releases the lock when the last holder is gone: an
// engine that outlives a killed parent keeps the directory until it ended.
func lockDir(ctx context.Context, l layout, wait time.Duration, log zerolog.Logger) (*os.File, error) {
	file, err := os.OpenFile(l.lock(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the engine's directory: %w", err)
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for first := true; ; first = false {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, noteHolder(file)
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = file.Close()
			return nil, fmt.Errorf("lock %s: %w (is it on a file system without locks?)", l.lock(), err)
		}
		if first {
			log.Warn().Str("dir", l.dir).Str("holder", holder(file)).Dur("limit", wait).
				Msg("waiting for another ClickHouse engine to leave the data directory")
		}
		select {
		case <-poll.C:
		case <-limit.C:
			defer file.Close()
			return nil, fmt.Errorf("%w: %s is held by %s after %v; stop that process or choose another directory with --data-dir", ErrInUse, l.dir, holder(file), wait)
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("waiting for %s, held by %s: %w", l.dir, holder(file), context.Cause(ctx))
		}
	}
}

// noteHolder writes who holds the lock, for the message others will show.
func noteHolder(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("note the lock's holder: %w", err)
	}
	if _, err := file.WriteAt(fmt.Appendf(nil, "the Waybill process %d or its engine\n", os.Getpid()), 0); err != nil {
		return fmt.Errorf("note the lock's holder: %w", err)
	}
	return nil
}

func holder(file *os.File) string {
	note, err := io.ReadAll(io.NewSectionReader(file, 0, 200))
	if err != nil || len(note) == 0 {
		return "an unknown process"
	}
	return strings.TrimSpace(string(note))
}
