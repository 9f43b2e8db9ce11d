// Package loopback finds addresses for programs that a test starts.
package loopback

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Address is one on 127.0.0.1 where a program of the test may listen, stop and
// listen again until the test ends. Nobody else gets it: it is below the ports
// that the kernel gives to clients, and the same port of 127.0.0.2 is held while the
// test runs, where every other test, also of another process, finds it taken.
func Address(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(15000 + rand.N(15000))
		held, err := net.Listen("tcp", "127.0.0.2:"+port)
		if err != nil {
			continue
		}
		free, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			_ = held.Close()
			continue
		}
		t.Cleanup(func() { _ = held.Close() })
		_ = free.Close()
		return free.Addr().String()
	}
	t.Fatal("no free port from 15000 to 29999")
	return ""
}
