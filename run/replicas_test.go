package run

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
)

// cluster is three replicas and their clients.
type cluster struct {
	world
	memory    *memory
	replicas  []*modelReplica
	lives     int
	workspace string
}

type modelReplica struct {
	s     *Service
	log   *memoryLog
	tapes tape.Whole // nil: it has no sessions
}

// end ends what the service leaves open.
func (r *modelReplica) end() {
	if r.tapes != nil {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.s.o.Turns.Drain(now)
		_ = r.tapes.Close()
	}
	r.log.wg.Wait()
}

// newCluster opens three replicas, with sessions if there is a workspace.
func newCluster(t modelT, workspace string) *cluster {
	c := &cluster{
		world: world{t: t, work: map[string]int{}, runs: map[string]*told{}, keys: map[string]string{}}, memory: newMemory(), workspace: workspace,
	}
	if workspace != "" {
		var err error
		if c.memory.tapes, err = db.Open(context.Background(), "memory", nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		c.replicas = append(c.replicas, c.open())
	}
	return c
}

func (c *cluster) close() {
	for _, r := range c.replicas {
		_ = r.s.Close()
		r.log.die()
		r.end()
	}
	if c.memory.tapes != nil {
		_ = c.memory.tapes.Close()
	}
}

// open adds a replica.
func (c *cluster) open() *modelReplica {
	c.lives++
	o := c.options()
	r := new(modelReplica)
	o.Shared, r.log = c.memory.shared(fmt.Sprint("replica", c.lives))
	if c.memory.tapes != nil {
		var err error
		if r.tapes, err = c.addSessions(&o, r.log); err != nil {
			c.t.Fatal(err)
		}
	}
	r.s = bareService(o, nil)
	r.s.wg.Go(r.s.sweepLoop)
	if err := r.s.join(); err != nil {
		c.t.Fatal(err)
	}
	return r
}

// pick chooses a replica for what happens next: most often the place of a run.
func (c *cluster) pick(t *rapid.T) *modelReplica {
	list := slices.Clone(c.replicas)
	for _, r := range c.replicas {
		for range r.s.Load().Running {
			list = append(list, r, r)
		}
	}
	r := rapid.SampledFrom(list).Draw(t, "replica")
	c.s = r.s
	return r
}

// readAll reads every run at every replica.
func (c *cluster) readAll() {
	for _, r := range c.replicas {
		if c.s = r.s; c.isAway() {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(c.runs)) {
			c.read(id, c.runs[id], 0)
		}
	}
}

// start starts a run at a replica, or repeats a request at another one.
func (c *cluster) start(t *rapid.T) {
	c.pick(t)
	req := &Request{Who: access.Local, Subject: Subject{Workflow: rapid.SampledFrom([]string{work, again}).Draw(t, "workflow")}}
	req.Input, _ = json.Marshal(map[string]int{"steps": rapid.IntRange(0, 8).Draw(t, "steps")})
	if rapid.Bool().Draw(t, "keyed") {
		req.Key = fmt.Sprint("k", rapid.IntRange(0, 3).Draw(t, "key"))
		req.Subject.Workflow, req.Input = work, json.RawMessage(`{"steps":5}`)
	}
	id, known := c.keys[req.Key]
	away := c.isAway()
	before, running := c.worked(), c.s.Load().Running
	if req.Key != "" { // a copy comes to another replica at the same time
		other := rapid.SampledFrom(c.replicas).Draw(t, "other").s
		go func() { _, _, _ = other.Start(t.Context(), req) }()
	}
	r, out, err := c.s.Start(t.Context(), req)
	synctest.Wait()
	switch {
	case errors.Is(err, ErrOverloaded) && !errors.Is(err, ErrAway) && !away && req.Key == "":
		if known || max(running, c.s.Load().Running) < modelRuns || !maps.Equal(before, c.worked()) {
			t.Fatalf("RU-67: refused, with %d runs: %v", c.s.Load().Running, err)
		}
	case errors.Is(err, ErrOverloaded), errors.Is(err, ErrExpired), errors.Is(err, ErrAway): // RU-68: the key finds it, or nothing was done
	case err != nil:
		t.Fatalf("RU-68: %v", err)
	case known && (r.ID != id || out.Kind != Replayed):
		t.Fatalf("RU-61: the key leads to %s (%v), expected %s", r.ID, out, id)
	case known:
	case c.runs[r.ID] != nil:
		t.Fatalf("%v %s", out, r.ID)
	default:
		c.runs[r.ID] = &told{workflow: req.Workflow, key: req.Key, events: map[uint64]string{}}
		if req.Key != "" {
			c.keys[req.Key] = r.ID
		}
	}
}

// isAway reports whether the store is away. What is stored is read by no one then.
func (c *cluster) isAway() bool {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	return c.memory.away || c.s.shared.Runs.(*memoryLog).paused
}

// pause stops what a replica says to the others for a while, in which they take it for dead.
func (c *cluster) pause(t *rapid.T) {
	l := c.pick(t).log
	c.readAll()
	c.memory.mu.Lock()
	paused := l.paused
	c.memory.mu.Unlock()
	if paused {
		t.Skip("it is paused")
	}
	c.memory.change(func() {
		l.paused = true
		delete(c.memory.there, l.replica)
	})
	c.memory.free(l.replica, rapid.Bool().Draw(t, "told"))
	c.tell(l.replica)
	time.AfterFunc(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds"))*time.Second, func() {
		c.memory.change(func() {
			if l.paused = false; l.handler != nil && !l.isDead() {
				c.memory.there[l.replica] = l.handler
			}
		})
	})
	synctest.Wait()
}

// tell tells the replicas that one is gone.
func (c *cluster) tell(replica string) {
	c.memory.mu.Lock()
	watch := maps.Clone(c.memory.watch)
	c.memory.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(watch)) {
		if name != replica {
			watch[name](replica)
		}
	}
}

func (c *cluster) look(t *rapid.T) {
	if c.pick(t); c.isAway() {
		t.Skip("the store is away")
	}
	c.world.look(t)
}

func (c *cluster) cancel(t *rapid.T) {
	c.pick(t)
	id, m := c.some(t)
	if c.isAway() {
		t.Skip("the store is away")
	}
	lost := rapid.IntRange(0, 3).Draw(t, "lost") == 0
	c.memory.change(func() { c.memory.lose = lost })
	defer c.memory.change(func() { c.memory.lose = false })
	r, err := c.s.Find(t.Context(), access.Local, id)
	if err != nil {
		t.Fatalf("RU-62: %v", err)
	}
	err = c.s.Cancel(t.Context(), access.Local, r)
	synctest.Wait()
	switch {
	case err == nil && m.status != "":
		t.Fatalf("RU-63: %s was canceled after its end", id)
	case err != nil && !errors.Is(err, ErrEnded) && !errors.Is(err, ErrAway) && !errors.Is(err, ErrUnknownOutcome):
		t.Fatal(err)
	}
}

// away takes the store away for a while.
func (c *cluster) away(t *rapid.T) {
	c.memory.change(func() { c.memory.away = true })
	time.AfterFunc(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds"))*time.Second, func() {
		c.memory.change(func() { c.memory.away = false })
	})
	synctest.Wait()
}

// replace puts a new replica in the place of one that ends as end has it.
func (c *cluster) replace(t *rapid.T, end func(*modelReplica)) {
	old := c.pick(t)
	n := slices.Index(c.replicas, old)
	c.readAll()
	end(old)
	old.end()
	c.replicas[n] = c.open()
	synctest.Wait()
}

// kill ends a replica without a word. Others hear of it a while later.
func (c *cluster) kill(t *rapid.T) {
	c.replace(t, func(r *modelReplica) {
		r.log.die()
		hears := time.Duration(rapid.IntRange(0, 8).Draw(t, "heard")) * time.Second
		c.memory.change(func() { delete(c.memory.there, r.log.replica) })
		c.memory.free(r.log.replica, false)
		r.s.stopWork(errClosing)
		if err := r.s.Close(); err != nil {
			c.t.Fatal(err)
		}
		time.AfterFunc(hears, func() { c.tell(r.log.replica) })
	})
}

func (c *cluster) drain(t *rapid.T) {
	c.replace(t, func(r *modelReplica) {
		for id, m := range c.runs {
			if r.s.own(id) != nil {
				m.drains++
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rapid.IntRange(0, 4).Draw(t, "patience"))*time.Second)
		defer cancel()
		if err := errors.Join(r.s.Drain(ctx), r.s.Close()); err != nil {
			c.t.Fatal(err)
		}
		r.log.die()
	})
}

// setChecks sets how many cases rapid draws in a test.
func setChecks(t *testing.T, n int) {
	before := flag.Lookup("rapid.checks").Value.String()
	if err := flag.Set("rapid.checks", strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set("rapid.checks", before) })
}

// Three replicas, their clients, and faults: RU-01 and RU-60 to RU-69, RU-72 to RU-74.
func TestRU_ThreeReplicasKeepTheirPromises(t *testing.T) {
	longtest.Only(t, "a model of three replicas with random faults")
	setChecks(t, longtest.Times(300, 5000))
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			c := newCluster(rt, "")
			defer c.close()
			rt.Repeat(map[string]func(*rapid.T){
				"start": c.start, "start more": c.start, "read": c.look, "cancel": c.cancel, "sleep": c.sleep,
				"drain": c.drain, "kill": c.kill, "pause": c.pause, "store away": c.away,
			})
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			for id, m := range c.runs {
				for _, r := range c.replicas {
					c.s = r.s
					if len(m.events) > 0 {
						c.read(id, m, slices.Max(slices.Collect(maps.Keys(m.events)))+1)
					}
					c.read(id, m, 0)
					if r, err := c.s.Find(t.Context(), access.Local, id); err != nil || !r.Ended() {
						rt.Fatalf("RU-69: %s has no end at a replica: %v", id, err)
					}
				}
				if m.status == "" {
					rt.Fatalf("RU-69: %s (%s) does not end", id, m.workflow)
				}
				if n := c.worked()[id]; m.workflow == work && n > 1 || n > MaxAttempts+m.drains {
					rt.Fatalf("RU-66: the work of %s began %d times", id, n)
				}
			}
			for _, r := range c.replicas {
				if l, h := r.s.Load(), r.s.o.Ledger.Holdings(); l.Running != 0 || h.Waiting != 0 {
					rt.Fatalf("RU-72: %+v %+v", l, h)
				}
			}
		})
	})
}
