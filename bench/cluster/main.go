// Command cluster measures what it costs to store runs in PostgreSQL: how much later a token reaches its reader, on the replica that runs it and
// on another one, and the processor time of a token. It prints the table of bench/CLUSTER.md.
//
//	go run ./bench/cluster [-runs 1,40,400] [-pace 50] [-time 10s]
//
// Both replicas are in this process, without HTTP. PostgreSQL is on this machine. Processor times are those of /proc: it runs on Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/store/postgres"
	"github.com/lingserve/lingserve/tube"
)

func main() {
	runs := flag.String("runs", "1,40,400", "numbers of concurrent runs")
	pace := flag.Int("pace", 50, "tokens per second of each run")
	period := flag.Duration("time", 10*time.Second, "time of each measurement")
	flag.Parse()
	if err := measureAll(context.Background(), *runs, *pace, *period); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func measureAll(ctx context.Context, list string, pace int, period time.Duration) (err error) {
	shared, err := openPostgres(ctx)
	defer func() { err = errors.Join(err, shared.close()) }()
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d processors, %s; %d tokens per second of each run.\n\n", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly), pace)
	fmt.Println("| runs, stored in | a token's latency, p50 / p99 ms | at another replica, p50 / p99 ms | CPU of a token, µs: replicas | PostgreSQL |\n|---|---|---|---|---|")
	for text := range strings.SplitSeq(list, ",") {
		runs, err := strconv.Atoi(text)
		if err != nil || runs < 1 {
			return fmt.Errorf("-runs %s: %q is not a number of runs", list, text)
		}
		for _, row := range []struct {
			name     string
			storage  *storage
			followed bool
		}{{"nothing", &storage{}, false}, {"PostgreSQL", shared, false}, {"PostgreSQL, followed", shared, true}} {
			r, err := row.storage.measure(ctx, runs, pace, period, row.followed)
			if err != nil {
				return err
			}
			fmt.Printf("| %d, %s | %s | %s | %.1f | %.1f |\n", runs, row.name, r.local, r.remote, r.cpu, r.databaseCPU)
		}
	}
	return nil
}

// storage is where two replicas store runs. The zero value stores nothing.
type storage struct {
	database      *postgrestest.Server
	local, remote *logs.Log
	closers       []func() error
	measured      int
}

func openPostgres(ctx context.Context) (s *storage, err error) {
	s = new(storage)
	if s.database, err = postgrestest.Start(); err != nil {
		return s, err
	}
	s.closers = append(s.closers, s.database.Stop)
	for i, l := range []**logs.Log{&s.local, &s.remote} {
		e, err := postgres.Open(ctx, postgres.Options{URL: s.database.URL()})
		if err != nil {
			return s, err
		}
		s.closers = append(s.closers, e.Close)
		id := fmt.Sprint("replica-", i)
		bus, err := e.Bus(ctx, id)
		if err != nil {
			return s, err
		}
		s.closers = append(s.closers, bus.Close)
		if *l, err = logs.Open(ctx, logs.Options{Logs: e, Tables: e, Bus: bus, Replica: id, Tube: tubeOptions}); err != nil {
			return s, err
		}
		s.closers = append(s.closers, (*l).Close)
	}
	return s, nil
}

func (s *storage) close() (err error) {
	for _, f := range slices.Backward(s.closers) {
		err = errors.Join(err, f())
	}
	return err
}

func tubeOptions() *tube.Options {
	return &tube.Options{Document: func() tube.Document { return new(jsonuri.Document) }}
}

// result has the latencies, sorted, and the processor time of a token in microseconds.
type result struct {
	local, remote    latencies
	cpu, databaseCPU float64
}

type latencies []time.Duration

func (l latencies) String() string {
	if len(l) == 0 {
		return ""
	}
	ms := func(percent int) float64 { return float64(l[min(len(l)-1, len(l)*percent/100)].Microseconds()) / 1000 }
	return fmt.Sprintf("%.2f / %.2f", ms(50), ms(99))
}

// stream is one run and the times of its tokens.
type stream struct {
	tube                  *tube.Tube
	entry                 runlog.Entry
	sent                  []time.Time
	localSeen, remoteSeen []time.Time
}

func (s *stream) send() error {
	s.sent = append(s.sent, time.Now())
	_, err := s.tube.Send(tube.Event{URI: []byte("answer/text"), Value: []byte("word")})
	return err
}

// watch appends the arrival of each event to times until the tube ends.
func watch(t *tube.Tube, times *[]time.Time, reading *sync.WaitGroup) {
	r := t.NewReader(0)
	reading.Go(func() {
		for !r.Ended() {
			<-r.More()
			now := time.Now()
			for range r.Waiting() {
				*times = append(*times, now)
			}
		}
	})
}

// measure has so many runs send tokens, each with a local reader and, if followed, with one at the other replica.
func (s *storage) measure(ctx context.Context, runs, pace int, period time.Duration, followed bool) (r result, err error) {
	var reading sync.WaitGroup
	s.measured++
	streams := make([]*stream, runs)
	for i := range streams {
		o := tubeOptions()
		o.Held = s.local != nil
		st := &stream{tube: tube.New(fmt.Sprintf("run-%d-%d", s.measured, i), o)}
		streams[i] = st
		watch(st.tube, &st.localSeen, &reading)
		if s.local != nil {
			st.entry = s.local.Keep(runlog.Run{ID: st.tube.Run(), Opening: []byte("{}"), Tube: st.tube})
		}
		if err := st.send(); err != nil {
			return r, err
		}
	}
	if err := s.flush(ctx); err != nil {
		return r, err
	}
	if followed {
		for _, st := range streams {
			tail, err := s.remote.Follow(ctx, st.tube.Run())
			if err != nil {
				return r, err
			}
			defer tail.Leave()
			watch(tail.Tube(), &st.remoteSeen, &reading)
		}
	}
	before, databaseBefore, err := s.cpu()
	if err != nil {
		return r, err
	}
	// The tokens of all runs are spread evenly over time.
	total := int(period.Seconds() * float64(runs*pace))
	began, tick := time.Now(), time.NewTicker(max(time.Millisecond, time.Second/time.Duration(runs*pace)))
	defer tick.Stop()
	for n := 0; n < total; {
		<-tick.C
		for due := min(total, int(time.Since(began).Seconds()*float64(runs*pace))); n < due; n++ {
			if err := streams[n%runs].send(); err != nil {
				return r, err
			}
		}
	}
	if err := s.flush(ctx); err != nil {
		return r, err
	}
	after, databaseAfter, err := s.cpu()
	if err != nil {
		return r, err
	}
	r.cpu = float64((after - before).Microseconds()) / float64(total)
	r.databaseCPU = float64((databaseAfter - databaseBefore).Microseconds()) / float64(total)
	for _, st := range streams {
		if err := st.tube.Close("completed"); err != nil {
			return r, err
		}
		if st.entry != nil {
			st.entry.End(nil)
		}
	}
	if err := s.flush(ctx); err != nil {
		return r, err
	}
	reading.Wait()
	for _, st := range streams {
		for i := 1; i < len(st.sent); i++ { // the first one was sent before
			r.local = append(r.local, st.localSeen[i].Sub(st.sent[i]))
			if followed {
				r.remote = append(r.remote, st.remoteSeen[i].Sub(st.sent[i]))
			}
		}
	}
	slices.Sort(r.local)
	slices.Sort(r.remote)
	return r, nil
}

func (s *storage) flush(ctx context.Context) error {
	if s.local == nil {
		return nil
	}
	return s.local.Flush(ctx)
}

// cpu returns the processor time of this process and of all processes of the database.
func (s *storage) cpu() (process, database time.Duration, err error) {
	if process, _, err = processTime(os.Getpid()); err != nil || s.database == nil {
		return process, 0, err
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.database.Socket()), "data", "postmaster.pid"))
	if err != nil {
		return 0, 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		return 0, 0, err
	}
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, 0, err
	}
	for _, path := range paths {
		pid, _ := strconv.Atoi(filepath.Base(path))
		if took, parent, err := processTime(pid); err == nil && (pid == postmaster || parent == postmaster) { // else it has ended
			database += took
		}
	}
	return process, database, nil
}

// processTime reads the processor time of a process from /proc, in steps of 10 ms, and its parent.
func processTime(pid int) (took time.Duration, parent int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // from the state on, which follows the name
	const ppid, user, system = 1, 11, 12
	if len(fields) <= system {
		return 0, 0, fmt.Errorf("process %d: unknown form of stat", pid)
	}
	var numbers [3]int
	for i, field := range []int{ppid, user, system} {
		if numbers[i], err = strconv.Atoi(fields[field]); err != nil {
			return 0, 0, err
		}
	}
	return time.Duration(numbers[1]+numbers[2]) * 10 * time.Millisecond, numbers[0], nil
}
