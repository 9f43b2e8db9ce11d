package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	payloadBytes   = 1024
	ceilingWorkers = 32
	measureFor     = 3 * time.Second
)

// ceiling is how many signed 1 KB requests a second a tight loop of Go's client
// gets through to the same receiver on the same cores: what any sender in Go
// can at most do here.
func ceiling(addr string) (float64, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: ceilingWorkers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	body, key := bytes.Repeat([]byte("x"), payloadBytes), make([]byte, 32)
	_, _ = rand.Read(key)
	var done atomic.Int64
	var failed atomic.Pointer[error]
	until := time.Now().Add(measureFor)
	var wg sync.WaitGroup
	for range ceilingWorkers {
		wg.Go(func() {
			for time.Now().Before(until) {
				if err := send(client, addr, body, key); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	_, err := get("http://" + addr + "/log") // forget them
	return float64(done.Load()) / measureFor.Seconds(), err
}

func send(client *http.Client, addr string, body, key []byte) error {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "evt.%d.", time.Now().Unix())
	mac.Write(body)
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/ok/0", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("webhook-id", eventPrefix+"0")
	req.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// fsyncRate is how many 4 KB appends with fsync a second a file in dir takes,
// one after the other.
func fsyncRate(dir string) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	n, start := 0, time.Now()
	for ; time.Since(start) < measureFor; n++ {
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(start).Seconds(), nil
}
