package telemetry

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web"
)

// Sources are read whenever the metrics are read. A nil one is skipped.
type Sources struct {
	Server    func() web.Load
	Lanes     func() turn.Lanes
	Approvals func() int            // tool calls that wait for approval
	Providers func() []adapter.Load // slots
	// Channels has, by channel, the events that were accepted and are not settled, and what waits to be sent.
	Channels func(context.Context) (journal, outbox map[string]int, err error)
	Database func() DatabaseLoad // shared with other servers; nil if it is not shared
	// Names and Routes have the labels of series that begin at 0.
	Names  func() Names
	Routes func() []web.Route
}

// DatabaseLoad is how it stands with a database that servers share.
type DatabaseLoad struct {
	Up       bool
	Replicas int // that are there, this one among them
}

// Watch asks these sources from now on.
func (m *Metrics) Watch(s Sources) { m.sources.of.Store(&s) }

// sources is the collector of what is asked for.
type sources struct {
	of  atomic.Pointer[Sources]
	all []*prometheus.Desc

	draining, overloaded, endedRuns, endedBytes, connections, turnedAway *prometheus.Desc
	memoryHeld, memoryWaiting, memoryRefused                             *prometheus.Desc
	turnsRunning, turnsWaiting, turnsRefused                             *prometheus.Desc
	approvals, slots, slotsRefused, journal, outbox                      *prometheus.Desc
	databaseUp, replicas                                                 *prometheus.Desc
}

// sourceTimeout keeps the metrics from hanging with a store that hangs.
const sourceTimeout = 2 * time.Second

// overloads are the limits that have a series, which is 0 below the limit.
var overloads = []string{"memory", "disk", "runs", "streams"}

func (s *sources) make(m *Metrics) {
	desc := func(name, kind, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
		s.all = append(s.all, d)
		m.described = append(m.described, Description{namespace + "_" + name, kind, help, labels})
		return d
	}
	s.turnsRunning = desc("turns_running", "gauge", "Running turns.")
	s.turnsWaiting = desc("turns_waiting", "gauge", "Messages that wait for an earlier turn or a slot.")
	s.turnsRefused = desc("turns_refused_total", "counter", "Refused messages: busy session, full queue or draining server.", "reason")
	s.approvals = desc("approvals_waiting", "gauge", "Tool calls that wait for approval.")
	s.slots = desc("upstream_slots", "gauge", "Concurrent requests allowed to a provider.", "provider")
	s.slotsRefused = desc("upstream_slots_refused_total", "counter", "Requests to a provider without a slot.", "provider")
	s.journal = desc("channel_journal_pending", "gauge", "Accepted but unfinished messages, of all replicas.", "channel")
	s.outbox = desc("channel_outbox_pending", "gauge", "Blocks that wait to be sent, of all replicas.", "channel")
	s.endedRuns = desc("ended_runs", "gauge", "Ended runs in memory.")
	s.endedBytes = desc("ended_runs_bytes", "gauge", "Their size.")
	s.connections = desc("connections", "gauge", "Open client connections.")
	s.turnedAway = desc("connections_turned_away_total", "counter", "Connections closed because their address had too many.")
	s.memoryHeld = desc("runs_memory_bytes", "gauge", "Part of limit.memory that is kept for requests and runs.")
	s.memoryWaiting = desc("runs_memory_waiting", "gauge", "Model answers that wait for memory.")
	s.memoryRefused = desc("runs_memory_refused_total", "counter", "Model answers ended for lack of memory.")
	s.overloaded = desc("overloaded", "gauge", "1 while the server refuses work because of this limit: memory, disk, runs or streams.", "limit")
	s.draining = desc("draining", "gauge", "1 while the server shuts down.")
	s.databaseUp = desc("database_up", "gauge", "1 while the database can be reached; always 1 with SQLite.")
	s.replicas = desc("replicas", "gauge", "Servers that share the database, this one included.")
	m.registry.MustRegister(s)
}

// Describe implements [prometheus.Collector].
func (s *sources) Describe(to chan<- *prometheus.Desc) {
	for _, d := range s.all {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *sources) Collect(to chan<- prometheus.Metric) {
	of := s.of.Load()
	if of == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	if of.Server != nil {
		l := of.Server()
		gauge(s.connections, float64(l.Connections))
		count(s.turnedAway, l.TurnedAway)
		gauge(s.draining, one(l.Draining))
		gauge(s.memoryHeld, float64(l.Memory.Bytes))
		gauge(s.memoryWaiting, float64(l.Memory.Waiting))
		count(s.memoryRefused, l.Memory.Refused)
		at := map[string]bool{}
		for _, limit := range l.Overloaded {
			at[limit] = true
		}
		for _, limit := range overloads {
			gauge(s.overloaded, one(at[limit]), limit)
		}
		gauge(s.endedRuns, float64(l.InMemory))
		gauge(s.endedBytes, float64(l.MemoryBytes))
	}
	if of.Lanes != nil {
		l := of.Lanes()
		gauge(s.turnsRunning, float64(l.Running))
		gauge(s.turnsWaiting, float64(l.Waiting))
		count(s.turnsRefused, l.Refused.Busy, "busy")
		count(s.turnsRefused, l.Refused.Full, "full")
		count(s.turnsRefused, l.Refused.Draining, "draining")
	}
	if of.Approvals != nil {
		gauge(s.approvals, float64(of.Approvals()))
	}
	if of.Providers != nil {
		for _, p := range of.Providers() {
			gauge(s.slots, float64(p.Max), p.Provider)
			count(s.slotsRefused, p.Refused, p.Provider)
		}
	}
	l := DatabaseLoad{Up: true, Replicas: 1}
	if of.Database != nil {
		l = of.Database()
	}
	gauge(s.databaseUp, one(l.Up))
	gauge(s.replicas, float64(l.Replicas))
	if of.Channels != nil {
		ctx, cancel := context.WithTimeout(context.Background(), sourceTimeout)
		defer cancel()
		journal, outbox, err := pending(ctx, of)
		if err != nil {
			return // the kernel logs what is wrong with its journal; unknown numbers are left out
		}
		for name, n := range journal {
			gauge(s.journal, float64(n), name)
		}
		for name, n := range outbox {
			gauge(s.outbox, float64(n), name)
		}
	}
}

func one(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
