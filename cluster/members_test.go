package cluster_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/cluster"
)

// deaths is the log of a replica. It records which others the replica declares dead, and when.
type deaths struct {
	slog.Handler // of nothing

	mu   sync.Mutex
	at   map[string][]time.Time
	then func(dead string) // is called, too; nil is nothing
}

var deathsOf sync.Map // *deaths by *cluster.Cluster

func watch(c *cluster.Cluster) *deaths {
	d, _ := deathsOf.Load(c)
	return d.(*deaths)
}

func (d *deaths) Enabled(context.Context, slog.Level) bool { return true }

func (d *deaths) Handle(_ context.Context, r slog.Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		if r.Message == "replica declared dead" {
			d.at[a.Value.String()] = append(d.at[a.Value.String()], time.Now())
			if d.then != nil {
				d.then(a.Value.String())
			}
		}
		return true
	})
	return nil
}

func (d *deaths) of(id string) []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at[id]
}

func (d *deaths) none(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.at) > 0 {
		t.Errorf("declared dead: %v", d.at)
	}
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func wantAlive(t *testing.T, c *cluster.Cluster, ids ...string) {
	t.Helper()
	if diff := cmp.Diff(ids, c.Alive()); diff != "" {
		t.Errorf("alive for %s (-want +got):\n%s", c.ID(), diff)
	}
}

func TestMembersComeLeaveDieAndReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(time.Now)
		a := join(t, d, cluster.Options{ID: "a"})
		wantAlive(t, a, "a")
		dead := watch(a)
		after(300 * time.Millisecond)
		b := join(t, d, cluster.Options{ID: "b"})
		c := join(t, d, cluster.Options{ID: "c"})
		wantAlive(t, c, "a", "b", "c")
		after(time.Second)
		wantAlive(t, a, "a", "b", "c")
		if got, want := a.Address("b"), b.ListenerAddress(); got != want {
			t.Errorf("address of b: %q, want %q", got, want)
		}

		if err := c.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		wantAlive(t, a, "a", "b")
		wantAlive(t, c, "a", "b")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		dead.none(t)

		d.stop("b", true)
		stopped := time.Now()
		after(4 * time.Second)
		wantAlive(t, a, "a", "b")
		after(3 * time.Second)
		wantAlive(t, a, "a")
		if got := a.Address("b"); got != "" {
			t.Errorf("the dead replica has the address %q", got)
		}
		if at := dead.of("b"); len(at) != 1 || at[0].Sub(stopped) < 4*time.Second || at[0].Sub(stopped) > 6*time.Second {
			t.Errorf("declared dead at %v, stopped at %v", at, stopped)
		}

		d.stop("b", false)
		after(2 * time.Second)
		wantAlive(t, a, "a", "b")
		d.stop("b", true)
		after(7 * time.Second)
		if at := dead.of("b"); len(at) != 2 {
			t.Errorf("declared dead %d times, want twice", len(at))
		}
	})
}

func TestReplicaThatDiedBeforeOthersStartedIsDeclaredDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(time.Now)
		d.rows["b"] = cluster.Replica{ID: "b", Seen: d.now().Add(-time.Hour)}
		a := join(t, d, cluster.Options{ID: "a"})
		dead := watch(a)
		after(4500 * time.Millisecond)
		dead.none(t)
		after(time.Second)
		if len(dead.of("b")) != 1 {
			t.Error("not declared dead")
		}
	})
}

// The replica that takes over deletes the row of the dead one before the others have seen that it died.
func TestEveryReplicaDeclaresADeadOneDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(time.Now)
		a := join(t, d, cluster.Options{ID: "a"})
		after(500 * time.Millisecond)
		b := join(t, d, cluster.Options{ID: "b"})
		join(t, d, cluster.Options{ID: "c"})
		deadA, deadB := watch(a), watch(b)
		for _, dead := range []*deaths{deadA, deadB} {
			dead.then = func(id string) { _ = d.Leave(t.Context(), id) }
		}
		after(10 * time.Second)
		d.stop("c", true)
		after(8 * time.Second)
		if len(deadA.of("c")) != 1 || len(deadB.of("c")) != 1 {
			t.Errorf("declared dead at %v and %v", deadA.of("c"), deadB.of("c"))
		}
	})
}

func TestDatabaseOutageKillsNobody(t *testing.T) {
	for name, outage := range map[string]struct {
		length time.Duration
		hangs  bool
		late   time.Duration // how much later b reaches the database
	}{
		"for 2 s":                          {length: 2 * time.Second},
		"for 2 s, hanging":                 {length: 2 * time.Second, hangs: true},
		"for 4 s":                          {length: 4 * time.Second},
		"for 4.9 s, hanging":               {length: 4900 * time.Millisecond, hangs: true},
		"for a minute":                     {length: time.Minute},
		"for a minute, hanging":            {length: time.Minute, hangs: true},
		"for a minute, longer for another": {length: time.Minute, late: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDatabase(time.Now)
				a := join(t, d, cluster.Options{ID: "a"})
				after(900 * time.Millisecond)
				b := join(t, d, cluster.Options{ID: "b"})
				deadA, deadB := watch(a), watch(b)
				after(10*time.Second + 50*time.Millisecond)

				d.set(func() { d.down, d.hangs, d.stopped["b"] = !outage.hangs, outage.hangs, outage.late > 0 })
				after(outage.length)
				wantAlive(t, a, "a", "b")
				d.set(func() { d.down, d.hangs = false, false })
				after(outage.late)
				d.stop("b", false)
				after(20 * time.Second)
				wantAlive(t, a, "a", "b")
				wantAlive(t, b, "a", "b")
				deadA.none(t)
				deadB.none(t)

				d.stop("b", true)
				after(7 * time.Second)
				wantAlive(t, a, "a")
			})
		})
	}
}

func TestReplicaThatWasPausedWaitsBeforeItDeclaresOthersDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(time.Now)
		a := join(t, d, cluster.Options{ID: "a"})
		b := join(t, d, cluster.Options{ID: "b"})
		join(t, d, cluster.Options{ID: "c"})
		deadA, deadB := watch(a), watch(b)
		after(10 * time.Second)
		d.stop("a", true)
		d.stop("c", true)
		after(10 * time.Second)
		if len(deadB.of("a")) != 1 || len(deadB.of("c")) != 1 {
			t.Error("b did not declare the stopped replicas dead")
		}
		deadA.none(t)
		d.stop("a", false)
		returned := time.Now()
		after(4900 * time.Millisecond)
		wantAlive(t, b, "a", "b")
		deadA.none(t)
		after(5 * time.Second)
		if at := deadA.of("c"); len(at) != 1 || at[0].Sub(returned) < 5*time.Second {
			t.Errorf("declared dead at %v, returned at %v", at, returned)
		}
		if len(deadA.of("b")) > 0 {
			t.Error("a declared b dead")
		}
	})
}

func TestListFromBeforeAPauseIsDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(time.Now)
		a := join(t, d, cluster.Options{ID: "a"})
		dead := watch(a)
		after(10*time.Second + 100*time.Millisecond)
		d.set(func() {
			d.rows["b"] = cluster.Replica{ID: "b", Seen: d.now().Add(-4500 * time.Millisecond)} // the next list says that b is dead
			d.pause = 10 * time.Second
		})
		after(2 * time.Second)
		join(t, d, cluster.Options{ID: "b"})
		after(20 * time.Second)
		wantAlive(t, a, "a", "b")
		dead.none(t)
	})
}

func TestOnlyTheClockOfTheDatabaseCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var skew time.Duration
		d := newDatabase(func() time.Time { return time.Now().Add(skew) })
		d.set(func() { skew = -1000 * time.Hour })
		a := join(t, d, cluster.Options{ID: "a"})
		b := join(t, d, cluster.Options{ID: "b"})
		deadA, deadB := watch(a), watch(b)
		after(10 * time.Second)
		for _, s := range []time.Duration{-990 * time.Hour, time.Hour, -time.Hour} { // the database moves to other machines
			d.set(func() { skew = s })
			after(10 * time.Second)
			wantAlive(t, a, "a", "b")
		}
		deadA.none(t)
		deadB.none(t)
		d.stop("b", true)
		after(7 * time.Second)
		wantAlive(t, a, "a")
	})
}

func TestCloseReturnsWhileDatabaseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(time.Now)
		a := join(t, d, cluster.Options{ID: "a"})
		d.set(func() { d.hangs = true })
		after(1500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Drain(ctx); err == nil {
			t.Error("Drain without a database returned no error")
		}
		start := time.Now()
		if err := a.Close(); err == nil {
			t.Error("Close without a database returned no error")
		}
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestDrainIsRepeatedUntilTheDatabaseReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(time.Now)
		a := join(t, d, cluster.Options{ID: "a"})
		b := join(t, d, cluster.Options{ID: "b"})
		d.set(func() { d.down = true })
		if err := b.Drain(t.Context()); err == nil {
			t.Error("Drain without a database returned no error")
		}
		d.set(func() { d.down = false })
		after(2100 * time.Millisecond)
		wantAlive(t, a, "a")
	})
}

func TestJoinWritesTheAddressThatOthersReach(t *testing.T) {
	for name, test := range map[string]struct {
		o    cluster.Options
		want string // %: the port of the listener
	}{
		"default":                      {cluster.Options{}, "127.0.0.1:%"},
		"route to the database":        {cluster.Options{Reach: "127.0.0.2:5432"}, "127.0.0.1:%"},
		"all addresses":                {cluster.Options{Listen: "0.0.0.0:0", Reach: "127.0.0.1:5432"}, "127.0.0.1:%"},
		"all addresses, host left out": {cluster.Options{Listen: ":0"}, "127.0.0.1:%"},
		"given":                        {cluster.Options{Advertise: "pod-1.example:7000"}, "pod-1.example:7000"},
	} {
		t.Run(name, func(t *testing.T) {
			c := join(t, newDatabase(time.Now), test.o)
			_, port, _ := net.SplitHostPort(c.ListenerAddress())
			if want := strings.ReplaceAll(test.want, "%", port); c.Address(c.ID()) != want {
				t.Errorf("address %q, want %q", c.Address(c.ID()), want)
			}
		})
	}
}

func TestJoinFailsWithoutDatabase(t *testing.T) {
	d := newDatabase(time.Now)
	d.down = true
	if _, err := cluster.Join(t.Context(), cluster.Options{Store: d}); err == nil {
		t.Error("joined")
	}
	d.down, d.stopped["a"] = false, true
	if _, err := cluster.Join(t.Context(), cluster.Options{Store: d, ID: "a"}); err == nil {
		t.Error("joined without a heartbeat")
	}
	d.secret = []byte("short")
	if _, err := cluster.Join(t.Context(), cluster.Options{Store: d}); err == nil {
		t.Error("joined with a short secret")
	}
}

func TestMembershipOutlivesTheContextOfJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		a, err := cluster.Join(ctx, cluster.Options{ID: "a", Store: d})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		b := join(t, d, cluster.Options{ID: "b"})
		after(10 * time.Second)
		wantAlive(t, b, "a", "b")
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}
