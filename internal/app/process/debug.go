package process

import (
	"context"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// BindDebug adds --debug-http.
func BindDebug(f *pflag.FlagSet, addr *string) {
	f.StringVar(addr, "debug-http", "", "listen address of Go's profiler (/debug/pprof/), loopback only, such as "+
		"127.0.0.1:6060 (default: off)")
}

// ServeDebug serves Go's profiles on addr until the cleanup stack stops it; ""
// means not at all. A profile shows what is in memory, and taking one costs
// time, so the address is one that only this machine reaches.
func ServeDebug(addr string, cleanup *Cleanup, log zerolog.Logger) error {
	if addr == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return Usagef("--debug-http %q: want host:port, such as 127.0.0.1:6060", addr)
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return Usagef("--debug-http %q: want a loopback address, such as 127.0.0.1:6060; from elsewhere reach it through "+
			"ssh -L or kubectl port-forward", addr)
	}
	l, err := Listen("debug-http", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s := newServer(mux)
	go func() { _ = s.Serve(l) }() // ends with the cleanup, and nothing depends on it
	// A profile that is being taken is not waited for.
	cleanup.Push("debug http", time.Second, func(context.Context) error { return s.Close() })
	log.Info().Str("addr", l.Addr().String()).Msg(logevent.DebugListening)
	return nil
}
