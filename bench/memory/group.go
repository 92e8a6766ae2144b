package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// group is a control group of Linux that bounds the memory of the processes in it.
type group struct {
	dir   string
	names files
}

// files are what a version of control groups calls its files.
type files struct{ root, limit, swap, peak, events string }

var versions = []files{
	{root: "/sys/fs/cgroup/memory", limit: "memory.limit_in_bytes", peak: "memory.max_usage_in_bytes", events: "memory.oom_control"},
	{root: "/sys/fs/cgroup", limit: "memory.max", swap: "memory.swap.max", peak: "memory.peak", events: "memory.events"},
}

// newGroup makes a group with a limit. It needs root.
func newGroup(limit int64) (*group, error) {
	var errs []error
	for _, names := range versions {
		g := &group{filepath.Join(names.root, "lingserve-bench-"+strconv.Itoa(os.Getpid())), names}
		if _, err := os.Stat(filepath.Join(names.root, "cgroup.procs")); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := os.Mkdir(g.dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		err := os.WriteFile(filepath.Join(g.dir, names.limit), []byte(strconv.FormatInt(limit, 10)), 0o600)
		if err == nil {
			if names.swap != "" {
				_ = os.WriteFile(filepath.Join(g.dir, names.swap), []byte("0"), 0o600) // a kernel without swap has no such file
			}
			return g, nil
		}
		errs = append(errs, err, g.remove())
	}
	return nil, fmt.Errorf("no memory control group can be made; run it as root on Linux: %w", errors.Join(errs...))
}

// by is a command that starts a program in the group, before whatever else the machine has to do.
func (g *group) by() []string {
	return []string{"/bin/sh", "-c", `echo $$ > "$0/cgroup.procs" && exec nice -n -19 "$@"`, g.dir}
}

// remove removes the group, whose processes have ended.
func (g *group) remove() error { return os.Remove(g.dir) }

// kills returns how many processes of the group the kernel has killed.
func (g *group) kills() int {
	text, _ := os.ReadFile(filepath.Join(g.dir, g.names.events))
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(count))
			return n
		}
	}
	return 0
}

// peak returns the most memory that the group has held since the last call, or since its beginning where the kernel cannot forget.
func (g *group) peak() int64 {
	name := filepath.Join(g.dir, g.names.peak)
	text, _ := os.ReadFile(name)
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	_ = os.WriteFile(name, []byte("0"), 0o600) // version 2 refuses it before Linux 6.12
	return n
}
