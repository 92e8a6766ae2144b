package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// process is a part of the benchmark that runs by itself.
type process struct {
	pid  int
	stop func() // ends it at once
	addr string
	in   io.WriteCloser // nil where nobody is told anything
	out  *bufio.Reader
	end  func() error // waits for its end
}

// startPart starts this program again as one of its parts, which prints its address first.
func startPart(part string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := start(exec.Command(self, append([]string{part}, args...)...))
	if err != nil {
		return nil, err
	}
	line, err := p.line()
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: %w", part, err)
	}
	p.addr = line
	return p, nil
}

func start(cmd *exec.Cmd) (*process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return &process{pid: cmd.Process.Pid, stop: stop, in: in, out: bufio.NewReader(out), end: cmd.Wait}, nil
}

func (p *process) line() (string, error) {
	line, err := p.out.ReadString('\n')
	return strings.TrimSpace(line), err
}

// cpu is the processor time that the process has taken, summed over its threads (Go's do not end), in nanoseconds of the
// scheduler's own count.
func (p *process) cpu() (time.Duration, error) {
	dir := fmt.Sprintf("/proc/%d/task", p.pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, t := range tasks {
		b, err := os.ReadFile(filepath.Join(dir, t.Name(), "schedstat"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return 0, err
		}
		first, _, _ := strings.Cut(string(b), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// rss is the memory that the process has, in bytes.
func (p *process) rss() (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return kb << 10, err
		}
	}
	return 0, errors.New("no VmRSS in /proc")
}

// machine says what the figures were measured on.
func machine() string {
	cpu := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores; %s; %s/%s; %s\n", cpu, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, time.Now().Format(time.DateOnly))
}
