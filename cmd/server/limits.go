package main

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/memlimit"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web"
)

// slotsOf are those of each provider.
func slotsOf(l config.Limit) adapter.Slots {
	s := adapter.Slots{Max: l.Upstream, Queue: l.UpstreamQueue, Wait: l.UpstreamWait}
	if s.Queue == 0 {
		s.Queue = -1 // to the registry, 0 is its default
	}
	return s
}

// limitsOf are those of the server. What the settings leave to the machine, it is asked.
func limitsOf(c *config.Config, log *slog.Logger) web.Limits {
	l := web.Limits{
		Memory: int64(c.Limit.Memory), Connections: c.Limit.Connections, ConnectionsPerAddress: c.Limit.ConnectionsPerAddress,
		Streams: c.Limit.Streams, StreamsPerCaller: c.Limit.StreamsPerCaller,
		Bodies: int64(c.Limit.Bodies), Input: c.Limit.Input, Images: c.Limit.Images,
		DiskFree: int64(c.Limit.DiskFree),
	}
	if l.Images == 0 {
		l.Images = -1 // to the server, 0 is its default
	}
	files := openFiles()
	switch {
	case l.Connections == 0:
		l.Connections = connectionsFor(files)
	case files > 0 && uint64(l.Connections) > files:
		log.Warn("limit.connections exceeds the open file limit",
			"limit.connections", l.Connections, "files", files)
	}
	var from string
	root := os.DirFS("/")
	l.Memory, from = limitMemory(l.Memory, debug.SetMemoryLimit(-1), memlimit.Container(root), memlimit.Machine(root), func(soft int64) { debug.SetMemoryLimit(soft) })
	log.Debug("limits", "memory", l.Memory, "memory_from", from, "connections", l.Connections, "files", files)
	return l
}

const (
	// filesBeside is how many files there are beside connections: the log, tapes that are written, programs that give tools.
	filesBeside = 128
	// connectionsMost is as many as anybody wants unasked: each takes some 30 KB.
	connectionsMost = 32_768
	// connectionsUnknown is for systems that have no such number of files.
	connectionsUnknown = 16_384
)

// connectionsFor is how many connections of clients there can be with so many files: each client may have one to a model's server.
func connectionsFor(files uint64) int {
	switch {
	case files == 0:
		return connectionsUnknown
	case files < 2*filesBeside:
		return int(max(files/4, 1))
	}
	return int(min((files-filesBeside)/2, connectionsMost))
}

// softPercent is the part of the memory that garbage may fill up, so that it is collected before the system ends the process; less where
// what is not Go's would not fit beside it: the program itself and what the system holds for connections.
const (
	softPercent = 90
	besideGo    = 32 << 20
)

// softLimit is that part, and at least half.
func softLimit(limit int64) int64 {
	return max(min(limit/100*softPercent, limit-besideGo), limit/2)
}

// machineShare is the part of the machine's memory that the process may have where nothing else says how much: one of so many.
const machineShare = 2

// limitMemory returns the memory that the process may have, and its source: the setting, GOMEMLIMIT, the container or the machine; 0 is no
// limit. A container may be allowed more than the machine has; then the machine counts. Without GOMEMLIMIT, set gives the garbage collector
// a lower limit. If that leaves little beside the memory that is not Go's, the limit is lowered too, so that the server refuses new work
// before it spends all its time on collecting.
func limitMemory(setting, goLimit, container, machine int64, set func(soft int64)) (limit int64, from string) {
	told := goLimit != math.MaxInt64
	switch {
	case setting > 0:
		limit, from = setting, "limit.memory"
	case told:
		return goLimit, "GOMEMLIMIT"
	case container > 0 && (machine <= 0 || container < machine):
		limit, from = container, "container"
	case machine > 0:
		limit, from = machine/machineShare, "machine"
	default:
		return 0, "none"
	}
	if !told {
		soft := softLimit(limit)
		set(soft)
		limit = min(limit, soft/softPercent*100)
	}
	return limit, from
}

// boundTapes bounds the sessions of a store, where they are to be.
func boundTapes(c *config.Config, store tape.Whole) (tape.Store, error) {
	if c.Limit.Sessions == 0 {
		return store, nil
	}
	bounded, err := tape.Bound(context.Background(), store, c.Limit.Sessions)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return bounded, nil
}
