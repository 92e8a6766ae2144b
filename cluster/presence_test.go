package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
)

// quiet is the presence of the replica "me" in its first life, without servers.
func quiet(now time.Time) *Presence {
	c := &Cluster{options: Options{Prefix: "p", Grace: time.Minute, Log: slog.New(slog.DiscardHandler)}, replica: "me"}
	c.end, c.stop = context.WithCancel(context.Background())
	p := &Presence{
		c: c, kick: make(chan struct{}, 1), wake: make(chan struct{}, 1), joined: make(chan struct{}), ticked: now,
		view: map[string]*member{}, gone: map[string]uint64{}, endings: make(chan struct{}), tellers: map[*teller]struct{}{},
	}
	close(p.joined)
	p.life, p.lives = &life{number: 1, lost: make(chan struct{}), renewed: now}, 1
	return p
}

func (p *Presence) beats(id string, life, revision uint64, now time.Time) {
	value, err := json.Marshal(beatRecord{Life: life, Name: id, Since: now.UnixMilli()})
	if err != nil {
		panic(err)
	}
	p.take(id, record{revision: revision, value: value}, now)
}

// TestWhoIsDead: who is not heard of for the TTL in which this replica has heard itself.
func TestWhoIsDead(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		own  []time.Duration // when this replica hears itself; the other was heard of at 0
		want time.Duration   // when the other is dead
	}{
		{"all is well", []time.Duration{1500, 3000, 4500, 4999, 5000}, 5000},
		{"the servers are away", []time.Duration{1500, 9000, 10500, 12000, 13500, 13999, 14000}, 14000},
		{"they come and go", []time.Duration{1500, 4100, 5600, 8200, 9700, 12300, 13800, 16400}, 0},
		{"nobody was heard before", []time.Duration{8000, 9500, 11000, 12500, 13000}, 13000},
	} {
		begin := time.Now()
		p := quiet(begin)
		p.dead(1, begin)
		p.beats("other", 1, 2, begin)
		p.beats("me", 1, 3, begin)
		died := time.Duration(0)
		for _, at := range row.own {
			if now := begin.Add(at * time.Millisecond); len(p.dead(4, now)) > 0 && died == 0 {
				died = at
			}
		}
		if died != row.want {
			t.Errorf("%s: dead at %d ms, want %d", row.name, died, row.want)
		}
	}
}

// TestWhatIsKnownOfReplicas: news that comes twice, late or out of order.
func TestWhatIsKnownOfReplicas(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := quiet(now)
	p.beats("a", 1, 10, now)
	p.beats("a", 1, 12, now)
	p.beats("a", 1, 11, now) // late
	p.beats("b", 1, 13, now)
	p.take("b", record{revision: 14, marker: true, value: []byte(`{"life":1,"left":true}`)}, now)
	p.beats("b", 1, 13, now) // late
	p.take("c", record{revision: 15, marker: true}, now)
	p.beats("a", 2, 16, now)
	p.take("a", record{revision: 17, marker: true, value: []byte(`{"life":2}`)}, now)
	p.take("d", record{revision: 18, value: []byte("no JSON")}, now)
	p.beats("b", 1, 19, now)
	var got []string
	for _, c := range p.changes {
		got = append(got, fmt.Sprintf("%s%d%v", c.Replica.ID, c.Replica.Life, c.What))
	}
	want := []string{"a1came", "b1came", "b1left", "a1died", "a2came", "a2died", "b1came"}
	if !slices.Equal(got, want) {
		t.Errorf("told were %v, want %v", got, want)
	}
	if all := p.Replicas(); len(all) != 1 || all[0].ID != "b" || !p.Alive("b") || p.Alive("a") {
		t.Errorf("there are %v", all)
	}
}

// TestWhenALifeEnds by what this replica knows alone (CL-06), and when it does not because the servers are away (CL-10).
func TestWhenALifeEnds(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name            string
		renewed, ticked time.Duration // ago
		doubt           bool
		lives           bool
	}{
		{name: "it beats", renewed: time.Second, ticked: time.Second, lives: true},
		{name: "its last beat is old, and none was refused", renewed: TTL + 1, ticked: time.Second},
		{name: "the servers are away", renewed: 50 * time.Second, ticked: time.Second, doubt: true, lives: true},
		{name: "they are away for too long", renewed: 61 * time.Second, ticked: time.Second, doubt: true},
		{name: "it was stopped", renewed: TTL + 2, ticked: TTL + 1},
		{name: "it was stopped while they were away", renewed: TTL + 2, ticked: TTL + 1, doubt: true},
	} {
		now := time.Now()
		p := quiet(now)
		l := p.life
		l.renewed, l.doubt, p.ticked = now.Add(-row.renewed), row.doubt, now.Add(-row.ticked)
		p.check(now)
		lost := false
		select {
		case <-l.lost:
			lost = true
		default:
		}
		if lives := p.life == l; lives != row.lives || lost == row.lives {
			t.Errorf("%s: it lives %v, lost %v, want %v", row.name, lives, lost, row.lives)
		}
	}
	// The others have taken the key away, and this replica hears of it.
	now := time.Now()
	p := quiet(now)
	p.life.revision = 5
	p.take("me", record{revision: 4, marker: true}, now)
	if p.life == nil {
		t.Error("it has died of old news")
	}
	p.take("me", record{revision: 6, marker: true, value: []byte(`{"life":1}`)}, now)
	if p.life != nil {
		t.Error("the others have taken it for dead, and it goes on")
	}
}

// TestAHundredThousandLeasesAreCheap: at most 200 bytes each, their names among them (CL-12).
func TestAHundredThousandLeasesAreCheap(t *testing.T) {
	const n, most = 100_000, 200
	now := time.Now()
	p := quiet(now.Add(time.Hour)) // however long it takes to make them
	l := &Leases{p: p, space: "sessions", all: map[string]*lease{}, refreshed: now}
	p.leases = append(p.leases, l)
	before := heap()
	for i := range n {
		e, err := l.enter(t.Context(), fmt.Sprintf("%016x__%016x", i, i*7), false)
		if err != nil {
			t.Fatal(err)
		}
		if !l.taken(e, p.life, uint64(i), now) {
			t.Fatal("the life has ended")
		}
	}
	each := (heap() - before) / n
	t.Logf("%d bytes a lease", each)
	if each > most {
		t.Errorf("a lease has %d bytes, want %d at most", each, most)
	}
	begin := time.Now()
	p.mu.Lock()
	l.tend(now.Add(2 * refreshEvery)) // looks at all of them
	p.lose(errTaken)
	p.mu.Unlock()
	longtest.Within(t, "to lose all", time.Since(begin), time.Second)
	if n := l.Held(); n != 0 {
		t.Errorf("%d leases are held after the life has ended", n)
	}
}

func heap() int64 {
	var m runtime.MemStats
	for range 2 { // what is in a pool outlives the first
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestWhoLeavesWhileItComesBackIsSeenToLeave: its first beat was stored, and the answer had not come.
func TestWhoLeavesWhileItComesBackIsSeenToLeave(t *testing.T) {
	t.Parallel()
	c := openOne(t)
	p, err := c.Presence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.stop()
	c.running.Wait()
	p.mu.Lock()
	p.life = nil
	p.mu.Unlock()
	key := p.key(replicaSpace, c.replica)
	// Each has a second, or two, which a busy machine may exceed.
	eventually := func(do func() error) {
		t.Helper()
		err := do()
		for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); {
			err = do()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(func() error {
		_, err := p.put(t.Context(), key, beatRecord{Life: 2}, replicaLife, nil)
		return err
	})
	eventually(func() error {
		p.leave()
		r, err := p.get(t.Context(), key)
		if err == nil && (!r.marker || string(r.value) != `{"life":2,"left":true}`) {
			err = fmt.Errorf("its key has %s, marker %v", r.value, r.marker)
		}
		return err
	})
}
