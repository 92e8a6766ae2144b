package run

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/logtest"
	"github.com/lingserve/lingserve/store/db"
)

// bareOptions are those of a service that has only what runs need, over o.
func bareOptions(o Options) Options {
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
	return o
}

// bareService is a service that has only what runs need, and does nothing by itself.
func bareService(o Options) *Service { return newService(bareOptions(o)) }

// openDB opens a database in memory.
func openDB(t modelT) *db.DB {
	d, err := db.Open(context.Background(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
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
type logBuffer = logtest.Buffer

// runsInMemory are the runs that the service has in memory.
func (s *Service) runsInMemory() map[string]*Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.inMemory)
}
