package cli

import (
	"context"
	"errors"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// withControl runs do against the deployment.
func (t *target) withControl(ctx context.Context, do func(context.Context, *control.Control) error) error {
	at, err := t.find()
	if err != nil {
		return err
	}
	policy, err := egress.ParseAllow(at.egressAllow)
	if err != nil {
		return process.Usagef("--egress-allow: %w", err)
	}
	if policy, err = policy.WithNAT64(at.nat64); err != nil {
		return process.Usagef("--nat64-prefix: %w", err)
	}
	proxy, err := t.proxy.Parse(policy)
	if err != nil {
		return err
	}
	roots, err := process.RootCAs("ca-file", t.caFile)
	if err != nil {
		return &process.UsageError{Err: err}
	}
	keys, err := t.keys(at)
	if err != nil {
		return err
	}
	words, err := t.redaction.Load()
	if err != nil {
		return err
	}
	nc, _, err := t.connectNATS(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	o := control.Options{NC: nc, Egress: policy, Proxy: proxy, ProxyNames: t.proxy.Names, Keys: keys, RootCAs: roots,
		Redact: words}
	if at.clickhouse != "" {
		l, closeLedger, err := openLedger(at.clickhouse)
		if err != nil {
			return err
		}
		defer closeLedger()
		o.Ledger = l
	}
	c, err := control.New(ctx, o)
	if err != nil {
		return err
	}
	return explain(do(ctx, c))
}

// keys are those of the flag or the environment, else those of the running
// waybill up. None is no error: not every change seals something.
func (t *target) keys(at found) (*sealed.Keyring, error) {
	if !t.needsKeys {
		return nil, nil
	}
	keys, err := process.LoadKeys(t.secretsKeyFile)
	if err != nil || keys != nil || at.secretsKeyFile == "" {
		return keys, err
	}
	return sealed.Open(at.secretsKeyFile)
}

// explain turns what control refuses as wrong input into wrong use.
func explain(err error) error {
	var e *control.Error
	if errors.As(err, &e) && (e.Code == control.CodeInvalid || e.Code == control.CodeTooLarge) {
		return &process.UsageError{Err: err}
	}
	return err
}

// bindActor adds --actor: who goes on record.
func bindActor(f *pflag.FlagSet, actor *string) {
	f.StringVar(actor, "actor", "", "who does this, for the record (default: you, as user@host)")
}

func actorOr(actor string) string {
	if actor != "" {
		return actor
	}
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	return first(name, "unknown") + "@" + host
}

func checkEndpointID(id string) error {
	if !ids.Valid(ids.Endpoint, id) {
		return process.Usagef("%q is no endpoint id (%s and 26 characters); see: waybill endpoint list", id, ids.Endpoint)
	}
	return nil
}

func checkEventID(id string) error {
	if err := envelope.ValidateID(id); err != nil {
		return process.Usagef("event %w; give the id that the event was published with", err)
	}
	return nil
}

func checkTenant(tenant string) error {
	if tenant == "" {
		return nil
	}
	if err := envelope.ValidateTenant(tenant); err != nil {
		return process.Usagef("--tenant: %w", err)
	}
	return nil
}

// missing says which required flag was not given.
func missing(flag, example string) error {
	return process.Usagef("--%s is missing; for example: --%s %s", flag, flag, example)
}

// readValue takes a flag's value, or with @FILE what the file holds.
func readValue(flag, value string) (string, error) {
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return value, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", process.Usagef("--%s: %w; name a file that can be read, or give the value itself", flag, err)
	}
	return strings.TrimSpace(string(b)), nil
}
