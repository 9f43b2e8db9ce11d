package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	probePoll  = 20 * time.Millisecond
	probeLimit = 2 * time.Second // one probe on a machine that is busy
)

// await returns once both ports answered as ClickHouse, or with the last
// failure when ctx ends.
func await(ctx context.Context, a addresses, o Options) error {
	client := &http.Client{Timeout: probeLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	poll := time.NewTicker(probePoll)
	defer poll.Stop()
	for {
		err := probe(ctx, client, a, o)
		if err == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("the engine does not answer: %w (%w)", err, context.Cause(ctx))
		}
	}
}

func probe(ctx context.Context, client *http.Client, a addresses, o Options) error {
	if err := probeHTTP(ctx, client, dial(a.http)); err != nil {
		return err
	}
	return probeNative(ctx, dial(a.native), o)
}

func probeHTTP(ctx context.Context, client *http.Client, addr string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/ping", nil)
	if err != nil {
		return fmt.Errorf("http port %s: %w", addr, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("http port %s: %w", addr, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64))
	if err != nil || string(body) != "Ok.\n" {
		return fmt.Errorf("http port %s answered %q with status %d, not ClickHouse's Ok (%v)", addr, body,
			response.StatusCode, err)
	}
	return nil
}

// probeNative says hello as the owner. The greeting of protocol version 1.1 is
// all that is needed: packet 0, client name, version, database, user, password;
// a server answers packet 0.
func probeNative(ctx context.Context, addr string, o Options) error {
	dialer := net.Dialer{Timeout: probeLimit}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("native port %s: %w", addr, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(probeLimit)); err != nil {
		return fmt.Errorf("native port %s: %w", addr, err)
	}
	hello := []byte{0}
	hello = appendString(hello, "waybill probe")
	hello = append(hello, 1, 1)
	hello = binary.AppendUvarint(hello, 54058)
	for _, s := range []string{"", o.User, o.Password} {
		hello = appendString(hello, s)
	}
	if _, err := conn.Write(hello); err != nil {
		return fmt.Errorf("native port %s: %w", addr, err)
	}
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		return fmt.Errorf("native port %s: %w", addr, err)
	}
	if kind[0] != 0 {
		return fmt.Errorf("native port %s refused user %s (packet %d)", addr, o.User, kind[0])
	}
	leave(conn)
	return nil
}

// leave ends a connection in order: one that is closed before all was read is
// reset, and ClickHouse writes a stack trace about that.
func leave(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, conn) // until its deadline
	}
}

func appendString(to []byte, s string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}
