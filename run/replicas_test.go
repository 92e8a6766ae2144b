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
	"github.com/lingserve/lingserve/tape"
)

// cluster is three replicas and their clients.
type cluster struct {
	world
	replicas  []*modelReplica
	workspace string
}

type modelReplica struct {
	s     *Service
	node  *node
	tapes tape.Store // nil: it has no sessions
}

// end ends what the service leaves open.
func (r *modelReplica) end() {
	if r.tapes != nil {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.s.o.Turns.Drain(now)
		_ = r.tapes.Close()
	}
}

// newCluster opens three replicas, with sessions if there is a workspace.
func newCluster(t modelT, workspace string) *cluster {
	c := &cluster{
		world: world{t: t, net: newNetwork(t), work: map[string]int{}, runs: map[string]*told{}, keys: map[string]string{}}, workspace: workspace,
	}
	c.world.other, c.world.stormy = c.reachable, func() bool { return true }
	for range 3 {
		c.replicas = append(c.replicas, c.open())
	}
	return c
}

// reachable is the service of a replica that others can reach.
func (c *cluster) reachable(replica string) *Service {
	for _, r := range c.replicas {
		c.net.mu.Lock()
		ok := r.node.id == replica && !r.node.dead && !r.node.paused
		c.net.mu.Unlock()
		if ok {
			return r.s
		}
	}
	return nil
}

func (c *cluster) close() {
	for _, r := range c.replicas {
		_ = r.s.Close()
		r.end()
	}
	_ = c.net.db.Close()
}

// open adds a replica.
func (c *cluster) open() *modelReplica {
	o := c.options()
	r := &modelReplica{node: c.net.join()}
	o.Store, o.Members, o.Holder = r.node, r.node, r.node.holder
	if c.workspace != "" {
		var err error
		if r.tapes, err = c.addSessions(&o, r.node); err != nil {
			c.t.Fatal(err)
		}
	}
	r.s = newService(bareOptions(o)) // the database may be away when it starts
	r.s.wg.Go(func() { r.s.recorder.loop(r.s.ctx) })
	r.s.wg.Go(r.s.sweepLoop)
	r.s.wg.Go(r.s.watchLeft)
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

// readAll reads every run at every replica that can be reached.
func (c *cluster) readAll() {
	for _, r := range c.replicas {
		if c.s = r.s; c.reachable(r.node.id) == nil {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(c.runs)) {
			c.read(id, c.runs[id], 0)
		}
	}
}

// begin sends a request as a client does that is forwarded.
func (c *cluster) begin(ctx context.Context, req *Request) (*Run, Outcome, error) {
	r, out, err := c.s.Start(ctx, req)
	if e, ok := errors.AsType[*Elsewhere](err); ok {
		if err = away(); c.reachable(e.Replica) != nil {
			r, out, err = c.reachable(e.Replica).Start(ctx, req)
		}
		if _, ok := errors.AsType[*Elsewhere](err); ok {
			err = away()
		}
	}
	return r, out, err
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
	before, running := c.worked(), c.s.Load().Running
	if req.Key != "" { // a copy comes to another replica at the same time
		other := rapid.SampledFrom(c.replicas).Draw(t, "other").s
		go func() { _, _, _ = other.Start(t.Context(), req) }()
	}
	r, out, err := c.begin(t.Context(), req)
	synctest.Wait()
	switch {
	case errors.Is(err, ErrOverloaded) && !errors.Is(err, ErrAway) && req.Key == "":
		if known || max(running, c.s.Load().Running) < modelRuns || !maps.Equal(before, c.worked()) {
			t.Fatalf("RU-67: refused, with %d runs: %v", c.s.Load().Running, err)
		}
	case errors.Is(err, ErrOverloaded), errors.Is(err, ErrExpired), errors.Is(err, ErrAway): // RU-68: the key finds it, or nothing was done
	case err != nil:
		t.Fatalf("RU-68: %v", err)
	case known && (r.ID != id || !out.Replayed):
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

// pause cuts a replica off the database for a while, in which the others may take it for dead.
func (c *cluster) pause(t *rapid.T) {
	r := c.pick(t)
	c.readAll()
	if c.reachable(r.node.id) == nil {
		t.Skip("it is cut off")
	}
	r.node.silence(false, time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds"))*time.Second)
	synctest.Wait()
}

func (c *cluster) look(t *rapid.T) {
	if r := c.pick(t); c.reachable(r.node.id) == nil {
		t.Skip("it is cut off")
	}
	c.world.look(t)
}

func (c *cluster) cancel(t *rapid.T) {
	if r := c.pick(t); c.reachable(r.node.id) == nil {
		t.Skip("it is cut off") // it may not know that it was replaced
	}
	id, m := c.some(t)
	r, err := c.find(id, access.Local)
	if errors.Is(err, ErrAway) {
		return
	}
	if err != nil {
		t.Fatalf("RU-62: %v", err)
	}
	err = c.s.Cancel(r)
	synctest.Wait()
	switch {
	case err == nil && m.status != "":
		t.Fatalf("RU-63: %s was canceled after its end", id)
	case err != nil && !errors.Is(err, ErrEnded):
		t.Fatal(err)
	}
}

// away takes the database away for a while.
func (c *cluster) away(t *rapid.T) {
	c.net.change(func() { c.net.away = true })
	time.AfterFunc(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds"))*time.Second, func() {
		c.net.change(func() { c.net.away = false })
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

// kill ends a replica without a word.
func (c *cluster) kill(t *rapid.T) {
	c.replace(t, func(r *modelReplica) {
		r.node.silence(true, 0)
		r.s.stopWork(errClosing)
		if err := r.s.Close(); err != nil {
			c.t.Fatal(err)
		}
	})
}

func (c *cluster) drain(t *rapid.T) {
	c.replace(t, func(r *modelReplica) {
		for id, m := range c.runs {
			if own := r.s.runsInMemory()[id]; own != nil && own.manager.Load() != nil {
				m.drains++
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rapid.IntRange(0, 4).Draw(t, "patience"))*time.Second)
		defer cancel()
		if err := errors.Join(r.s.Drain(ctx), r.s.Close()); err != nil {
			c.t.Fatal(err)
		}
		c.net.change(func() { r.node.left = true })
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
	setChecks(t, 100)
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
					if r, err := c.find(id, access.Local); err != nil || !r.Ended() {
						rt.Fatalf("RU-69: %s has no end at a replica: %v", id, err)
					}
				}
				if m.status == "" {
					rt.Fatalf("RU-69: %s (%s) does not end", id, m.workflow)
				}
				if n := c.worked()[id]; m.workflow == work && n > 1 || n > MaxCrashes+m.drains {
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
