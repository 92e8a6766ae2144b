package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"strings"
)

// usage is what people do, and what the servers are.
type usage struct {
	active     float64 // share of the sessions that are used on a day
	turnsADay  float64 // of each of them
	life       float64 // turns that a session has had
	peak       float64 // the busiest time of the day beside the mean
	tokens     float64 // of an answer
	pace       float64 // tokens a second
	keepHours  float64 // of runs and keys: run.timeout and run.key_retention
	keyed      float64 // share of the runs that are started with an Idempotency-Key
	replicaRun float64 // runs at once of a replica

	// Of each of the three servers of an installation, and what of it is to be used.
	cores, memory, disk float64 // memory and disk in GiB
	share               float64
	patience            float64 // seconds that a server may take to start
}

// usual is an assistant that many have and some use.
var usual = usage{
	active: 0.1, turnsADay: 5, life: 50, peak: 3, tokens: 300, pace: 50, keepHours: 24.5, keyed: 0.5, replicaRun: 1000,
	cores: 8, memory: 32, disk: 2000, share: 0.5, patience: 120,
}

func (u *usage) flags(f *flag.FlagSet) {
	f.Float64Var(&u.active, "active", u.active, "`share` of the sessions that are used on a day")
	f.Float64Var(&u.turnsADay, "turns-a-day", u.turnsADay, "turns of each of them")
	f.Float64Var(&u.life, "life", u.life, "turns that a session has had")
	f.Float64Var(&u.peak, "peak", u.peak, "`times` the mean in the busiest time of the day")
	f.Float64Var(&u.tokens, "tokens", u.tokens, "tokens of an answer")
	f.Float64Var(&u.pace, "pace", u.pace, "tokens a second of a model; more than 50 are put together")
	f.Float64Var(&u.keepHours, "keep", u.keepHours, "`hours` that runs are kept: run.timeout and run.key_retention together")
	f.Float64Var(&u.keyed, "keyed", u.keyed, "`share` of the runs with an Idempotency-Key")
	f.Float64Var(&u.replicaRun, "replica-runs", u.replicaRun, "runs at once of a replica")
	f.Float64Var(&u.cores, "cores", u.cores, "of a NATS server")
	f.Float64Var(&u.memory, "memory", u.memory, "of a NATS server, in `GiB`")
	f.Float64Var(&u.disk, "disk", u.disk, "of a NATS server, in `GiB`")
	f.Float64Var(&u.share, "share", u.share, "`share` of all that which may be used")
	f.Float64Var(&u.patience, "patience", u.patience, "`seconds` that a NATS server may take to start after a crash")
}

// load is what so many sessions are at the busiest time.
type load struct {
	sessions, turnsADay, turns, runs       float64 // turns a second; runs at once
	runMessages, tapeMessages              float64 // stored a second
	keyMessages, leaseMessages             float64
	tapeSubjects, runSubjects, keySubjects float64
	memory, disk                           float64 // of each server, were it one installation
	cores                                  float64 // of all three
	restart, restartKilled, refill         float64 // seconds
	index                                  float64
}

// mostTokens is how many messages a second a run has at most: one in 20 ms.
const mostTokens = 50

func (u *usage) of(sessions float64, c costs) load {
	l := load{sessions: sessions, turnsADay: sessions * u.active * u.turnsADay}
	l.turns = l.turnsADay / (24 * 3600) * u.peak
	l.runs = l.turns * u.tokens / u.pace
	stored := u.tokens * min(1, mostTokens/u.pace) // messages of a run
	l.runMessages = l.turns * stored
	l.tapeMessages = l.turns * c.turnAppends
	l.leaseMessages = l.turns * c.turnLeases
	l.keyMessages = l.turns * u.keyed

	kept := l.turnsADay * u.keepHours / 24
	l.tapeSubjects, l.runSubjects, l.keySubjects = sessions, kept, kept*u.keyed
	const whole = 2 // with what Go keeps for its next collection
	l.memory = whole * (l.tapeSubjects*c.tapeSubject + l.runSubjects*c.runSubject + l.keySubjects*c.keySubject)
	l.disk = sessions*(c.sessionDisk+u.life*c.turnDisk) + kept*(c.runDisk+stored*c.tokenDisk) + l.keySubjects*c.keyDisk
	l.cores = (l.runMessages*c.tokenWork + l.turns*c.turnWork) / 1e6
	millions := (l.tapeSubjects + l.runSubjects + l.keySubjects) / 1e6
	l.restart, l.restartKilled, l.refill = millions*c.restart, millions*c.restartKilled, l.disk/c.readRate
	l.index = sessions * c.index
	return l
}

// bound is a reason for more installations than one.
type bound struct {
	name string
	need float64 // installations
}

// bounds are how many installations a load needs, for each reason.
func (u *usage) bounds(l load, c costs) []bound {
	return []bound{
		{"the leader of LOG_runs", l.runMessages / (c.runRate * u.share)},
		{"the leader of TAPES", l.tapeMessages / (c.tapeRate * u.share)},
		{"processors", l.cores / (3 * u.cores * u.share)},
		{"memory", l.memory / (u.memory * u.share * (1 << 30))},
		{"disk", l.disk / (u.disk * u.share * (1 << 30))},
		{"the start after a crash", l.restartKilled / u.patience},
		{"a million keys", l.keySubjects / mostKeys},
	}
}

// mostKeys is how many keys are known at most: beyond it the oldest are forgotten.
const mostKeys = 1_000_000

// worst is the reason that needs most.
func worst(all []bound) bound {
	w := all[0]
	for _, b := range all {
		if b.need > w.need {
			w = b
		}
	}
	return w
}

// print writes the table, in Markdown.
func (u *usage) print(w io.Writer, c costs) {
	fmt.Fprintf(w, "Computed: %.0f %% of the sessions are used on a day, %g turns each, %g× the mean at the busiest time, %g tokens an answer at %g a second, runs kept for %g h\n\n",
		u.active*100, u.turnsADay, u.peak, u.tokens, u.pace, u.keepHours)
	var loads []load
	for _, n := range []float64{1e4, 1e6, 1e8} {
		loads = append(loads, u.of(n, c))
	}
	row := func(what string, value func(l load) string) {
		cells := []string{what}
		for _, l := range loads {
			cells = append(cells, value(l))
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
	number := func(what string, value func(l load) float64) {
		row(what, func(l load) string { return count(value(l)) })
	}
	size := func(what string, value func(l load) float64) {
		row(what, func(l load) string { return bytes(uint64(value(l))) })
	}
	number("sessions", func(l load) float64 { return l.sessions })
	fmt.Fprintln(w, "|---|---:|---:|---:|")
	number("turns a day", func(l load) float64 { return l.turnsADay })
	number("turns a second, at the busiest time", func(l load) float64 { return l.turns })
	number("runs at once", func(l load) float64 { return l.runs })
	number("messages stored a second: LOG_runs", func(l load) float64 { return l.runMessages })
	number("– TAPES, synced", func(l load) float64 { return l.tapeMessages })
	number("– leases and TABLE_keys", func(l load) float64 { return l.leaseMessages + l.keyMessages })
	number("subjects: TAPES", func(l load) float64 { return l.tapeSubjects })
	number("– LOG_runs", func(l load) float64 { return l.runSubjects })
	number("– TABLE_keys, were they not bounded", func(l load) float64 { return l.keySubjects })
	size("memory of each NATS server", func(l load) float64 { return l.memory })
	size("disk of each NATS server", func(l load) float64 { return l.disk })
	number("processors of the NATS servers together", func(l load) float64 { return l.cores })
	seconds := func(what string, value func(l load) float64) {
		row(what, func(l load) string { return duration(value(l)) })
	}
	seconds("start of a NATS server that was told to end", func(l load) float64 { return l.restart })
	seconds("– that was killed", func(l load) float64 { return l.restartKilled })
	seconds("– that reads or fetches all of its data", func(l load) float64 { return l.refill })
	size("index of listings, at each replica", func(l load) float64 { return l.index })
	for i, b := range u.bounds(loads[0], c) {
		row("installations for "+b.name, func(l load) string { return fmt.Sprintf("%.2g", u.bounds(l, c)[i].need) })
	}
	number("installations of three NATS servers", func(l load) float64 { return u.installations(l, c) })
	row("what ends first", func(l load) string { return worst(u.bounds(l, c)).name })
	number("replicas, three an installation at least", func(l load) float64 { return max(3*u.installations(l, c), math.Ceil(l.runs/u.replicaRun)) })
}

// installations are as many as the worst of the bounds takes.
func (u *usage) installations(l load, c costs) float64 {
	return max(1, math.Ceil(worst(u.bounds(l, c)).need))
}

// duration is a time for people.
func duration(seconds float64) string {
	switch {
	case seconds >= 2*3600:
		return count(seconds/3600) + " h"
	case seconds >= 120:
		return count(seconds/60) + " min"
	}
	return count(seconds) + " s"
}

// count is a number for people, of two or three digits that say something.
func count(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.3g M", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.3g k", n/1e3)
	case n >= 100 || n == math.Trunc(n):
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.2g", n)
}
