//go:build unix

package nats_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/nats"
	"github.com/lingserve/lingserve/runlog/runlogtest"
	"github.com/lingserve/lingserve/tube"
)

// setUp is where a benchmark keeps its runs.
type setUp struct {
	name string
	open func(*testing.B) (keeps, reads *nats.Log) // nil: nowhere
}

var setUps = []setUp{
	{"local", func(*testing.B) (_, _ *nats.Log) { return nil, nil }},
	{"one node", func(b *testing.B) (_, _ *nats.Log) {
		s := clustertest.One(b)
		return at(b, s.URL(), true), at(b, s.URL(), true)
	}},
	{"one node that syncs each message", func(b *testing.B) (_, _ *nats.Log) { return two(b, clustertest.One(b)) }},
	{"three nodes", func(b *testing.B) (_, _ *nats.Log) { return two(b, clustertest.Three(b)) }},
	{"one node in a process of its own", func(b *testing.B) (_, _ *nats.Log) {
		url := alone(b)
		return at(b, url, true), at(b, url, true)
	}},
}

func two(b *testing.B, s *clustertest.Servers) (_, _ *nats.Log) {
	return at(b, s.URL(), false), at(b, s.URL(), false)
}

func at(b *testing.B, url string, async bool) *nats.Log {
	b.Helper()
	c, err := cluster.Open(b.Context(), cluster.Options{Servers: url})
	if err != nil {
		b.Fatal(err)
	}
	l, err := nats.Open(b.Context(), c, nats.Options{Tube: runlogtest.Tube, Async: async})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		nats.Crash(l)
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}

// alone starts a server in another process and returns its address.
func alone(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	listen := l.Addr().String()
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), exe)
	cmd.Env = append(os.Environ(), serverFolder+"="+b.TempDir(), serverListen+"="+listen)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		b.Fatalf("%q, %v", line, err)
	}
	return "nats://" + listen
}

func benchTube(id string, held bool) *tube.Tube {
	o := runlogtest.Tube()
	o.Held = held
	return tube.New(id, o)
}

// arrivals notes when each event has come to a reader.
func arrivals(tb *tube.Tube, at *[]time.Time, done *sync.WaitGroup) {
	r := tb.NewReader(0)
	done.Go(func() {
		for !r.Ended() {
			<-r.More()
			now := time.Now()
			for range r.Waiting() {
				*at = append(*at, now)
			}
		}
	})
}

func percentiles(b *testing.B, what string, sent, came []time.Time) {
	b.Helper()
	var took []time.Duration
	for i := range sent {
		took = append(took, came[i].Sub(sent[i]))
	}
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[min(len(took)-1, len(took)*p/100)].Microseconds()), fmt.Sprintf("µs-p%d-%s", p, what))
	}
}

// BenchmarkTokenLatency is what a token takes to the reader on the replica that runs it, and to one on another: CL-12.
// An iteration is a token every 20 ms.
func BenchmarkTokenLatency(b *testing.B) {
	for _, s := range setUps {
		b.Run(s.name, func(b *testing.B) {
			keeps, reads := s.open(b)
			tb := benchTube("latency", keeps != nil)
			var here, there []time.Time
			var wg sync.WaitGroup
			arrivals(tb, &here, &wg)
			if keeps != nil {
				defer keeps.Keep(runlog.Run{ID: tb.Run(), Tube: tb}).Drop()
			}
			var sent []time.Time
			token(b, tb, "word")
			sent = append(sent, time.Now())
			if keeps != nil {
				flush(b, keeps)
				tail, err := reads.Follow(b.Context(), tb.Run())
				if err != nil {
					b.Fatal(err)
				}
				defer tail.Leave()
				arrivals(tail.Tube(), &there, &wg)
			}
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for b.Loop() {
				<-tick.C
				sent = append(sent, time.Now())
				token(b, tb, "word")
			}
			_ = tb.Close("completed")
			wg.Wait()
			percentiles(b, "here", sent[1:], here[1:])
			if there != nil {
				percentiles(b, "there", sent[1:], there[1:])
			}
		})
	}
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Benchmark400Paced is what a token costs when 400 runs have 50 a second each: CL-12. An iteration is a second of that. The CPU is that
// of this process, with the servers in it but for the last one, and a reader for each run.
func Benchmark400Paced(b *testing.B) {
	const runs, pace = 400, 50
	for _, s := range setUps {
		b.Run(s.name, func(b *testing.B) {
			keeps, _ := s.open(b)
			var wg sync.WaitGroup
			var tubes []*tube.Tube
			var entries []runlog.Entry
			came := make([][]time.Time, runs)
			for i := range runs {
				tb := benchTube(fmt.Sprint("r", i), keeps != nil)
				tubes = append(tubes, tb)
				arrivals(tb, &came[i], &wg)
				if keeps != nil {
					entries = append(entries, keeps.Keep(runlog.Run{ID: tb.Run(), Tube: tb}))
				}
			}
			sent := make([][]time.Time, runs)
			before := cpu(b)
			tokens := 0
			// Runs are spread over the time between two tokens, as they are in life.
			tick := time.NewTicker(time.Second / pace / 20)
			defer tick.Stop()
			for b.Loop() {
				for range pace {
					for part := range 20 {
						<-tick.C
						for i := part; i < runs; i += 20 {
							sent[i] = append(sent[i], time.Now())
							token(b, tubes[i], "word")
							tokens++
						}
					}
				}
			}
			if keeps != nil {
				flush(b, keeps)
			}
			took := cpu(b) - before
			for i, tb := range tubes {
				_ = tb.Close("completed")
				if keeps != nil {
					entries[i].End(nil)
				}
			}
			wg.Wait()
			b.ReportMetric(float64(took.Nanoseconds())/1000/float64(tokens), "µs-CPU/token")
			percentiles(b, "here", slices.Concat(sent...), slices.Concat(trimmed(came, sent)...))
		})
	}
}

// trimmed takes the ends of runs off.
func trimmed(came, sent [][]time.Time) [][]time.Time {
	for i := range came {
		came[i] = came[i][:len(sent[i])]
	}
	return came
}
