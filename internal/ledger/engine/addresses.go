package engine

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// addresses are where the engine listens; the ports are never zero.
type addresses struct {
	native, http *net.TCPAddr
}

// choose resolves both addresses, picks free ports for zeros, and reports a
// port that another process holds. A port lost between here and the engine's own
// bind, some milliseconds later, shows as a start that does not get ready.
func choose(nativeAddr, httpAddr string) (addresses, error) {
	native, err := freePort("native", nativeAddr)
	if err != nil {
		return addresses{}, err
	}
	defer native.Close()
	// Both are held at once, so that two zeros do not get the same port.
	http, err := freePort("http", httpAddr)
	if err != nil {
		return addresses{}, err
	}
	defer http.Close()
	a := addresses{native: native.Addr().(*net.TCPAddr), http: http.Addr().(*net.TCPAddr)}
	if !a.native.IP.Equal(a.http.IP) {
		return addresses{}, fmt.Errorf("--clickhouse-native %s and --clickhouse-http %s name different hosts; the engine "+
			"listens on one, so give both the same", nativeAddr, httpAddr)
	}
	return a, nil
}

func freePort(protocol, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("ClickHouse %s port %s is already in use by another process; choose another with "+
			"--clickhouse-%s: %w", protocol, address, protocol, err)
	case err != nil:
		return nil, fmt.Errorf("--clickhouse-%s %s cannot be listened on: %w", protocol, address, err)
	}
	return listener, nil
}

func (a addresses) listenHost() string { return a.native.IP.String() }

// dial is where a client on this machine reaches addr.
func dial(addr *net.TCPAddr) string {
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(addr.Port))
}
