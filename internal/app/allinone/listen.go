package allinone

import (
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
)

func closeListener(l net.Listener) error {
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// removeAddresses keeps what has stopped from being found. A file that stays
// does no harm: the lock tells whether anything runs.
func removeAddresses(paths ...string) {
	for _, p := range paths {
		if p != "" {
			_ = os.Remove(p)
		}
	}
}

// natsAddress is the "host:port" of the first of several NATS URLs.
func natsAddress(urls string) string {
	first, _, _ := strings.Cut(urls, ",")
	if u, err := url.Parse(strings.TrimSpace(first)); err == nil && u.Host != "" {
		return u.Host
	}
	return first
}

// dsnAddress is the "host:port" of the first host of a ClickHouse DSN.
func dsnAddress(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(u.Host, ",")
	return first
}
