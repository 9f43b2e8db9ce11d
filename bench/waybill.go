package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// waybill is `waybill up` as a user runs it.
type waybill struct {
	cmd       *exec.Cmd
	dir       string
	addresses struct {
		HTTP           string `json:"http"`
		NATS           string `json:"nats"`
		ClickHouseHTTP string `json:"clickhouse_http"`
	}
	nc *nats.Conn
	js jetstream.JetStream
}

func startWaybill(bin, dir, sync string) (*waybill, error) {
	w := &waybill{dir: dir}
	addresses := filepath.Join(dir, "addresses.json")
	w.cmd = exec.Command(filepath.Join(bin, "waybill"), "up", "--data", filepath.Join(dir, "data"), "--sync", sync,
		"--http", "127.0.0.1:0", "--nats", "127.0.0.1:0", "--clickhouse-native", "127.0.0.1:0", "--clickhouse-http", "127.0.0.1:0",
		"--egress-allow", "127.0.0.0/8", "--addresses", addresses, "--log-format", "json", "--log-level", "info")
	log, err := os.Create(filepath.Join(dir, "up.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	w.cmd.Stderr = log
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(out); ; {
		if !lines.Scan() {
			return nil, fmt.Errorf("waybill up ended: see %s", log.Name())
		}
		if lines.Text() == "waybill: ready" {
			break
		}
	}
	b, err := os.ReadFile(addresses)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &w.addresses); err != nil {
		return nil, err
	}
	if w.nc, err = nats.Connect(w.addresses.NATS); err != nil {
		return nil, err
	}
	w.js, err = jetstream.New(w.nc, jetstream.WithPublishAsyncMaxPending(4096))
	return w, err
}

func (w *waybill) stop() {
	if w.nc != nil {
		w.nc.Close()
	}
	_ = w.cmd.Process.Signal(os.Interrupt)
	_ = w.cmd.Wait()
}

// cpu is the process's own CPU time, engineCPU that of its ClickHouse.
func (w *waybill) cpu() float64 { return cpuSeconds(w.cmd.Process.Pid) }

func (w *waybill) engineCPU() float64 {
	sum := 0.0
	for _, p := range children(w.cmd.Process.Pid) {
		sum += cpuSeconds(p)
	}
	return sum
}

// endpoint creates an endpoint of a tenant.
func (w *waybill) endpoint(spec map[string]any) error {
	b, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	resp, err := http.Post("http://"+w.addresses.HTTP+"/v1/endpoints", "application/json", strings.NewReader(string(b)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("creating an endpoint: %s", resp.Status)
	}
	return nil
}

// query asks ClickHouse for one number.
func (w *waybill) query(sql string) (float64, error) {
	resp, err := http.Post("http://"+w.addresses.ClickHouseHTTP+"/?database=waybill", "text/plain", strings.NewReader(sql))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var n float64
	_, err = fmt.Fscan(resp.Body, &n)
	return n, err
}

// ledgerCaughtUp waits until ClickHouse has every record of LEDGER.
func (w *waybill) ledgerCaughtUp(ctx context.Context) error {
	for {
		s, err := w.js.Stream(ctx, "LEDGER")
		if err != nil {
			return err
		}
		n, err := w.query("SELECT count() FROM records")
		if err == nil && uint64(n) >= s.CachedInfo().State.LastSeq {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
