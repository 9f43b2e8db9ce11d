# Every program in one image; compose.yaml says which one a container runs.

FROM golang:1.26.8-alpine3.23 AS build
WORKDIR /src
# The modules change seldom: a layer of their own is used again.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
# Static binaries. waybill-clickhouse is left out: it needs a dynamic linker and a 566 MB library, and here ClickHouse is a server.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /out/ ./cmd/ingest ./cmd/fanout ./cmd/dispatcher ./cmd/escalator ./cmd/ledger-sink ./cmd/watchdog ./cmd/waybill

# Alpine rather than nothing: it brings the CA certificates that receivers' TLS is checked with, and wget for health checks.
FROM alpine:3.23.4
COPY --from=build /out/ /usr/local/bin/
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /tmp
