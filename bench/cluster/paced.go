package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/store"
	storenats "github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/tube"
)

func tubeOptions() *tube.Options {
	return &tube.Options{Document: func() tube.Document { return new(jsonuri.Document) }}
}

// result is what was seen of some runs.
type result struct {
	here, there  latency
	cpu, servers float64 // µs a token
	more         float64 // than in the same round where runs are kept nowhere
	tokens       float64 // a message
	taken        float64 // part of the processors' time that others were given
}

// middle is what was seen in some rounds.
func middle(rounds []figures, of func(figures) result) (r result) {
	number := func(n func(result) float64) float64 {
		all := make([]float64, len(rounds))
		for i, f := range rounds {
			all[i] = n(of(f))
		}
		slices.Sort(all)
		return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
	}
	for _, f := range rounds {
		r.here, r.there = append(r.here, of(f).here...), append(r.there, of(f).there...)
	}
	slices.Sort(r.here)
	slices.Sort(r.there)
	r.cpu = number(func(r result) float64 { return r.cpu })
	r.more = number(func(r result) float64 { return r.more })
	r.servers = number(func(r result) float64 { return r.servers })
	r.tokens = number(func(r result) float64 { return r.tokens })
	r.taken = number(func(r result) float64 { return r.taken })
	return r
}

// latency are times from a token's sending to its reader, sorted.
type latency []time.Duration

func (l latency) String() string {
	if len(l) == 0 {
		return ""
	}
	at := func(p int) float64 { return float64(l[min(len(l)-1, len(l)*p/100)].Microseconds()) / 1000 }
	return fmt.Sprintf("%.2f / %.2f", at(50), at(99))
}

// arrivals are when each event has come to a reader.
type arrivals []time.Time

// watch reads a tube to its end.
func (a *arrivals) watch(t *tube.Tube, done *sync.WaitGroup) {
	r := t.NewReader(0)
	done.Go(func() {
		for !r.Ended() {
			<-r.More()
			now := time.Now()
			for range r.Waiting() {
				*a = append(*a, now)
			}
		}
	})
}

// slots are the parts of the time between two tokens of a run over which runs are spread, as they are in life.
const slots = 100

// warmUp is how long tokens are sent before anything is measured.
const warmUp = 2 * time.Second

// paced has so many runs send tokens at a pace, each with a reader here, and one there where they are followed.
func (p *place) paced(ctx context.Context, runs, pace int, took time.Duration, followed bool) (r result, err error) {
	tubes := make([]*tube.Tube, runs)
	entries := make([]runlog.Entry, runs)
	here, there := make([]arrivals, runs), make([]arrivals, runs)
	sent := make([][]time.Time, runs)
	send := func(i int) error {
		sent[i] = append(sent[i], time.Now())
		_, err := tubes[i].Send(tube.Event{URI: []byte("answer/text"), Value: []byte("word")})
		return err
	}
	var reading sync.WaitGroup
	p.rounds++
	for i := range runs {
		o := tubeOptions()
		o.Held = p.here != nil
		tubes[i] = tube.New(fmt.Sprintf("run-%d-%d", p.rounds, i), o)
		here[i].watch(tubes[i], &reading)
		if p.here != nil {
			entries[i] = p.here.Keep(runlog.Run{ID: tubes[i].Run(), Opening: []byte("{}"), Tube: tubes[i]})
		}
		if err := send(i); err != nil {
			return r, err
		}
	}
	if p.here != nil {
		if err := p.here.Flush(ctx); err != nil {
			return r, err
		}
	}
	if followed {
		for i, t := range tubes {
			tail, err := p.there.Follow(ctx, t.Run())
			if err != nil {
				return r, err
			}
			defer tail.Leave()
			there[i].watch(tail.Tube(), &reading)
		}
	}
	first, tokens := 0, 0
	var before usage
	if err := ticks(ctx, time.Second/time.Duration(pace)/slots, func(n int, passed time.Duration) (bool, error) {
		if n%slots == 0 {
			if first == 0 && passed >= warmUp {
				first = len(sent[0])
				if before, err = p.usage(ctx); err != nil {
					return false, err
				}
			} else if passed >= warmUp+took {
				return false, nil
			}
		}
		for i := n % slots; i < runs; i += slots {
			if err := send(i); err != nil {
				return false, err
			}
			if first > 0 {
				tokens++
			}
		}
		return true, nil
	}); err != nil {
		return r, err
	}
	after, err := p.usage(ctx)
	if err != nil {
		return r, err
	}
	for i, t := range tubes {
		if err := t.Close("completed"); err != nil {
			return r, err
		}
		if p.here != nil {
			entries[i].End(nil)
		}
	}
	reading.Wait()
	if p.here != nil {
		if err := p.here.Flush(ctx); err != nil {
			return r, err
		}
	}
	for i := range runs {
		for k := first; k < len(sent[i]); k++ {
			r.here = append(r.here, here[i][k].Sub(sent[i][k]))
			if followed {
				r.there = append(r.there, there[i][k].Sub(sent[i][k]))
			}
		}
	}
	slices.Sort(r.here)
	slices.Sort(r.there)
	r.cpu = float64(after.own-before.own) / float64(tokens) / 1000
	r.servers = float64(after.servers-before.servers) / float64(tokens) / 1000
	r.taken = after.processors.takenSince(before.processors)
	if n := after.messages - before.messages; n > 0 {
		r.tokens = float64(tokens) / float64(n)
	}
	return r, nil
}

// usage is what was used up to now.
type usage struct {
	own, servers time.Duration // processor time
	messages     uint64
	processors   processorTicks
}

func (p *place) usage(ctx context.Context) (u usage, err error) {
	if u.own, err = processTime(os.Getpid()); err != nil {
		return u, err
	}
	if u.processors, err = readTicks(); err != nil {
		return u, err
	}
	for _, s := range p.servers {
		t, err := processTime(s.Process.Pid)
		if err != nil {
			return u, err
		}
		u.servers += t
	}
	if p.database != nil {
		t, err := databaseTime(p.database)
		if err != nil {
			return u, err
		}
		u.servers += t
	}
	if p.cluster != nil {
		for _, name := range []string{"LOG_runs", "LOG_pages"} {
			stream, err := p.cluster.JetStream().Stream(ctx, p.cluster.Name(name))
			if err != nil {
				return u, err
			}
			u.messages += stream.CachedInfo().State.LastSeq
		}
	}
	return u, nil
}

// processTime is what a process has used, in steps of 10 ms.
func processTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	const user, system, tick = 11, 12, 10 * time.Millisecond // from the state, which is the first behind the name
	if len(fields) <= system {
		return 0, fmt.Errorf("process %d: an unknown form of stat", pid)
	}
	u, err := strconv.ParseInt(fields[user], 10, 64)
	if err != nil {
		return 0, err
	}
	s, err := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+s) * tick, err
}

// serverCache is more than a server keeps what was read, or written. It is in this process where it is embedded.
const serverCache = 12 * time.Second

func settled() int64 {
	time.Sleep(serverCache)
	return heap()
}

// sessions is how much the list of so many of them takes, in MiB.
func (p *place) sessions(ctx context.Context, n int) (float64, error) {
	tables := storenats.Open(p.cluster, storenats.Options{})
	writer, err := logs.Open(ctx, tables, logs.Options{Durability: store.Synced})
	if err != nil {
		return 0, errors.Join(err, tables.Close())
	}
	const writers = 64
	failed := make(chan error, writers)
	for w := range writers {
		go func() {
			for i := w; i < n; i += writers {
				session := fmt.Sprintf("telegram:%d", 100_000_000+i)
				start := tape.NewAnchor(tape.AnchorStart, nil).With(tape.Meta{Session: session, Workspace: "/srv/lingserve"})
				entries := []tape.Entry{start, tape.NewMessage("user", "what is the weather like today in this city?")}
				if _, err := writer.Append(ctx, fmt.Sprintf("%016x__%016x", 7, i*7919), tape.Batch{Create: true, Entries: entries}); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range writers {
		if e := <-failed; e != nil && err == nil {
			err = e
		}
	}
	if e := errors.Join(writer.Close(), tables.Close()); err != nil || e != nil {
		return 0, fmt.Errorf("sessions are not made: %w", errors.Join(err, e))
	}
	tables = storenats.Open(p.other, storenats.Options{})
	defer func() { _ = tables.Close() }()
	reader, err := logs.Open(ctx, tables, logs.Options{Durability: store.Synced})
	if err != nil {
		return 0, err
	}
	before := settled()
	listed := 0
	for _, err := range reader.Sessions(ctx, tape.SessionQuery{}) {
		if err != nil {
			return 0, err
		}
		listed++
	}
	size := settled() - before
	if listed != n {
		return 0, fmt.Errorf("%d sessions are listed of %d", listed, n)
	}
	return float64(size) / (1 << 20), reader.Close()
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
