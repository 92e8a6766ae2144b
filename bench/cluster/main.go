// Command cluster measures what it costs to store runs and to share them between replicas. It prints the tables of bench/CLUSTER.md.
//
//	go run ./bench/cluster [-runs 1,40,400] [-pace 50] [-time 10s]
//
// Runs, readers and replicas are in this process; PostgreSQL is on this machine. It needs the /proc of Linux. Errors are panics.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web"
)

const (
	maxStarts, maxServed = 500, 40 // bound the runs that are started one at a time, and those of servers, which have up to three readers each
	mark                 = "~"     // ends each token; it is in nothing else that readers get
)

func main() {
	list := flag.String("runs", "1,40,400", "numbers of concurrent runs")
	pace := flag.Int("pace", 50, "tokens per second of each run")
	period := flag.Duration("time", 10*time.Second, "time of each measurement")
	flag.Parse()
	b := &bench{pace: *pace, period: *period, started: make(chan *job, 1)}
	var counts []int
	for text := range strings.SplitSeq(*list, ",") {
		counts = append(counts, must(strconv.Atoi(text)))
	}
	dir := must(os.MkdirTemp("", "cluster"))
	defer os.RemoveAll(dir)
	if s, err := postgrestest.Start(); errors.Is(err, postgrestest.ErrMissing) {
		fmt.Fprintln(os.Stderr, "cluster: without PostgreSQL:", err)
	} else {
		defer must(s, err).Stop()
		b.postgres = s.URL()
		b.postmaster, _, _ = strings.Cut(string(must(os.ReadFile(filepath.Join(filepath.Dir(s.Socket()), "data", "postmaster.pid")))), "\n")
	}
	fmt.Printf("%s, %d processors, %s; %d tokens per second of each run.\n", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly), *pace)
	b.measureStores(counts, "sqlite:"+filepath.Join(dir, "runs.db"))
	fmt.Println("\n| runs, servers | a reader in the process, p50 / p99 ms | by HTTP | by HTTP through another replica |\n|---|---|---|---|")
	for _, n := range slices.DeleteFunc(counts, func(n int) bool { return n > maxServed }) {
		b.measureServers(n, "one, SQLite", "sqlite:"+filepath.Join(dir, "server.db"), 1)
		if b.postgres != "" {
			b.measureServers(n, "two, PostgreSQL", b.postgres, 2)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type bench struct {
	pace                 int
	period               time.Duration
	postgres, postmaster string    // its URL and process id; "": there is none
	started              chan *job // the run that was started last
}

// workflows has the workflow "paced", whose runs go on until their job ends.
func (b *bench) workflows() *flow.Registry {
	r := new(flow.Registry)
	r.Register(flow.Func("paced", "", nil, func(_ context.Context, m *ling.Manager, _ map[string]any) error {
		over := make(chan struct{})
		j := &job{tube: m.Tube(), end: func() { close(over) }}
		b.started <- j
		<-over
		j.returned = time.Now()
		return nil
	}))
	return r
}

func (b *bench) open(s run.Store) *run.Service {
	return must(run.Open(run.Options{
		Workflows: b.workflows(), Models: new(adapter.Registry), Log: slog.New(slog.DiscardHandler), Store: s, Ledger: adapter.NewLedger(0),
		Pressure: unlimited{}, Files: unlimited{}, Observer: unlimited{}, Retention: time.Minute, KeyRetention: time.Minute, RunTimeout: time.Hour,
		MaxRuns: 10_000, MaxLog: 8 << 20, MaxResult: 16 << 20, MaxBots: 256, MaxTasks: 1024, Input: 1 << 20, MemoryOfEnded: 8 << 20,
	}))
}

// start starts a run and returns how long that took. Without a service, the run is only a tube.
func (b *bench) start(s *run.Service) (j *job, took time.Duration) {
	if s == nil {
		t := tube.New("tube", run.TubeOptions(8<<20))
		return &job{tube: t, end: func() { _ = t.Close(run.StatusCompleted) }}, 0
	}
	began := time.Now()
	_, _, err := s.Start(context.Background(), &run.Request{Who: access.Local, Subject: run.Subject{Workflow: "paced"}})
	if took = time.Since(began); err != nil {
		panic(err)
	}
	return <-b.started, took
}

// measureStores measures package run alone, for each store.
func (b *bench) measureStores(counts []int, sqlite string) {
	names, services := []string{"nothing", "nothing, only a tube", "SQLite", "PostgreSQL"}, []*run.Service{b.open(nothing{}), nil}
	for _, url := range []string{sqlite, b.postgres} {
		if url != "" {
			d := must(db.Open(context.Background(), url, nil))
			defer d.Close()
			services = append(services, b.open(d.Runs()))
		}
	}
	fmt.Println("\n| runs, stored in | a token's latency, p50 / p99 ms | CPU of a token, µs | above nothing | PostgreSQL |\n|---|---|---|---|---|")
	for _, n := range counts {
		var cpus []float64
		for i, s := range services {
			jobs := make([]*job, n)
			for k := range jobs {
				jobs[k], _ = b.start(s)
				jobs[k].read(jobs[k].tube.Events(context.Background(), 0))
			}
			latencies, cpu, databaseCPU := b.measure(jobs)
			cpus = append(cpus, cpu)
			fmt.Printf("| %d, %s | %s | %.2f | %.2f | %.2f |\n", n, names[i], latencies[0], cpu, cpu-cpus[0], databaseCPU)
		}
	}
	fmt.Println("\n| one run at a time, stored in | its start, p50 / p99 ms | its end, p50 / p99 ms |\n|---|---|---|")
	for i, s := range services {
		var starts, ends []time.Duration
		for began := time.Now(); s != nil && len(starts) < maxStarts && time.Since(began) < b.period; {
			j, took := b.start(s)
			j.send()
			j.end()
			for range j.tube.Events(context.Background(), 0) { // to its end
			}
			starts, ends = append(starts, took), append(ends, time.Since(j.returned))
		}
		if s != nil {
			fmt.Printf("| %s | %s | %s |\n", names[i], percentiles(starts), percentiles(ends))
			_ = s.Close()
		}
	}
}

// measureServers measures servers that share a database: each run is at the first, and has a reader at each.
func (b *bench) measureServers(n int, name, url string, servers int) {
	var urls []string
	for range servers {
		d := must(db.Open(context.Background(), url, nil))
		defer d.Close()
		o := web.Options{Options: run.Options{Workflows: b.workflows()}, Runs: d.Runs()}
		if servers > 1 {
			o.Cluster = must(cluster.Join(context.Background(), cluster.Options{Store: d.Runs()}))
			defer o.Cluster.Close()
			o.Holder = o.Cluster.Leases("tape", d.Runs()).Holder
		}
		s := must(web.New(o))
		defer s.Close()
		h, l := s.HTTPServer(), must(s.Listen(context.Background(), "127.0.0.1:0"))
		defer h.Close()
		go h.Serve(l) // until Close
		if servers > 1 {
			o.Cluster.Serve(s.Handler())
		}
		urls = append(urls, "http://"+l.Addr().String()+"/v1/runs")
	}
	jobs := make([]*job, n)
	for i := range jobs {
		started := must(http.Post(urls[0]+"?format=sse", "application/json", strings.NewReader(`{"workflow":"paced"}`)))
		jobs[i] = <-b.started
		jobs[i].read(jobs[i].tube.Events(context.Background(), 0))
		jobs[i].read(stream(started))
		for _, url := range urls[1:] {
			jobs[i].read(stream(must(http.Get(url + "/" + jobs[i].tube.Run() + "/events?format=sse"))))
		}
	}
	l, _, _ := b.measure(jobs)
	fmt.Printf("| %d, %s | %s |\n", n, name, strings.Join(append(l, "")[:3], " | "))
}

// percentiles returns the median and the 99th percentile in milliseconds.
func percentiles(l []time.Duration) string {
	slices.Sort(l)
	return fmt.Sprintf("%.3f / %.2f", l[len(l)/2].Seconds()*1000, l[len(l)*99/100].Seconds()*1000)
}

// measure lets runs send tokens and end. It returns the percentiles of the first readers of all runs, of their second ones, and so on, and the
// processor time of a token in microseconds.
func (b *bench) measure(jobs []*job) (latencies []string, cpu, databaseCPU float64) {
	runtime.GC()
	time.Sleep(2 * run.RecordEvery) // what was before is stored
	process, _ := threadTimes("self", nil)
	database, _ := threadTimes(b.postmaster, nil)
	// The tokens of all runs are spread evenly over time.
	rate := float64(len(jobs) * b.pace)
	total := max(len(jobs), int(b.period.Seconds()*rate))
	began, pause := time.Now(), max(time.Millisecond, time.Duration(float64(time.Second)/rate))
	for n := 0; n < total; time.Sleep(pause) {
		for due := min(total, int(time.Since(began).Seconds()*rate)); n < due; n++ {
			jobs[n%len(jobs)].send()
		}
	}
	time.Sleep(2 * run.RecordEvery) // the last tokens are stored
	_, cpu = threadTimes("self", process)
	_, databaseCPU = threadTimes(b.postmaster, database)
	for _, j := range jobs {
		j.end()
		j.reading.Wait()
	}
	for k := range jobs[0].arrived {
		var all []time.Duration
		for _, j := range jobs {
			for i, arrived := range *j.arrived[k] { // more than were sent are a panic
				all = append(all, arrived.Sub(j.sent[i]))
			}
		}
		if len(all) != total {
			panic(fmt.Sprintf("readers got %d tokens of %d", len(all), total))
		}
		latencies = append(latencies, percentiles(all))
	}
	return latencies, cpu / float64(total), databaseCPU / float64(total)
}

// threadTimes returns the microseconds of processor time of the threads of a process and its children, and what they took since an earlier call.
func threadTimes(pid string, before map[string]float64) (after map[string]float64, sum float64) {
	after = map[string]float64{}
	children, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children") // there are none of "self"
	for _, pid := range append(strings.Fields(string(children)), pid) {
		for _, thread := range must(filepath.Glob("/proc/" + pid + "/task/*/schedstat")) {
			text, _ := os.ReadFile(thread) // empty: it has just ended
			first, _, _ := strings.Cut(string(text), " ")
			nanoseconds, _ := strconv.ParseFloat(first, 64)
			after[thread] = nanoseconds / 1000
			sum += max(0, after[thread]-before[thread])
		}
	}
	return after, sum
}

// job is one run.
type job struct {
	tube     *tube.Tube
	end      func()
	returned time.Time // when its workflow returned
	sent     []time.Time
	arrived  []*[]time.Time // of each reader
	reading  sync.WaitGroup
}

func (j *job) send() {
	j.sent = append(j.sent, time.Now())
	must(j.tube.Send(tube.Event{URI: []byte("answer/text"), Value: []byte("word" + mark)}))
}

// read adds a reader. Its goroutine ends with the run.
func (j *job) read(events iter.Seq2[tube.Event, error]) {
	times := new([]time.Time)
	j.arrived = append(j.arrived, times)
	j.reading.Go(func() {
		for e := range events {
			now := time.Now()
			for range bytes.Count(e.Value, []byte(mark)) {
				*times = append(*times, now)
			}
		}
	})
}

// stream reads a stream of events. What it yields has a part of the stream as its value.
func stream(response *http.Response) iter.Seq2[tube.Event, error] {
	if response.StatusCode != http.StatusOK {
		panic(response.Status)
	}
	return func(yield func(tube.Event, error) bool) {
		defer response.Body.Close()
		buffer := make([]byte, 4<<10)
		for more := true; more; {
			n, err := response.Body.Read(buffer)
			more = yield(tube.Event{Value: buffer[:n]}, nil) && err == nil
		}
	}
}

// nothing is a store that stores nothing. What is not here is not called.
type (
	nothing struct{ run.Store }
	key     = store.IdempotencyKey
)

func (nothing) Start(context.Context, store.Run, *key) (*key, error) { return nil, nil }

func (nothing) Append(context.Context, string, []store.RunBatch) ([]string, error) { return nil, nil }
func (nothing) End(context.Context, store.RunEnd) error                            { return nil }
func (nothing) Left(context.Context, string, []string, int) ([]store.Run, error)   { return nil, nil }

// unlimited is a machine that has enough of all, whose users have no files, and that counts nothing.
type unlimited struct{ run.Files }

func (unlimited) LowMemory() bool { return false }

func (unlimited) LowDisk() bool { return false }

func (unlimited) DiskBroken() bool                                                            { return false }
func (unlimited) DiskFailed()                                                                 {}
func (unlimited) Run(string, string) run.RunObserver                                          { return unlimited{} }
func (unlimited) First()                                                                      {}
func (unlimited) End(string, string)                                                          {}
func (unlimited) Open(access.Principal, string, []adapter.Part) (p []adapter.Part, err error) { return }
