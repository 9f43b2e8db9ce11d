package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// The receiver is a process of its own, as receivers are. Its path says how it
// behaves: /ok/<n>, /fail/<percent>/<n>, /first/<n> (nine of ten first attempts
// fail), /hang/<n>, /down/<n> (it is never asked for that one). It logs each request it accepted,
// as fixed-size entries,
// until /log is read.

// entry is one accepted request: when, which event, which endpoint.
type entry struct {
	At       int64 // Unix nanoseconds
	Event    uint64
	Endpoint uint32
	Attempt  uint32
}

const entrySize = 24

type receiver struct {
	mu      sync.Mutex
	log     []byte
	seen    uint64
	release chan struct{}
}

func runReceiver() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r := &receiver{release: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /log", r.takeLog)
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		fmt.Fprint(w, len(r.log)/entrySize)
	})
	mux.HandleFunc("POST /", r.receive)
	fmt.Println(l.Addr())
	go func() { // ends with its parent
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	err = (&http.Server{Handler: mux}).Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (r *receiver) receive(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	parts := strings.Split(req.URL.Path[1:], "/")
	endpoint := number(parts[len(parts)-1])
	switch parts[0] {
	case "hang":
		select {
		case <-req.Context().Done():
		case <-time.After(time.Minute):
		}
		return
	case "fail", "first":
		r.mu.Lock()
		r.seen++
		fails := r.seen%100 < number(parts[1])
		if parts[0] == "first" {
			fails = r.seen%10 != 0 && attemptOf(body) == 1
		}
		r.mu.Unlock()
		if fails {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
	}
	var e [entrySize]byte
	binary.LittleEndian.PutUint64(e[0:], uint64(time.Now().UnixNano()))
	binary.LittleEndian.PutUint64(e[8:], number(strings.TrimPrefix(req.Header.Get("webhook-id"), eventPrefix)))
	binary.LittleEndian.PutUint32(e[16:], uint32(endpoint))
	binary.LittleEndian.PutUint32(e[20:], attemptOf(body))
	r.mu.Lock()
	r.log = append(r.log, e[:]...)
	r.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) takeLog(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	log := r.log
	r.log = nil
	r.mu.Unlock()
	_, _ = w.Write(log)
}

func number(s string) uint64 {
	n := uint64(0)
	for i := 0; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		n = n*10 + uint64(s[i]-'0')
	}
	return n
}

func attemptOf(body []byte) uint32 {
	_, rest, _ := strings.Cut(string(body[:min(len(body), 300)]), `"deliveryAttempt":`)
	return uint32(number(rest))
}

func parseLog(b []byte) []entry {
	out := make([]entry, 0, len(b)/entrySize)
	for ; len(b) >= entrySize; b = b[entrySize:] {
		out = append(out, entry{int64(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint64(b[8:]),
			binary.LittleEndian.Uint32(b[16:]), binary.LittleEndian.Uint32(b[20:])})
	}
	return out
}
