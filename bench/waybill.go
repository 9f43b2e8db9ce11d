package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// waybill is `waybill up` as a user runs it.
type waybill struct {
	cmd            *exec.Cmd
	bin, dir, sync string
	addresses      struct {
		HTTP             string `json:"http"`
		NATS             string `json:"nats"`
		ClickHouseNative string `json:"clickhouse_native"`
		ClickHouseHTTP   string `json:"clickhouse_http"`
	}
	nc *nats.Conn
	js jetstream.JetStream
	// other is another producer's connection: what floods must not hold up the
	// load before it has even been sent.
	other jetstream.JetStream
}

func startWaybill(bin, dir, sync string) (*waybill, error) {
	w := &waybill{bin: bin, dir: dir, sync: sync}
	const any = "127.0.0.1:0"
	if err := w.start(any, any, any, any); err != nil {
		return nil, err
	}
	var err error
	if w.nc, err = nats.Connect(w.addresses.NATS, nats.MaxReconnects(-1),
		nats.ReconnectWait(100*time.Millisecond)); err != nil {
		return nil, err
	}
	if w.js, err = jetstream.New(w.nc, jetstream.WithPublishAsyncMaxPending(4096)); err != nil {
		return nil, err
	}
	second, err := nats.Connect(w.addresses.NATS, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	w.other, err = jetstream.New(second, jetstream.WithPublishAsyncMaxPending(4096))
	return w, err
}

// start runs it until it is ready.
func (w *waybill) start(http, nats, native, clickHouseHTTP string) error {
	addresses := filepath.Join(w.dir, "addresses.json")
	w.cmd = exec.Command(filepath.Join(w.bin, "waybill"), "up", "--data", filepath.Join(w.dir, "data"), "--sync", w.sync,
		"--http", http, "--nats", nats, "--clickhouse-native", native, "--clickhouse-http", clickHouseHTTP,
		"--egress-allow", "127.0.0.0/8", "--addresses", addresses, "--log-format", "json", "--log-level", "info")
	log, err := os.OpenFile(filepath.Join(w.dir, "up.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	w.cmd.Stderr = log
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := w.cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); ; {
		if !lines.Scan() {
			return fmt.Errorf("waybill up ended: see %s", log.Name())
		}
		if lines.Text() == "waybill: ready" {
			break
		}
	}
	b, err := os.ReadFile(addresses)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, &w.addresses)
}

// signalEngine sends ClickHouse a signal.
func (w *waybill) signalEngine(s syscall.Signal) error {
	for _, p := range children(w.cmd.Process.Pid) {
		if err := syscall.Kill(p, s); err != nil {
			return err
		}
	}
	return nil
}

// killAndRestart ends everything with kill -9, and starts it again at once at
// the same addresses.
func (w *waybill) killAndRestart() error {
	engine := children(w.cmd.Process.Pid)
	for _, p := range append(engine, w.cmd.Process.Pid) {
		if err := syscall.Kill(p, syscall.SIGKILL); err != nil {
			return err
		}
	}
	_ = w.cmd.Wait()
	a, trim := w.addresses, strings.NewReplacer("nats://", "")
	return w.start(a.HTTP, trim.Replace(a.NATS), a.ClickHouseNative, a.ClickHouseHTTP)
}

func (w *waybill) stop() {
	if w.nc != nil {
		w.nc.Close()
	}
	if w.other != nil {
		w.other.Conn().Close()
	}
	_ = w.cmd.Process.Signal(os.Interrupt)
	_ = w.cmd.Wait()
}

// pssMB is the memory of the process and of its ClickHouse.
func (w *waybill) pssMB() float64 {
	sum := pssMB(w.cmd.Process.Pid)
	for _, p := range children(w.cmd.Process.Pid) {
		sum += pssMB(p)
	}
	return sum
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

// waiting polls how many deliveries wait for a retry until enough says so.
func (w *waybill) waiting(ctx context.Context, enough func(uint64) bool) error {
	for {
		s, err := w.js.Stream(ctx, "RETRY")
		if err != nil {
			return err
		}
		if enough(s.CachedInfo().State.Msgs) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// query asks ClickHouse for one number, as the engine's owner: nobody else may
// merge the ledger, or see how large it is.
func (w *waybill) query(sql string) (float64, error) {
	answer, err := w.ask(sql)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(answer), 64)
}

func (w *waybill) ask(sql string) (string, error) {
	const owner = "owner"
	file, err := os.ReadFile(filepath.Join(w.dir, "data", "keys", "clickhouse.json"))
	if err != nil {
		return "", err
	}
	var passwords map[string]string // by user
	if err := json.Unmarshal(file, &passwords); err != nil {
		return "", err
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+w.addresses.ClickHouseHTTP+"/?database=waybill",
		strings.NewReader(sql))
	if err != nil {
		return "", err
	}
	req.SetBasicAuth(owner, passwords[owner])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("asking ClickHouse: %s: %s", resp.Status, b)
	}
	return string(b), err
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
