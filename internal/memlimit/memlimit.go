// Package memlimit knows how much memory and how many files the process may use, and how much memory it uses.
package memlimit

import (
	"math"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// outsideGo is memory that is not Go's: the program itself, and what the system holds for connections.
const outsideGo = 32 << 20

// Set returns the memory that the process may use, and its source: the setting, GOMEMLIMIT, the container, or half of the machine; 0 is no
// limit. Without GOMEMLIMIT it sets a lower limit for the garbage collector.
func Set(setting int64) (limit int64, source string) {
	container, _ := memlimit.FromCgroup() // 0 with an error: there is no limit
	machine, _ := memlimit.FromSystem()   // 0 with an error: it is unknown
	limit, soft, source := choose(setting, debug.SetMemoryLimit(-1), int64(min(container, math.MaxInt64)), int64(machine))
	if soft > 0 {
		debug.SetMemoryLimit(soft)
	}
	return limit, source
}

// choose returns what Set does. goLimit is GOMEMLIMIT; soft is the limit for the garbage collector, 0 if it is set already. If the
// memory outside Go leaves little, limit is lower too, so that the server refuses new work before it spends all its time on collecting.
func choose(setting, goLimit, container, machine int64) (limit, soft int64, source string) {
	set := goLimit != math.MaxInt64
	switch {
	case setting > 0:
		limit, source = setting, "limit.memory"
	case set:
		return goLimit, 0, "GOMEMLIMIT"
	case container > 0 && (machine <= 0 || container < machine): // a container may be allowed more than there is
		limit, source = container, "container"
	case machine > 0:
		limit, source = machine/2, "machine"
	default:
		return 0, 0, "none"
	}
	if set {
		return limit, 0, source
	}
	soft = max(min(limit/10*9, limit-outsideGo), limit/2)
	return min(limit, soft/9*10), soft, source
}

// Used returns the bytes that the process holds and that a garbage collection would not free. What was allocated since the last collection
// counts as garbage: close to the limit, the next one is soon.
func Used() int64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples)
	n := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	garbage := max(0, n(3)-n(4))
	return n(0) - n(1) - n(2) - garbage
}

const (
	otherFiles         = 128    // the log, tapes, tools' programs
	maxConnections     = 32_768 // each takes some 30 KB
	defaultConnections = 16_384 // where the number of files is unknown
)

// Connections returns how many client connections fit into a number of open files. Each client may use another one to a provider.
func Connections(files uint64) int {
	switch {
	case files == 0:
		return defaultConnections
	case files < 2*otherFiles:
		return int(max(files/4, 1))
	}
	return int(min((files-otherFiles)/2, maxConnections))
}
