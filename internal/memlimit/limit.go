package memlimit

import "math"

const (
	// filesBeside is how many files there are beside connections: the log, tapes that are written, programs that give tools.
	filesBeside = 128
	// connectionsMost is as many as anybody wants unasked: each takes some 30 KB.
	connectionsMost = 32_768
	// connectionsUnknown is for systems that have no such number of files.
	connectionsUnknown = 16_384
)

// Connections returns how many client connections fit into so many open files: each client may use another one to a provider.
func Connections(files uint64) int {
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

// Limit returns the memory that the process may have, and its source: the setting, GOMEMLIMIT, the container or the machine; 0 is no
// limit. A container may be allowed more than the machine has; then the machine counts. Without GOMEMLIMIT, set gives the garbage collector
// a lower limit. If that leaves little beside the memory that is not Go's, the limit is lowered too, so that the server refuses new work
// before it spends all its time on collecting.
func Limit(setting, goLimit, container, machine int64, set func(soft int64)) (limit int64, from string) {
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
