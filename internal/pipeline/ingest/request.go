package ingest

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/problem"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// defaultTenant is the tenant where nobody cares.
const defaultTenant = "default"

// tenantOf reads ?tenant= or the header Waybill-Tenant. What it does not know
// it refuses: a misspelt parameter would put the event under another tenant.
func tenantOf(r *http.Request) (string, *problem.Problem) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", problem.New(http.StatusBadRequest, "malformed", "the query cannot be read: "+err.Error())
	}
	for name, values := range query {
		if name != "tenant" {
			return "", problem.New(http.StatusBadRequest, "unknown_parameter",
				fmt.Sprintf("unknown parameter %.64q; there is one, tenant", name)).Of(clip(name))
		}
		if len(values) > 1 {
			return "", problem.New(http.StatusBadRequest, "invalid", "tenant is given more than once").Of("tenant")
		}
	}
	tenant, header := query.Get("tenant"), r.Header.Get(streams.HeaderTenant)
	switch {
	case tenant == "":
		tenant = header
	case header != "" && header != tenant:
		return "", problem.New(http.StatusBadRequest, "invalid",
			"the parameter tenant and the header "+streams.HeaderTenant+" differ; give one").Of("tenant")
	}
	if tenant == "" {
		return defaultTenant, nil
	}
	if err := envelope.ValidateTenant(tenant); err != nil {
		return "", problem.New(http.StatusUnprocessableEntity, "invalid", err.Error()).Of("tenant")
	}
	return tenant, nil
}

func clip(s string) string { return fmt.Sprintf("%.64s", s) }

// ndjson says whether the body is one event a line, and refuses what is neither
// that nor JSON.
func ndjson(r *http.Request) (bool, *problem.Problem) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return false, problem.New(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"Content-Encoding: send the body uncompressed")
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset, ok := params["charset"]; err == nil && ok && !equalUTF8(charset) {
		return false, problem.New(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"Content-Type: JSON is UTF-8; remove the charset")
	}
	switch {
	case err == nil && kind == "application/json":
		return false, nil
	case err == nil && kind == "application/x-ndjson":
		return true, nil
	}
	return false, problem.New(http.StatusUnsupportedMediaType, "unsupported_media_type",
		"Content-Type: want application/json, or application/x-ndjson for one event a line; with curl: -H 'Content-Type: "+
			"application/json'")
}

func equalUTF8(charset string) bool {
	return charset == "utf-8" || charset == "UTF-8" || charset == "utf8"
}

// limit of a body: a batch's, for whether it is one is known once it is read.
func (s *Ingest) limit() int64 { return int64(max(MaxBatchBytes, s.o.MaxEventBytes)) }

// bytesOf is the most memory that a request's body takes.
func (s *Ingest) bytesOf(r *http.Request) int64 {
	if r.ContentLength < 0 || r.ContentLength > s.limit() {
		return s.limit()
	}
	return r.ContentLength
}

// read takes the whole body, bounded in size and time.
func (s *Ingest) read(w http.ResponseWriter, r *http.Request) ([]byte, *problem.Problem) {
	control := http.NewResponseController(w)
	bounded := control.SetReadDeadline(time.Now().Add(s.o.BodyTimeout)) == nil
	limit := s.limit()
	body, err := readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, limit)
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, problem.New(http.StatusRequestEntityTooLarge, "too_large",
			fmt.Sprintf("the body is over %d bytes; send a smaller batch", limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem.New(http.StatusRequestTimeout, "timeout",
			fmt.Sprintf("the body did not come within %s", s.o.BodyTimeout))
	case err != nil:
		return nil, problem.New(http.StatusBadRequest, "malformed", "the body cannot be read: "+err.Error())
	}
	if bounded {
		// Else the bound would cut the answer short, too.
		if err := control.SetReadDeadline(time.Time{}); err != nil {
			return nil, problem.New(http.StatusBadRequest, "malformed", "the connection was lost: "+err.Error())
		}
	}
	return body, nil
}

// readAll is io.ReadAll without growing the buffer when the length is known.
func readAll(r io.Reader, length, limit int64) ([]byte, error) {
	if length <= 0 || length > limit {
		return io.ReadAll(r)
	}
	body := make([]byte, length)
	n, err := io.ReadFull(r, body)
	return body[:n], err
}
