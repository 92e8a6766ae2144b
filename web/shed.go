package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/memlimit"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// Limits bound what all callers together may have of the machine; zero is the default of a member, or no limit if it has no default.
//
// What comes when a limit is reached is refused, and what goes on is not touched. Clients that come back to a run, or repeat a request with
// an Idempotency-Key, start nothing and are let in.
//
// Connections of trusted proxies have no limit of an address; a negative number of Images is none.
type Limits struct {
	Memory                int64 `key:"memory" default:"0B" help:"memory; near it, new runs are refused; 0: GOMEMLIMIT, the container's limit, or half the machine's"`
	Connections           int   `key:"connections" default:"0" min:"0" help:"client connections; 0: from the limit of open files"`
	ConnectionsPerAddress int   `key:"connections_per_address" default:"0" min:"0" help:"connections of one address, except http.proxies; 0: half of limit.connections, or no limit for localhost"`
	Streams               int   `key:"streams" default:"20000" min:"1" help:"requests that follow or await a run"`
	StreamsPerCaller      int   `key:"streams_per_caller" default:"0" min:"0" help:"such requests of one caller; 0: half of limit.streams"`
	Bodies                int64 `key:"bodies" default:"64MiB" min:"1KiB" help:"memory for request bodies"`
	Input                 int   `key:"input" default:"1000000" min:"1" help:"characters of a request's input, instructions and earlier messages"`
	Images                int   `key:"images" default:"16" min:"0" help:"images and files of a request"`
	DiskFree              int64 `key:"disk_free" default:"64MiB" help:"free disk space that runs with a session or Idempotency-Key need; 0: no check"`
}

func (l Limits) withDefaults(maxBody int64) Limits {
	l.Streams = cmp.Or(l.Streams, 20_000)
	l.StreamsPerCaller = cmp.Or(l.StreamsPerCaller, max(1, l.Streams/2))
	l.Bodies = max(cmp.Or(l.Bodies, 64<<20), maxBody)
	l.Input = cmp.Or(l.Input, 1_000_000)
	l.Images = max(cmp.Or(l.Images, 16), 0)
	return l
}

// Words for the log and for metrics that say which limit was reached.
const (
	limitStreams          = "limit_streams"
	limitStreamsPerCaller = "limit_streams_per_caller"
	limitBody             = "limit_body"
	limitBodies           = "limit_bodies"
	limitBodiesPerCaller  = "limit_bodies_per_caller"
)

// limited is the refusal of what exceeds a limit, with the time after which it may be worth another attempt; 0 is none. limit is the word
// for the log and for metrics.
func limited(code, limit, detail string, retry time.Duration) *wire.Problem {
	p := wire.NewProblem(code, detail)
	p.Reason, p.Retry = limit, retry
	return p
}

// littleMemory is the refusal of what there may be no memory for.
func littleMemory(detail string) *wire.Problem {
	return limited(wire.CodeOverloaded, run.LimitMemory, detail, memoryRetry)
}

// Retry-After of refusals, before it is spread.
const (
	streamsRetry = 5 * time.Second
	bodiesRetry  = 2 * time.Second
	memoryRetry  = 10 * time.Second
)

// shed knows what the server has too much of. It implements [run.Pressure].
type shed struct {
	o        Limits
	log      *slog.Logger
	memory   pressure
	disk     pressure
	failedAt atomic.Int64 // when the disk failed last, in Unix nanoseconds; 0 is never

	streams ownerCounts
	bodies  ownerCounts // bytes of bodies that are being read
}

// ownerCounts counts something in total and by owner.
type ownerCounts struct {
	mu    sync.Mutex
	total int64
	by    map[string]int64
}

// add adds n, which may be negative, and returns the new counts.
func (c *ownerCounts) add(owner string, n int64) (total, ofOwner int64) {
	_ = c.admit(owner, n, func(t, o int64) *wire.Problem {
		total, ofOwner = t, o
		return nil
	})
	return total, ofOwner
}

// admit adds n unless refuse has a problem with what the counts would be.
func (c *ownerCounts) admit(owner string, n int64, refuse func(total, ofOwner int64) *wire.Problem) *wire.Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := refuse(c.total+n, c.by[owner]+n); p != nil {
		return p
	}
	if c.by == nil {
		c.by = map[string]int64{}
	}
	c.total += n
	if c.by[owner] += n; c.by[owner] == 0 {
		delete(c.by, owner)
	}
	return nil
}

// count returns the total.
func (c *ownerCounts) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

func newShed(o Limits, log *slog.Logger, data string) *shed {
	sh := &shed{o: o, log: log}
	if o.Memory > 0 {
		sh.memory = pressure{
			name: "memory", high: o.Memory / 100 * memoryHigh, low: o.Memory / 100 * memoryLow,
			read: memlimit.Used, collect: runtime.GC,
		}
	}
	if o.DiskFree > 0 && data != "" {
		// Little space is much pressure: what is read is negative.
		sh.disk = pressure{name: "disk", high: 1 - o.DiskFree, low: -o.DiskFree - o.DiskFree/4, read: func() int64 {
			free, ok := freeOn(data)
			if !ok {
				free = 1 << 62 // unknown is no reason to refuse
			}
			return -free
		}}
	}
	return sh
}

// DiskFailed notes that the disk could not store something. For [run.DiskRetry], the server starts nothing that must be stored.
func (sh *shed) DiskFailed() {
	if !sh.DiskBroken() {
		sh.log.Error("disk failed or full; refusing runs that must be stored", "limit", "disk")
	}
	sh.failedAt.Store(time.Now().UnixNano())
}

// LowMemory implements [run.Pressure].
func (sh *shed) LowMemory() bool { return sh.memory.over.Load() }

// LowDisk implements [run.Pressure].
func (sh *shed) LowDisk() bool { return sh.disk.over.Load() }

// DiskBroken implements [run.Pressure].
func (sh *shed) DiskBroken() bool {
	return time.Since(time.Unix(0, sh.failedAt.Load())) < run.DiskRetry
}

// Percents of the memory limit from which on no runs begin, and below which they do again: so it does not change with each of them. The
// rest is for the runs that go on.
const (
	memoryHigh = 85
	memoryLow  = 75
)

// pressure says whether there is too much of something. It is read from time to time, and asked for with each request.
type pressure struct {
	name      string
	high, low int64
	read      func() (used int64)
	collect   func()          // frees what can be freed; nil if nothing can
	changed   func(over bool) // called when over changes; may be nil
	over      atomic.Bool

	checks int // while there is too much; of the goroutine that checks
}

// collectEvery is the number of checks after which garbage is collected while there is too much: if nothing runs, nothing else collects it, and what
// was garbage would count forever.
const collectEvery = 8

// check reads how much there is.
func (p *pressure) check(log *slog.Logger) {
	if p.read == nil {
		return
	}
	used := p.read()
	over := p.over.Load()
	switch {
	case !over && used >= p.high:
		log.Warn("server is at a limit; refusing new work", "limit", p.name)
	case over && used < p.low:
		log.Info("server is below the limit again", "limit", p.name)
	case over && p.collect != nil:
		if p.checks++; p.checks%collectEvery == 0 {
			p.collect()
		}
		return
	default:
		return
	}
	p.over.Store(!over)
	if p.changed != nil {
		p.changed(!over)
	}
}

// checkEvery is often enough for memory that thousands of new runs would take, and too seldom to cost anything.
const checkEvery = 250 * time.Millisecond

// watch checks until ctx ends.
func (sh *shed) watch(ctx context.Context) {
	for backoff.Sleep(ctx, checkEvery) == nil {
		sh.memory.check(sh.log)
		sh.disk.check(sh.log)
	}
}

// overloaded names what the server has too much of, for those who ask whether it is ready; nil is nothing.
func (s *Server) overloaded() (list []string) {
	if s.shed.LowMemory() {
		list = append(list, "memory")
	}
	if s.shed.LowDisk() || s.shed.DiskBroken() {
		list = append(list, "disk")
	}
	if s.runs.Load().Running >= s.o.MaxRuns {
		list = append(list, "runs")
	}
	if s.shed.streams.count() >= int64(s.shed.o.Streams) {
		list = append(list, "streams")
	}
	return list
}

// follows is the middleware of requests that follow a run: it counts them. The caller "" has only the limit of all.
func (s *Server) follows(h handler) handler {
	limit, ofOne := int64(s.shed.o.Streams), int64(s.shed.o.StreamsPerCaller)
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		caller := s.countedFor(r, wire.Who(r))
		if p := s.shed.streams.admit(caller, 1, func(total, ofCaller int64) *wire.Problem {
			switch {
			case total > limit:
				detail := wording.Plural(limit, "stream") + " are open, the server's limit; retry later"
				return limited(wire.CodeOverloaded, limitStreams, detail, streamsRetry)
			case caller != "" && ofCaller > ofOne:
				detail := "you have " + wording.Plural(ofOne, "stream") + " open, the limit of one caller; close some"
				return limited(wire.CodeRateLimited, limitStreamsPerCaller, detail, streamsRetry)
			}
			return nil
		}); p != nil {
			return p
		}
		defer s.shed.streams.add(caller, -1)
		return h(w, r)
	}
}
