package evidence_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
)

func pageOf(t *testing.T, r *evidence.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := evidence.Page(&b, r); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("EVIDENCE_PAGES"); dir != "" { // to be looked at
		name := strings.NewReplacer("/", "_", " ", "_").Replace(t.Name()) + ".html"
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestThePageShowsEverything(t *testing.T) {
	l := newLog(t)
	l.tellLarge("e1")
	p := pageOf(t, l.verify(l.file(subject("e1")).Encode()))
	for _, want := range []string{"<strong>Verified</strong>", "Event e1", "order.paid", "Delivery to ep_bad",
		"deliver by 2026-11-02 12:01:00", "attempts_exhausted", "bob took it on",
		"mended", "deliver_within 1h", "night", "2bfd14f43d17fc7cea24e0917a8879b4b2f880b8baeec1b9d90fbaad655e71bd",
		"waybill evidence verify FILE --key KEY",
		"The witness w.example", "no further record", "attempts 3, 5 to ep_bad", "Exported by alice@host", `role="img"`,
		"<desc"} {
		if !strings.Contains(p, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestThePrintedPageNamesItsFileOnEverySheet(t *testing.T) {
	l := newLog(t)
	l.tellLarge("e1")
	r := l.verify(l.file(subject("e1")).Encode())
	p := pageOf(t, r)
	for _, want := range []string{"size: A4", "SHA\\2d 256 " + r.Digest + ", event e1",
		`"page " counter(page) " of " counter(pages)`, "break-inside: avoid"} {
		if !strings.Contains(p, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// A page that is kept for years needs nothing besides, and what a record says
// stays text.
func TestThePageNeedsNothingBesidesAndRunsNothing(t *testing.T) {
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>' & ]]> </style></svg> javascript:alert(3) {{.}}`
	l := newLog(t)
	l.tell(record.EventAccepted, "e1", "", func(r *record.Record) {
		r.EventType, r.SubjectType, r.SubjectID, r.DataDigest, r.EndpointIDs = hostile, hostile, hostile, hostile,
			[]string{hostile}
	})
	for _, kind := range record.Kinds() {
		if strings.HasPrefix(string(kind), "event") || kind == record.EndpointChanged {
			continue
		}
		l.tell(kind, "e1", hostile, func(r *record.Record) {
			r.Reason, r.Detail, r.Error, r.URL, r.Outcome, r.Class, r.Decision = hostile, hostile, hostile, hostile, hostile,
				hostile, hostile
			r.Actor, r.Action, r.Channel, r.EscalationPolicy, r.ResponseExcerpt, r.PayloadDigest, r.KeyIDs = hostile, hostile,
				hostile, hostile, hostile, hostile, []string{hostile}
			r.RemoteAddr, r.ReplayID, r.IncidentID, r.SignatureScheme, r.Attempt = hostile, hostile, hostile, hostile, 1
		})
	}
	f := l.file(subject("e1"))
	f.Statement.ExportedBy, f.Statement.Software = hostile, hostile
	for name, r := range map[string]*evidence.Report{"verified": l.verify(f.Encode()),
		"unverified": evidence.Verify(f.Encode(), evidence.Options{})} {
		t.Run(name, func(t *testing.T) {
			if name == "verified" && !r.Proven {
				t.Fatal(r.Problems)
			}
			p := pageOf(t, r)
			if got := strings.Count(strings.ToLower(p), "<script"); got > 0 {
				t.Errorf("%d scripts", got)
			}
			for _, tag := range regexp.MustCompile(`<[^>]*>`).FindAllString(p, -1) {
				if regexp.MustCompile(`(?i)\son\w+=|\ssrc=|url\(|@import|href="[^#]|<(img|iframe|object|embed|link|base|form|input|image|use|foreignObject)\b`).MatchString(tag) {
					t.Errorf("tag %s", tag)
				}
			}
			if strings.Count(p, "</style>") != 1 || strings.Count(p, "</svg>") != strings.Count(p, "<svg ") {
				t.Error("a record closed an element")
			}
		})
	}
}

//lint:long one table
func TestEachKindOfEventHasAPage(t *testing.T) {
	for name, tell := range map[string]func(*log){
		"unmatched": func(l *log) {
			l.tell(record.EventUnmatched, "e1", "", func(r *record.Record) {
				r.EventType, r.Reason = "order.lost",
					"no_subscription"
			})
		},
		"rejected": func(l *log) {
			l.tell(record.EventRejected, "e1", "", func(r *record.Record) {
				r.Reason, r.Detail = "invalid_event",
					"data is missing"
			})
		},
		"no attempt yet": func(l *log) {
			l.tell(record.EventAccepted, "e1", "", func(r *record.Record) {
				r.EventType, r.Endpoints,
					r.EndpointIDs = "order.paid", 1, []string{"ep_1"}
			})
			l.tell(record.DeliveryOwed, "e1", "ep_1", nil)
		},
		"a day of retries": func(l *log) {
			const a, b = "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K", "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6L"
			promise := noon.Add(32 * time.Hour)
			l.tell(record.EndpointChanged, "", b, func(r *record.Record) {
				r.EndpointRevision, r.Action, r.Actor, r.URL, r.EventTypes = 4, "update", "carol@ops",
					"https://hooks.hospital.example/lab", []string{"lab_result.*"}
				r.SignatureScheme, r.KeyIDs, r.Settings = "standard-webhooks", []string{"key_7f31"},
					map[string]string{"timeout": "10s", "max_in_flight": "16", "policy": "standard"}
			})
			l.tell(record.EventAccepted, "e1", "", func(r *record.Record) {
				r.EventType, r.Endpoints, r.EndpointIDs, r.DeliverBy = "lab_result.critical", 2, []string{a, b}, promise
				r.SubjectType, r.SubjectID, r.DataBytes = "lab_result", "LR-4711", 214
				r.DataDigest = "2bfd14f43d17fc7cea24e0917a8879b4b2f880b8baeec1b9d90fbaad655e71bd"
			})
			for _, ep := range []string{a, b} {
				l.tell(record.DeliveryOwed, "e1", ep, func(r *record.Record) {
					r.EventType, r.DeliverBy, r.EndpointRevision = "lab_result.critical", promise, 4
				})
			}
			at := noon.Add(3 * time.Second)
			attempt := func(ep string, n, status int, outcome, class, decision string, wait time.Duration) {
				l.tell(record.Attempt, "e1", ep, func(r *record.Record) {
					r.Attempt, r.Status, r.Outcome, r.Class, r.Decision, r.StartedAt, r.DurationUS = n, status, outcome, class,
						decision, at, 187_400
					r.At, r.EndpointRevision, r.URL, r.RemoteAddr, r.HTTPVersion, r.TLSVersion = at.Add(200*time.Millisecond), 4,
						"https://hooks.hospital.example/lab", "203.0.113.7:443", "HTTP/2.0", "TLS 1.3"
					r.PayloadDigest, r.PayloadBytes, r.SignatureScheme, r.KeyIDs = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", 398, "standard-webhooks", []string{"key_7f31"}
					if wait > 0 {
						r.NextAttemptAt = at.Add(wait)
						r.Detail, r.ResponseExcerpt = "the receiver may recover; the schedule goes on", "<html>502 Bad Gateway</html>"
					}
				})
				at = at.Add(wait)
			}
			attempt(a, 1, 200, "delivered", "delivered", "delivered", 0)
			for n, wait := range []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
				5 * time.Hour, 10 * time.Hour, 10 * time.Hour} {
				attempt(b, n+1, 502, "status_retryable", "retryable", "retry", wait)
			}
			attempt(b, 8, 502, "status_retryable", "retryable", "dead_letter", 0)
			later := func(d time.Duration) func(*record.Record) { return func(r *record.Record) { r.At = at.Add(d) } }
			l.tell(record.DeliveryDeadLetter, "e1", b, func(r *record.Record) {
				later(time.Second)(r)
				r.Reason, r.Detail, r.Attempts, r.EndpointRevision = "attempts_exhausted",
					"all 8 attempts of the policy standard were made", 8, 4
			})
			l.tell(record.Escalation, "e1", b, func(r *record.Record) {
				later(2 * time.Second)(r)
				r.Outcome, r.Channel, r.ChannelKind, r.EscalationPolicy, r.Step, r.Action, r.IncidentID = "delivered", "pager",
					"pagerduty", "clinical", 1, "trigger", "inc_01"
			})
			l.tell(record.EscalationAcked, "e1", b, func(r *record.Record) { later(4 * time.Minute)(r); r.Actor = "bob@ward3" })
			l.tell(record.ReplayRequested, "e1", b, func(r *record.Record) {
				later(time.Hour)(r)
				r.ReplayID, r.Actor, r.Reason = "rpl_01JQ", "alice@ops", "the receiver was mended"
			})
			l.tell(record.DeliveryOwed, "e1", b, func(r *record.Record) {
				later(time.Hour)(r)
				r.ReplayID,
					r.EndpointRevision = "rpl_01JQ", 4
			})
			at = at.Add(time.Hour + time.Second)
			attempt(b, 9, 200, "delivered", "delivered", "delivered", 0)
		},
		"hundreds of endpoints": func(l *log) {
			for n := range 300 {
				l.tell(record.DeliveryOwed, "e1", fmt.Sprint("ep_", n), nil)
				l.tell(record.Attempt, "e1", fmt.Sprint("ep_", n),
					func(r *record.Record) { r.Attempt, r.StartedAt, r.Outcome, r.Class = 1, r.At, "delivered", "delivered" })
			}
		},
		"another not known": func(l *log) { l.tell(record.ConformanceChecked, "e1", "", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			tell(l)
			r := l.verify(l.file(subject("e1")).Encode())
			if !r.Proven {
				t.Fatal(r.Problems)
			}
			if p := pageOf(t, r); !strings.Contains(p, "<strong>Verified</strong>") || strings.Contains(p, "NaN") ||
				strings.Contains(p, "Inf") {
				t.Error(p)
			}
		})
	}
}
