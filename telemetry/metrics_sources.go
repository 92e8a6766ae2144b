package telemetry

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web"
)

// Sources are asked for what goes on whenever somebody reads the metrics. A nil one has nothing to say.
type Sources struct {
	Server    func() web.Load
	Lanes     func() turn.Lanes
	Approvals func() int            // calls of tools that wait for somebody's decision
	Providers func() []adapter.Load // slots
	// Channels has, by channel, the events that were accepted and are not settled, and what waits to be sent.
	Channels func(context.Context) (journal, outbox map[string]int, err error)
	Engine   func() EngineLoad // that is shared with other servers; nil where there is none
	// Names and Routes have what series are created for before anything happens.
	Names  func() Names
	Routes func() []web.Route
}

// EngineLoad is how it stands with an engine that is shared.
type EngineLoad struct {
	Up          bool
	Away        time.Duration // in all, until now
	Reconnects  uint64
	Replicas    int // that are there, this one among them; 0 where it is not known
	Sent, Heard Traffic
	Log         *EngineLog // of runs; nil where none is kept there
}

// Traffic is what a connection has had.
type Traffic struct{ Messages, Bytes uint64 }

// EngineLog is how far the log of runs is behind.
type EngineLog struct {
	Runs   int           // that are not stored to their end
	Behind int           // of them, those that wait for the servers longer than usual
	Oldest time.Duration // for how long the one has waited that waits longest
}

// Watch asks these sources from now on.
func (m *Metrics) Watch(s Sources) { m.sources.of.Store(&s) }

// sources is the collector of what is asked for.
type sources struct {
	of  atomic.Pointer[Sources]
	all []*prometheus.Desc

	draining, overloaded, endedRuns, endedBytes, connections, turnedAway *prometheus.Desc
	memoryHeld, memoryKept, memoryWaiting, memoryRefused                 *prometheus.Desc
	turnsRunning, turnsWaiting, turnsRefused                             *prometheus.Desc
	approvals, slots, slotsRefused, journal, outbox                      *prometheus.Desc
	engineUp, engineAway, engineReconnects, engineReplicas               *prometheus.Desc
	engineMessages, engineBytes, engineRuns, engineBehind, engineOldest  *prometheus.Desc
}

// sourceTimeout keeps the metrics from hanging with a store that hangs.
const sourceTimeout = 2 * time.Second

// overloads are what a server can have too much of, so that there is a 0 where it has not.
var overloads = []string{"memory", "disk", "runs", "streams"}

func (s *sources) make(m *Metrics) {
	desc := func(name, kind, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
		s.all = append(s.all, d)
		m.described = append(m.described, Description{namespace + "_" + name, kind, help, labels})
		return d
	}
	s.turnsRunning = desc("turns_running", "gauge", "Turns of sessions that go on.")
	s.turnsWaiting = desc("turns_waiting", "gauge", "Messages of sessions that wait for the turn before them, or for a slot.")
	s.turnsRefused = desc("turns_refused_total", "counter", "Messages of sessions that were not taken: the session was busy, too much waited (full), or the server shut down (draining).", "reason")
	s.approvals = desc("approvals_waiting", "gauge", "Calls of tools that wait for somebody's approval.")
	s.slots = desc("upstream_slots", "gauge", "Requests that may be made to a provider at once.", "provider")
	s.slotsRefused = desc("upstream_slots_refused_total", "counter", "Requests to a provider that got no slot.", "provider")
	s.journal = desc(channel.MetricJournalPending, "gauge", "Messages of channels that were accepted and are not settled; of several replicas, those of all.", "channel")
	s.outbox = desc(channel.MetricOutboxPending, "gauge", "Blocks that wait to be sent to channels; of several replicas, those of all.", "channel")
	s.endedRuns = desc("ended_runs", "gauge", "Runs that have ended and can still be attached to, by the place where they are: memory or disk.", "place")
	s.endedBytes = desc("ended_runs_bytes", "gauge", "What runs that have ended take up, by place.", "place")
	s.connections = desc("connections", "gauge", "Connections of clients that are open.")
	s.turnedAway = desc("connections_turned_away_total", "counter", "Connections that were closed for the limit: silent ones that made room, and those that came when there were far too many; those a little over the limit get a refusal.")
	s.memoryHeld = desc("runs_memory_bytes", "gauge", "What requests and runs hold of limit.memory: bodies, inputs, requests to models, answers, documents, and what ended runs still have in memory.")
	s.memoryKept = desc("runs_memory_kept_bytes", "gauge", "What is kept free of limit.memory for runs that go on: for requests that are not decoded yet, and for the ends of answers.")
	s.memoryWaiting = desc("runs_memory_waiting", "gauge", "Answers of models that are not read, since there is no memory for more of them (limit_memory).")
	s.memoryRefused = desc("runs_memory_refused_total", "counter", "Answers of models that were ended, since there was no memory for them (limit_memory).")
	s.overloaded = desc("overloaded", "gauge", "Is 1 while the server is at this limit and refuses what needs more of it: memory, disk, runs or streams.", "limit")
	s.draining = desc("draining", "gauge", "Is 1 while the server shuts down.")
	s.engineUp = desc("engine_up", "gauge", "Is 1 while the servers that replicas share can be reached and store; always 1 with engine local. The other metrics of the engine need engine nats.")
	s.engineAway = desc("engine_away_seconds_total", "counter", "Time in which they could not, or did not.")
	s.engineReconnects = desc("engine_reconnects_total", "counter", "Times that the connection to them was made anew.")
	s.engineReplicas = desc("engine_replicas", "gauge", "Replicas that are there, as this one sees it, itself among them.")
	s.engineMessages = desc("engine_messages_total", "counter", "Messages on that connection, by direction: sent or heard.", "direction")
	s.engineBytes = desc("engine_bytes_total", "counter", "Bytes of these messages.", "direction")
	s.engineRuns = desc("engine_runs_pending", "gauge", "Runs of this replica that are not stored to their end: those that go on, and those whose last messages are on their way.")
	s.engineBehind = desc("engine_runs_behind", "gauge", "Of these, runs that wait for the servers longer than usual.")
	s.engineOldest = desc("engine_behind_seconds", "gauge", "For how long the one of them has waited that waits longest.")
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
		gauge(s.memoryKept, float64(l.Memory.Kept))
		gauge(s.memoryWaiting, float64(l.Memory.Waiting))
		count(s.memoryRefused, l.Memory.Refused)
		at := map[string]bool{}
		for _, limit := range l.Overloaded {
			at[limit] = true
		}
		for _, limit := range overloads {
			gauge(s.overloaded, one(at[limit]), limit)
		}
		gauge(s.endedRuns, float64(l.InMemory), "memory")
		gauge(s.endedBytes, float64(l.MemoryBytes), "memory")
		gauge(s.endedRuns, float64(l.OnDisk), "disk")
		gauge(s.endedBytes, float64(l.DiskBytes), "disk")
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
	if of.Engine != nil {
		s.collectEngine(of.Engine(), gauge, count, to)
	} else {
		gauge(s.engineUp, 1) // all is kept by this process
	}
	if of.Channels != nil {
		ctx, cancel := context.WithTimeout(context.Background(), sourceTimeout)
		defer cancel()
		journal, outbox, err := pending(ctx, of)
		if err != nil {
			return // the kernel logs what is wrong with its journal; a number that is not known is not told
		}
		for name, n := range journal {
			gauge(s.journal, float64(n), name)
		}
		for name, n := range outbox {
			gauge(s.outbox, float64(n), name)
		}
	}
}

func (s *sources) collectEngine(l EngineLoad, gauge func(*prometheus.Desc, float64, ...string), count func(*prometheus.Desc, uint64, ...string), to chan<- prometheus.Metric) {
	gauge(s.engineUp, one(l.Up))
	to <- prometheus.MustNewConstMetric(s.engineAway, prometheus.CounterValue, l.Away.Seconds())
	count(s.engineReconnects, l.Reconnects)
	if l.Replicas > 0 {
		gauge(s.engineReplicas, float64(l.Replicas))
	}
	for direction, t := range map[string]Traffic{"sent": l.Sent, "heard": l.Heard} {
		count(s.engineMessages, t.Messages, direction)
		count(s.engineBytes, t.Bytes, direction)
	}
	if l.Log != nil {
		gauge(s.engineRuns, float64(l.Log.Runs))
		gauge(s.engineBehind, float64(l.Log.Behind))
		gauge(s.engineOldest, l.Log.Oldest.Seconds())
	}
}

func one(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
