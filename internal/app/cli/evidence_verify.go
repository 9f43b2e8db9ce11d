package cli

import (
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// keyFlags are the keys that somebody trusts.
type keyFlags struct {
	keys, witnesses []string
	roots           string
}

func (k *keyFlags) bind(f *pflag.FlagSet) {
	f.StringSliceVar(&k.keys, "key", nil, "verifier key of the ledger (NAME+HASH+BASE64), or a file of them; it MUST "+
		"come from somebody you trust, not with the file; repeatable, comma-separated")
	f.StringSliceVar(&k.witnesses, "witness-key", nil, "verifier key of a witness that must have signed too, or a file "+
		"of them; repeatable, comma-separated")
	f.StringVar(&k.roots, "timestamp-ca", "", "root certificates (PEM) of a time stamping authority (RFC 3161) that "+
		"must have stamped the checkpoint")
}

func (k *keyFlags) options() (o evidence.Options, err error) {
	if o.Keys, err = readKeys("key", k.keys); err != nil {
		return o, err
	}
	if o.Witnesses, err = readKeys("witness-key", k.witnesses); err != nil || k.roots == "" {
		return o, err
	}
	pem, err := os.ReadFile(k.roots)
	if err != nil {
		return o, process.Usagef("--timestamp-ca: %w; name a file of certificates (PEM)", err)
	}
	if o.Roots = x509.NewCertPool(); !o.Roots.AppendCertsFromPEM(pem) {
		return o, process.Usagef("--timestamp-ca: %s has no certificate; want PEM", k.roots)
	}
	return o, nil
}

// readKeys takes each value for a file if there is one of that name.
func readKeys(flag string, values []string) ([]evidence.Key, error) {
	var out []evidence.Key
	for _, v := range values {
		text, err := os.ReadFile(v)
		if err != nil && strings.Count(v, "+") < 2 {
			return nil, process.Usagef("--%s: %w; name a file that can be read, or give the verifier key itself, "+
				"NAME+HASH+BASE64", flag, err)
		}
		if err != nil {
			text = []byte(v)
		}
		keys, err := evidence.ParseKeys(string(text))
		if err != nil {
			return nil, process.Usagef("--%s: %w; see: waybill ledger key show", flag, err)
		}
		out = append(out, keys...)
	}
	return out, nil
}

func evidenceVerify(s stdio) *cobra.Command {
	var out format
	var keys keyFlags
	var payload string
	c := &cobra.Command{
		Use: "verify FILE", Short: "Check a file of evidence, with no network and no database",
		Long: `Check a file of evidence with nothing but the ledger's public key, and say in plain
words what it proves and what it does not. A file in which a single bit was changed
is rejected. --payload is the event's data, a whole event, or a request's body: it is
compared with the digests on record. A payload that is another one is said apart: the
file is proven all the same.

Exit status: 0 proven, 1 not proven, another payload or different events under the
one id, 2 wrong use.`,
		Example: `  waybill evidence verify order-17.evidence.json --key ledger.pub
  waybill evidence verify order-17.evidence.json --key ledger.pub --witness-key witness.pub --payload body.json -o json`,
		Args: process.OneArg("file", "waybill evidence verify order-17.evidence.json --key ledger.pub"),
	}
	out.bind(c.Flags())
	keys.bind(c.Flags())
	c.Flags().StringVar(&payload, "payload", "", "file with the event's data, the event, or a request's body, to "+
		"compare with the digests")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if len(keys.keys) == 0 {
			return process.Usagef("--key is missing: without a key that you trust nothing is proven; for example: --key "+
				"ledger.pub; to look at the file all the same: waybill evidence show %s", args[0])
		}
		o, err := keys.options()
		if err != nil {
			return err
		}
		if payload != "" {
			if o.Payload, err = readBounded(s.in, payload, 2*envelope.MaxEventBytes); err != nil {
				return err
			}
		}
		b, err := readBounded(s.in, args[0], evidence.MaxBytes)
		if err != nil {
			return err
		}
		r := evidence.Verify(b, o)
		if out == "json" {
			err = printJSON(s.out, r)
		} else {
			err = printReport(s.out, args[0], r)
		}
		if err == nil && !r.Proven {
			err = fmt.Errorf("%s is not proven: %s; ask for the file again, and for the key by another way", args[0],
				printable(first(r.Problems...)))
		}
		if err == nil {
			err = doubts(args[0], r)
		}
		if err == nil && r.Payload == evidence.PayloadDiffers {
			err = fmt.Errorf("%s is proven, and %s is not what was sent: %s; ask whoever gave you the payload for the bytes "+
				"as they were received", args[0], payload, r.PayloadProblem)
		}
		return err
	}
	return c
}

// reportWidth is that of a printed report's lines.
const reportWidth = 100

func printReport(w io.Writer, file string, r *evidence.Report) error {
	var f fields
	f.add("file", file+"  sha256 "+r.Digest)
	f.add("event", r.Subject.EventID)
	f.add("tenant", r.Subject.Tenant)
	f.add("endpoint", r.Subject.EndpointID)
	f.add("ledger", r.Origin)
	if r.Size > 0 {
		f.add("checkpoint", fmt.Sprintf("over %s, root %s", text.Count(r.Size, "record", "records"), r.Root))
	}
	f.add("signed by", r.SignedBy)
	f.add("verdict", verdict(r))
	if err := f.write(w); err != nil {
		return err
	}
	var b strings.Builder
	section(&b, "Wrong with it", r.Problems)
	section(&b, "CONTRADICTION on record", r.Contradictions)
	section(&b, "NOT VOUCHED FOR by EVENTS when the file was written", r.Findings)
	if r.Proven && r.PayloadProblem != "" {
		section(&b, "Wrong with the payload, not with the file", []string{r.PayloadProblem})
	}
	for i := 0; i < len(r.Claims); {
		about, texts := r.Claims[i].About, []string{}
		for ; i < len(r.Claims) && r.Claims[i].About == about; i++ {
			texts = append(texts, r.Claims[i].Text)
		}
		section(&b, "Proven of the "+aboutText(about), texts)
	}
	section(&b, "Not proven", r.NotProven)
	_, err := io.WriteString(w, b.String())
	return err
}

func aboutText(about string) string {
	if strings.HasPrefix(about, "ep_") {
		return "delivery to " + printable(about)
	}
	return printable(about)
}

// doubts is the error of a file that is as it was signed and MUST NOT be believed as
// it is: its records contradict each other, or EVENTS did not hold the event.
func doubts(file string, r *evidence.Report) error {
	switch {
	case len(r.Contradictions) > 0:
		return fmt.Errorf("%s shows different events under one id; compare what was sent with the digests: waybill event "+
			"show %s", file, printable(r.Subject.EventID))
	case len(r.Findings) > 0:
		return fmt.Errorf("%s is about an event that EVENTS did not vouch for: %s; look at the whole ledger: waybill audit "+
			"completeness", file, printable(r.Findings[0]))
	}
	return nil
}

func verdict(r *evidence.Report) string {
	switch {
	case r.Proven && len(r.Contradictions) > 0:
		return "PROVEN, and it CONTRADICTS ITSELF: different events stand under one id"
	case r.Proven && len(r.Findings) > 0:
		return "PROVEN to be on record, and EVENTS does NOT VOUCH for it"
	case r.Proven && r.Payload == evidence.PayloadDiffers:
		return "PROVEN: the file is as it was signed; the PAYLOAD given is NOT what was sent"
	case r.Proven:
		return "PROVEN"
	case len(r.Problems) > 0:
		return "REJECTED: nothing in this file may be relied on"
	}
	return "NOT VERIFIED: no key was given"
}

func section(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n" + title + "\n")
	for _, l := range lines {
		b.WriteString(wrapped("  - ", "    ", printable(l)))
	}
}

// wrapped breaks a text between words.
func wrapped(first, rest, text string) string {
	var b strings.Builder
	line, empty := first, true
	for _, word := range strings.Fields(text) {
		if !empty && width().StringWidth(line)+1+width().StringWidth(word) > reportWidth {
			b.WriteString(line + "\n")
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return b.String() + line + "\n"
}
