// Package memlimit knows how much memory the process may have, and how much it has that it cannot do without.
package memlimit

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
)

// Container returns the memory that the control groups of the process allow it, the least of all that it is in; 0 is no limit. system is
// the root of the file system: os.DirFS("/"). Version 1 and 2 are understood, where they are mounted as is usual.
//
// Within a container, the folder of the group may be mounted in place of the root, while the process is still told the path that it has
// outside; then the files of the root are the container's. So all folders up to the root are looked at, and those that are not there
// are passed over.
func Container(system fs.FS) (limit int64) {
	groups, err := fs.ReadFile(system, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(groups)); lines.Scan(); {
		// hierarchy:controllers:path, where the second version has no controllers
		f := strings.SplitN(lines.Text(), ":", 3)
		if len(f) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		if f[1] != "" {
			if !contains(f[1], "memory") {
				continue
			}
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		for folder := path.Clean("/" + f[2]); ; folder = path.Dir(folder) {
			if n := read(system, path.Join(mount, folder, file)); n > 0 && (limit == 0 || n < limit) {
				limit = n
			}
			if folder == "/" {
				break
			}
		}
	}
	return limit
}

// Machine returns the memory of the machine that system is the root of, or of this one where the system says so in another way; 0 is that it is
// not known.
func Machine(system fs.FS) int64 {
	text, err := fs.ReadFile(system, "proc/meminfo")
	if err != nil {
		return machine()
	}
	for line := range strings.Lines(string(text)) {
		// MemTotal:       24683928 kB
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err == nil && n > 0 && n < unlimited>>10 {
				return n << 10
			}
		}
	}
	return 0
}

func contains(list, word string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if item == word {
			return true
		}
	}
	return false
}

// unlimited is more than any machine has: version 1 writes no limit as the largest multiple of a page.
const unlimited = 1 << 60

// read reads a number from a file; 0 where there is none, or it stands for no limit.
func read(system fs.FS, name string) int64 {
	text, err := fs.ReadFile(system, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil || n < 0 || n >= unlimited { // "max"
		return 0
	}
	return n
}

// Meter reads how much memory is in use.
type Meter struct {
	mu      sync.Mutex
	samples []metrics.Sample
}

// In the order of the samples.
const (
	total = iota
	released
	free
	objects
	live
	cycles
)

// NewMeter returns a meter.
func NewMeter() *Meter {
	m := new(Meter)
	for _, name := range []string{
		total:    "/memory/classes/total:bytes",
		released: "/memory/classes/heap/released:bytes",
		free:     "/memory/classes/heap/free:bytes",
		objects:  "/memory/classes/heap/objects:bytes",
		live:     "/gc/heap/live:bytes",
		cycles:   "/gc/cycles/total:gc-cycles",
	} {
		m.samples = append(m.samples, metrics.Sample{Name: name})
	}
	return m
}

// Read returns the bytes that the process holds and a garbage collection would not give back, and how many collections there were. What
// was allocated since the last of them counts as garbage: as the memory comes to its limit, the next one is soon.
//
// It is not the memory that the system sees: a heap may be twice as large as what lives in it while there is room, and then it is no
// reason to refuse anybody.
func (m *Meter) Read() (used int64, collections uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	metrics.Read(m.samples)
	n := func(i int) int64 { return int64(m.samples[i].Value.Uint64()) }
	garbage := max(0, n(objects)-n(live))
	return n(total) - n(released) - n(free) - garbage, m.samples[cycles].Value.Uint64()
}
