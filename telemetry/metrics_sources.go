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

// Sources are asked for what goes on whenever somebody reads the metrics. A nil one has nothing to say.
type Sources struct {
	Server    func() web.Load
	Lanes     func() turn.Lanes
	Approvals func() int            // calls of tools that wait for somebody's decision
	Providers func() []adapter.Load // slots
	// Channels has, by channel, the events that were accepted and are not settled, and what waits to be sent.
	Channels func(context.Context) (journal, outbox map[string]int, err error)
}

// Watch asks these sources from now on.
func (m *Metrics) Watch(s Sources) { m.sources.of.Store(&s) }

// sources is the collector of what is asked for.
type sources struct{ of atomic.Pointer[Sources] }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

var (
	draining      = desc("draining", "Is 1 while the server shuts down.")
	overloaded    = desc("overloaded", "Is 1 while the server is at this limit and refuses what needs more of it.", "limit")
	endedRuns     = desc("ended_runs", "Runs that have ended and can still be attached to.", "place")
	endedBytes    = desc("ended_runs_bytes", "What runs that have ended take up.", "place")
	turnsRunning  = desc("turns_running", "Turns of sessions that go on.")
	turnsWaiting  = desc("turns_waiting", "Messages of sessions that wait for the turn before them, or for a slot.")
	turnsRefused  = desc("turns_refused_total", "Messages of sessions that were not taken: the session was busy, too much waited (full), or the server shut down (draining).", "reason")
	approvals     = desc("approvals_waiting", "Calls of tools that wait for somebody's approval.")
	slots         = desc("upstream_slots", "Requests that may be made to a provider at once.", "provider")
	slotsRefused  = desc("upstream_slots_refused_total", "Requests to a provider that got no slot.", "provider")
	journalWaits  = desc("channel_journal_pending", "Messages of channels that were accepted and are not settled.", "channel")
	outboxWaits   = desc("channel_outbox_pending", "Blocks that wait to be sent to channels.", "channel")
	ofSources     = []*prometheus.Desc{draining, overloaded, endedRuns, endedBytes, turnsRunning, turnsWaiting, turnsRefused, approvals, slots, slotsRefused, journalWaits, outboxWaits}
	limitsOfLoad  = []string{"memory", "disk", "runs", "streams"}
	sourceTimeout = 2 * time.Second // a store that hangs does not make the metrics hang
)

// Describe implements [prometheus.Collector].
func (s *sources) Describe(to chan<- *prometheus.Desc) {
	for _, d := range ofSources {
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
		gauge(draining, flag(l.Draining))
		at := map[string]bool{}
		for _, limit := range l.Overloaded {
			at[limit] = true
		}
		for _, limit := range limitsOfLoad {
			gauge(overloaded, flag(at[limit]), limit)
		}
		gauge(endedRuns, float64(l.InMemory), "memory")
		gauge(endedBytes, float64(l.MemoryBytes), "memory")
		gauge(endedRuns, float64(l.OnDisk), "disk")
		gauge(endedBytes, float64(l.DiskBytes), "disk")
	}
	if of.Lanes != nil {
		l := of.Lanes()
		gauge(turnsRunning, float64(l.Running))
		gauge(turnsWaiting, float64(l.Waiting))
		count(turnsRefused, l.Refused.Busy, "busy")
		count(turnsRefused, l.Refused.Full, "full")
		count(turnsRefused, l.Refused.Draining, "draining")
	}
	if of.Approvals != nil {
		gauge(approvals, float64(of.Approvals()))
	}
	if of.Providers != nil {
		for _, p := range of.Providers() {
			gauge(slots, float64(p.Max), p.Provider)
			count(slotsRefused, p.Refused, p.Provider)
		}
	}
	if of.Channels != nil {
		ctx, cancel := context.WithTimeout(context.Background(), sourceTimeout)
		defer cancel()
		journal, outbox, err := of.Channels(ctx)
		if err != nil {
			return // the kernel logs what is wrong with its journal; a number that is not known is not told
		}
		for name, n := range journal {
			gauge(journalWaits, float64(n), name)
		}
		for name, n := range outbox {
			gauge(outboxWaits, float64(n), name)
		}
	}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
