package telemetry

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web"
)

// Sources are read whenever the metrics are read.
type Sources struct {
	Server    func() web.Load
	Lanes     func() turn.Lanes
	Approvals func() int            // tool calls that wait for approval
	Providers func() []adapter.Load // slots
	// Channels has, by channel, the events that were accepted and are not settled, and what waits to be sent.
	Channels func(context.Context) (journal, outbox map[string]int, err error)
	Database func() DatabaseLoad // shared with other servers; nil if it is not shared
}

// DatabaseLoad is how it stands with a database that servers share.
type DatabaseLoad struct {
	Up       bool
	Replicas int // that are there, this one among them
}

// Watch asks these sources from now on.
func (m *Metrics) Watch(s Sources) { m.sources.of.Store(&s) }

// sources is the collector of what is read from the sources. It describes nothing in advance, so the registry checks what it collects.
type sources struct{ of atomic.Pointer[Sources] }

// Describe implements [prometheus.Collector].
func (s *sources) Describe(chan<- *prometheus.Desc) {}

// sourceTimeout keeps the metrics from hanging with a store that hangs.
const sourceTimeout = 2 * time.Second

// overloads are the limits that have a series, which is 0 below the limit.
var overloads = []string{"memory", "disk", "runs", "streams"}

// Collect implements [prometheus.Collector].
func (s *sources) Collect(to chan<- prometheus.Metric) {
	of := s.of.Load()
	if of == nil {
		return
	}
	send := func(kind prometheus.ValueType, name, help string, v float64, label []string) {
		var names, values []string
		if len(label) > 0 {
			names, values = label[:1], label[1:]
		}
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(namespace+"_"+name, help, names, nil), kind, v, values...)
	}
	gauge := func(name, help string, v float64, label ...string) { send(prometheus.GaugeValue, name, help, v, label) }
	count := func(name, help string, v uint64, label ...string) {
		send(prometheus.CounterValue, name, help, float64(v), label)
	}
	l := of.Server()
	gauge("connections", "Open client connections.", float64(l.Connections))
	count("connections_turned_away_total", "Connections closed because their address had too many.", l.TurnedAway)
	gauge("draining", "1 while the server shuts down.", one(l.Draining))
	gauge("runs_memory_bytes", "Part of limit.memory that is kept for requests and runs.", float64(l.Memory.Bytes))
	gauge("runs_memory_waiting", "Model answers that wait for memory.", float64(l.Memory.Waiting))
	count("runs_memory_refused_total", "Model answers ended for lack of memory.", l.Memory.Refused)
	for _, limit := range overloads {
		gauge("overloaded", "1 while the server refuses work because of this limit: memory, disk, runs or streams.",
			one(slices.Contains(l.Overloaded, limit)), "limit", limit)
	}
	gauge("ended_runs", "Ended runs in memory.", float64(l.InMemory))
	gauge("ended_runs_bytes", "Their size.", float64(l.MemoryBytes))
	lanes := of.Lanes()
	gauge("turns_running", "Running turns.", float64(lanes.Running))
	gauge("turns_waiting", "Messages that wait for an earlier turn or a slot.", float64(lanes.Waiting))
	for reason, n := range map[string]uint64{"busy": lanes.Refused.Busy, "full": lanes.Refused.Full, "draining": lanes.Refused.Draining} {
		count("turns_refused_total", "Refused messages: busy session, full queue or draining server.", n, "reason", reason)
	}
	gauge("approvals_waiting", "Tool calls that wait for approval.", float64(of.Approvals()))
	for _, p := range of.Providers() {
		gauge("upstream_slots", "Concurrent requests allowed to a provider.", float64(p.Max), "provider", p.Provider)
		count("upstream_slots_refused_total", "Requests to a provider without a slot.", p.Refused, "provider", p.Provider)
	}
	database := DatabaseLoad{Up: true, Replicas: 1}
	if of.Database != nil {
		database = of.Database()
	}
	gauge("database_up", "1 while the database can be reached; always 1 with SQLite.", one(database.Up))
	gauge("replicas", "Servers that share the database, this one included.", float64(database.Replicas))
	ctx, cancel := context.WithTimeout(context.Background(), sourceTimeout)
	defer cancel()
	journal, outbox, err := of.Channels(ctx)
	if err != nil {
		return // the kernel logs what is wrong with its journal; unknown numbers are left out
	}
	for name, n := range journal {
		gauge("channel_journal_pending", "Accepted but unfinished messages, of all replicas.", float64(n), "channel", name)
	}
	for name, n := range outbox {
		gauge("channel_outbox_pending", "Blocks that wait to be sent, of all replicas.", float64(n), "channel", name)
	}
}

func one(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
