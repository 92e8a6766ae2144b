package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A virtual machine's processors are lent to others at times. What is measured meanwhile says more of those than of what is measured, so
// it is measured again, some times, and the quietest is taken.
const (
	lent     = 0.02
	attempts = 4
)

// quiet is paced, at a time when the machine is one's own.
func (p *place) quiet(ctx context.Context, runs, pace int, took time.Duration, followed bool) (best result, err error) {
	for i := range attempts {
		r, err := p.paced(ctx, runs, pace, took, followed)
		if err != nil {
			return r, err
		}
		if i == 0 || r.taken < best.taken {
			best = r
		}
		if best.taken <= lent {
			break
		}
	}
	return best, nil
}

// syncs is how long it takes to have some bytes on the disk that temporary files are on, which is the servers', too.
func syncs() (all latency, err error) {
	const times, size = 200, 4 << 10
	f, err := os.CreateTemp("", "bench-cluster")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, size)
	for range times {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all, nil
}

// processorTicks are those of all processors since the machine was started.
type processorTicks struct{ all, taken uint64 }

func (t processorTicks) takenSince(before processorTicks) float64 {
	return float64(t.taken-before.taken) / float64(max(1, t.all-before.all))
}

// readTicks reads the first line of /proc/stat (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq, steal, and then what is in
// those already.
func readTicks() (t processorTicks, err error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	const steal = 8
	if len(fields) <= steal || fields[0] != "cpu" {
		return t, fmt.Errorf("/proc/stat has an unknown form: %q", line)
	}
	for i, field := range fields[1 : steal+1] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return t, err
		}
		if t.all += n; i+1 == steal {
			t.taken = n
		}
	}
	return t, nil
}
