package record

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/platform/redact"
)

// hiddenSegment stands on record where a segment of a URL's path is a secret:
// "~secret-" and the first 16 digits of the SHA-256 of the segment, decoded, so
// that who has the URL can confirm it. A short one could be guessed from that,
// and has none.
const hiddenSegment = "~secret"

// leastFingerprinted is how long a segment must be to have a fingerprint.
const leastFingerprinted = 16

// SafeURL is a URL as it goes on record: without what may be secret, which is
// its user, query and fragment, and with hiddenSegment for segments that are.
func SafeURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	segments, secret := segmentsOf(u)
	if !slices.Contains(secret, true) {
		return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
	}
	for i, is := range secret {
		if is {
			segments[i] = hidden(segments[i])
		}
	}
	return u.Scheme + "://" + u.Host + strings.Join(segments, "/")
}

// URLSecrets are the values of a URL that SafeURL leaves out, if they are long
// enough to be told from a word.
func URLSecrets(raw string) []string {
	u, err := url.Parse(raw)
	if err != nil {
		return nil
	}
	var out []string
	add := func(values ...string) {
		for _, v := range values {
			if len(v) >= 8 {
				out = append(out, v)
			}
		}
	}
	segments, secret := segmentsOf(u)
	for i, is := range secret {
		if !is {
			continue
		}
		add(segments[i])
		if decoded, err := url.PathUnescape(segments[i]); err == nil && decoded != segments[i] {
			add(decoded)
		}
	}
	if password, ok := u.User.Password(); ok {
		add(password)
	}
	for _, values := range u.Query() {
		add(values...)
	}
	return out
}

func hidden(segment string) string {
	if decoded, err := url.PathUnescape(segment); err == nil {
		segment = decoded
	}
	if len(segment) < leastFingerprinted {
		return hiddenSegment
	}
	sum := sha256.Sum256([]byte(segment))
	return hiddenSegment + "-" + hex.EncodeToString(sum[:8])
}

// segmentsOf are the parts of the path as it is written, and which are secret.
func segmentsOf(u *url.URL) (segments []string, secret []bool) {
	segments = strings.Split(u.EscapedPath(), "/")
	secret = make([]bool, len(segments))
	for _, known := range knownPaths {
		if !known.host.MatchString(u.Hostname()) {
			continue
		}
		if m := known.path.FindStringSubmatchIndex(strings.Join(segments, "/")); m != nil {
			at := strings.Count(strings.Join(segments, "/")[:m[2]], "/")
			last := strings.Count(strings.Join(segments, "/")[:m[3]], "/")
			for i := at; i <= last; i++ {
				secret[i] = segments[i] != ""
			}
		}
	}
	for i, s := range segments {
		if strings.HasPrefix(s, hiddenSegment) { // it is hidden already
			secret[i] = false
			continue
		}
		secret[i] = secret[i] || len(s) >= leastFingerprinted && looksSecret(s)
	}
	return segments, secret
}

// knownPaths are services whose addresses are bearer secrets; the group is what is secret.
var knownPaths = []struct{ host, path *regexp.Regexp }{
	{regexp.MustCompile(`^hooks\.slack(-gov)?\.com$`),
		regexp.MustCompile(`^/(?:services|workflows|triggers)/.*?([^/]+)/?$`)},
	{regexp.MustCompile(`(^|\.)discord(app)?\.com$`), regexp.MustCompile(`^/api/(?:v[0-9]+/)?webhooks/[^/]+/([^/]+)`)},
	{regexp.MustCompile(`(^|\.)office\.com$`), regexp.MustCompile(`/IncomingWebhook/(.+)$`)},
	{regexp.MustCompile(`^hooks\.zapier\.com$`), regexp.MustCompile(`^/hooks/catch/[^/]+/(.+?)/?$`)},
	{regexp.MustCompile(`^maker\.ifttt\.com$`), regexp.MustCompile(`/key/([^/]+)`)},
	{regexp.MustCompile(`^api\.telegram\.org$`), regexp.MustCompile(`^/(bot[^/]+)`)},
	{regexp.MustCompile(`^hook\.([a-z0-9-]+\.)?make\.com$`), regexp.MustCompile(`^/([^/]+)`)},
}

var uuid = regexp.MustCompile(`^[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}$`)

// looksSecret says whether a segment is random, as what nobody should guess is.
func looksSecret(segment string) bool {
	if uuid.MatchString(segment) {
		return true
	}
	return slices.ContainsFunc(redact.Default().Find([]byte(segment), redact.Known{}), func(f redact.Finding) bool {
		return f.Kind == redact.Opaque || f.Kind == redact.Secret || f.Kind == redact.JWT || f.Kind == redact.Encoded
	})
}
