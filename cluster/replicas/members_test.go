package replicas

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store"
)

// quiet are the members of the replica "me" in its first life, whose table is never asked.
func quiet(now time.Time) *Members {
	m := newMembers(Options{ID: "me"}, struct{ store.Table }{})
	m.ticked = now
	m.begin(&life{number: 1, lost: make(chan struct{}), renewed: now})
	return m
}

func (m *Members) beats(id string, life, revision uint64, now time.Time) {
	meta, err := json.Marshal(beatRecord{Life: life, Name: id, Since: now.UnixMilli()})
	if err != nil {
		panic(err)
	}
	m.take(id, store.Record{Rev: revision, Meta: meta}, now)
}

// ends is what a watcher of the table is told of a replica whose record was deleted.
func (m *Members) ends(id string, revision uint64, now time.Time) {
	m.hear(store.Change{Record: store.Record{Key: replicaPrefix + id, Rev: revision}, Gone: true}, now)
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
		p.dead(begin)
		p.beats("other", 1, 2, begin)
		p.beats("me", 1, 3, begin)
		died := time.Duration(0)
		for _, at := range row.own {
			if now := begin.Add(at * time.Millisecond); len(p.dead(now)) > 0 && died == 0 {
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
	p.take("b", store.Record{Rev: 14, Meta: []byte(`{"life":1,"left":true}`)}, now)
	p.beats("b", 1, 13, now) // late
	p.ends("c", 15, now)
	p.beats("a", 2, 16, now)
	p.ends("a", 17, now)
	p.take("d", store.Record{Rev: 18, Meta: []byte("no JSON")}, now)
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
	p.takeEnd("me", 4, Died)
	if p.life == nil {
		t.Error("it has died of old news")
	}
	p.takeEnd("me", 6, Died)
	if p.life != nil {
		t.Error("the others have taken it for dead, and it goes on")
	}
}

// TestAHundredThousandLeasesAreCheap: at most 200 bytes each, their names among them (CL-12).
func TestAHundredThousandLeasesAreCheap(t *testing.T) {
	const n, most = 100_000, 200
	now := time.Now()
	p := quiet(now.Add(time.Hour)) // however long it takes to make them
	l, err := p.Leases("sessions")
	if err != nil {
		t.Fatal(err)
	}
	l.refreshed = now
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
