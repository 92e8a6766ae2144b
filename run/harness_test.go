package run

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store/storetest/file"
)

// bareService is a service that has only what ended runs need.
func bareService(o Options, d *disk) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Workflows == nil {
		o.Workflows = new(flow.Registry)
	}
	if o.Pressure == nil {
		o.Pressure = noPressure{}
	}
	o.Ledger = adapter.NewLedger(0)
	o.Retention = cmp.Or(o.Retention, 5*time.Minute)
	o.KeyRetention = cmp.Or(o.KeyRetention, 24*time.Hour)
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	o.Input, o.Images = 1_000_000, 16
	o.MaxResult, o.MaxBots, o.MaxTasks, o.RunTimeout = 16<<20, 256, 1024, 30*time.Minute
	o.MaxRuns = cmp.Or(o.MaxRuns, 10_000)
	o.MaxLog = cmp.Or(o.MaxLog, 8<<20)
	o.MemoryOfEnded = cmp.Or(o.MemoryOfEnded, 8<<20)
	o.MaxDisk = cmp.Or(o.MaxDisk, 4<<30)
	dir := vfs.InMemory()
	if d != nil {
		dir = func(bool) (vfs.Folder, error) { return vfs.Sub(d.root, "store") }
	}
	tables, err := file.Open(dir, file.Options{})
	if err != nil {
		panic(err)
	}
	keys, err := openKeys(context.Background(), &Options{Tables: tables, KeyRetention: o.KeyRetention, Log: o.Log})
	if err != nil {
		panic(err)
	}
	keys.engine = tables
	return newService(o, d, keys)
}

// noObserver counts nothing.
type noObserver struct{}

func (noObserver) Run(string, string) RunObserver { return noObserver{} }
func (noObserver) First()                         {}
func (noObserver) End(string, string)             {}

// noPressure is that of a machine that has enough of all.
type noPressure struct{}

func (noPressure) LowMemory() bool  { return false }
func (noPressure) LowDisk() bool    { return false }
func (noPressure) DiskBroken() bool { return false }
func (noPressure) DiskFailed()      {}

// resultText is what an ended run answers.
func resultText(r *Run) string {
	o, document, beside := r.Result()
	return string(mustJSON(o)) + string(document) + string(beside)
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// eventually waits for something that another goroutine does; only for what no event tells. The deadline of the tests is the bound.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Hour); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}
