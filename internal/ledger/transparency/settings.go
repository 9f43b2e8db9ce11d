package transparency

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
)

// Settings of a log as flags give them.
type Settings struct {
	KeyFile        string
	Every          time.Duration
	Witnesses      []string
	TimestampURL   string
	TimestampEvery time.Duration
}

// Bind adds the flags. without says what is the case without a key file.
func (s *Settings) Bind(f *pflag.FlagSet, without string) {
	f.StringVar(&s.KeyFile, "checkpoint-key", "", "file with the key that the ledger's checkpoints are signed with; "+
		"WAYBILL_CHECKPOINT_KEY may hold the key itself, or NEW,OLD ("+without+")")
	f.DurationVar(&s.Every, "checkpoint-every", DefaultEvery, "pause between checkpoints while records come")
	f.StringSliceVar(&s.Witnesses, "witness", nil, "witness that is asked to cosign checkpoints, URL=VERIFIER-KEY; "+
		"repeatable, comma-separated")
	f.StringVar(&s.TimestampURL, "timestamp-url", "",
		"time stamping authority (RFC 3161) that is asked to timestamp checkpoints (default: none)")
	f.DurationVar(&s.TimestampEvery, "timestamp-every", DefaultTimestampEvery, "pause between timestamps")
}

// Options checks the settings and opens the key file, if there is one. The
// caller fills in the rest.
func (s *Settings) Options() (o Options, err error) {
	if err := s.Check(); err != nil {
		return o, err
	}
	o = Options{Every: s.Every, TimestampURL: s.TimestampURL, TimestampEvery: s.TimestampEvery}
	for _, text := range s.Witnesses {
		w, err := ParseWitness(text)
		if err != nil {
			return o, err
		}
		o.Witnesses = append(o.Witnesses, w)
	}
	if s.KeyFile != "" {
		o.Keys, err = checkpoint.OpenKeys(s.KeyFile)
	}
	return o, err
}

// Check says what is wrong with the settings; it opens nothing.
func (s *Settings) Check() error {
	if s.Every != 0 && s.Every < 100*time.Millisecond || s.Every > 30*time.Second {
		return fmt.Errorf("--checkpoint-every %s: want 100ms to 30s", s.Every)
	}
	if s.TimestampEvery != 0 && s.TimestampEvery < time.Minute {
		return fmt.Errorf("--timestamp-every %s: want 1m or more", s.TimestampEvery)
	}
	seen := map[string]bool{}
	for _, text := range s.Witnesses {
		w, err := ParseWitness(text)
		if err != nil {
			return fmt.Errorf("--witness: %w", err)
		}
		if seen[w.Key.Name()] {
			return fmt.Errorf("--witness: %s is given twice; name each once", w.Key.Name())
		}
		seen[w.Key.Name()] = true
	}
	if s.TimestampURL != "" {
		if u, err := url.Parse(s.TimestampURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return errors.New("--timestamp-url: want a URL of http or https, such as https://tsa.example/tsr")
		}
	}
	return nil
}
