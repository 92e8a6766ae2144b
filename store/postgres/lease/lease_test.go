package lease

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres"
	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
)

// envLease makes the test binary a process that holds the lease of tape a in that schema until its input ends.
const envLease = "POSTGRES_TEST_LEASE"

func holdLease() error {
	e, err := postgres.Open(context.Background(), postgres.Options{URL: os.Getenv(envURL), Schema: os.Getenv(envLease)})
	if err == nil {
		_, err = New(e.Database()).Lease(context.Background(), "a", false)
	}
	if err == nil {
		_, _ = io.WriteString(os.Stdout, "held\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	return err
}

// expire makes a lease one that was not renewed for long, as if its holder had been stopped.
func expire(t *testing.T, s *Leases, name string) {
	t.Helper()
	if tag, err := s.db.Pool.Exec(t.Context(), `UPDATE leases SET expires = clock_timestamp() - interval '1 second' WHERE name = $1`, name); err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%v, %v", tag, err)
	}
}

func must(t *testing.T, s *Leases, name string) *lease {
	t.Helper()
	l, err := s.Lease(t.Context(), name, false)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*lease)
}

// TU-68
func TestTheLeaseOfADeadProcessEnds(t *testing.T) {
	s := open(t, "", nil)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), envLease+"="+s.db.Schema, envURL+"="+server.URL())
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 5)
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "held\n" {
		t.Fatalf("the child says %q, %v", said, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if _, err := s.Lease(t.Context(), "a", false); !errors.Is(err, tape.ErrLeased) {
		t.Errorf("at once: %v", err)
	}
	var left float64
	if err := s.db.Pool.QueryRow(t.Context(), `SELECT extract(epoch FROM expires - clock_timestamp())::float8 FROM leases WHERE name = 'a'`).Scan(&left); err != nil || left <= 0 || left > 30 {
		t.Errorf("it ends in %v s, %v, want 30 at most", left, err)
	}
	expire(t, s, "a")
	must(t, s, "a").Release()
	var rows int
	if err := s.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM leases`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d leases are left, %v", rows, err)
	}
}

// TU-68
func TestOneHolderAtATime(t *testing.T) {
	var holders, turns atomic.Int32
	var all sync.WaitGroup
	for range 3 {
		s := open(t, "", nil) // as if each were a process
		for range 2 {
			all.Go(func() {
				for range 10 {
					l, err := s.Lease(t.Context(), "a", true)
					if err != nil {
						t.Error(err)
						return
					}
					if n := holders.Add(1); n != 1 {
						t.Errorf("%d holders", n)
					}
					turns.Add(1)
					holders.Add(-1)
					l.Release()
				}
			})
		}
	}
	all.Wait()
	if turns.Load() != 60 {
		t.Errorf("%d turns", turns.Load())
	}
}

// Whoever waits is told, and does not only look now and then.
func TestALeaseThatIsGivenBackIsTakenAtOnce(t *testing.T) {
	one, two := open(t, "", nil), open(t, "", nil)
	var total time.Duration
	const rounds = 5
	for range rounds {
		l := must(t, one, "a")
		released := make(chan time.Time, 1)
		taken := make(chan time.Time, 1)
		go func() {
			defer close(taken)
			l, err := two.Lease(t.Context(), "a", true)
			taken <- time.Now()
			if err != nil {
				t.Error(err)
				return
			}
			l.Release()
		}()
		for { // until it waits and listens
			var listening bool
			if err := one.db.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query = 'LISTEN ' || $1 AND state = 'idle')`, two.channel).Scan(&listening); err != nil {
				t.Fatal(err)
			}
			if listening {
				break
			}
		}
		l.Release()
		released <- time.Now()
		total += (<-taken).Sub(<-released)
		<-taken // given back, too
	}
	longtest.Within(t, "to take leases that are given back", total, rounds*leasePoll/2)
}

// A lease that is renewed is not lost, however long it is held; one that nobody took meanwhile is still the holder's.
func TestRenewing(t *testing.T) {
	s := open(t, "", nil)
	held := []*lease{must(t, s, "a"), must(t, s, "b"), must(t, s, "c")}
	expire(t, s, "b")
	before := held[0].until
	if !s.renewOnce() {
		t.Fatal("the database does not answer")
	}
	for _, l := range held {
		var left float64
		if err := s.db.Pool.QueryRow(t.Context(), `SELECT extract(epoch FROM expires - clock_timestamp())::float8 FROM leases WHERE name = $1`, l.name).Scan(&left); err != nil || left < leaseTime.Seconds()/2 {
			t.Errorf("%s ends in %v s, %v", l.name, left, err)
		}
		select {
		case <-l.Lost():
			t.Errorf("%s is lost", l.name)
		default:
		}
		if !l.until.After(before) {
			t.Errorf("%s is taken for one that ends at %v, as before", l.name, l.until)
		}
		l.Release()
	}
}

// An append that hangs in the middle, and holds its lease's row, keeps no other lease from being renewed.
func TestRenewingWaitsForNobody(t *testing.T) {
	s := open(t, "", nil)
	a, b := must(t, s, "a"), must(t, s, "b")
	tx, err := s.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM leases WHERE name = 'a' FOR SHARE`); err != nil {
		t.Fatal(err)
	}
	untilA, untilB, began := a.until, b.until, time.Now()
	if !s.renewOnce() {
		t.Error("nothing was renewed")
	}
	longtest.Within(t, "to renew what nobody holds up", time.Since(began), database.LockTime/2)
	if a.until != untilA || !b.until.After(untilB) {
		t.Errorf("the first ends at %v, was %v; the second at %v, was %v", a.until, untilA, b.until, untilB)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !s.renewOnce() || !a.until.After(untilA) {
		t.Errorf("then the first ends at %v, was %v", a.until, untilA)
	}
	for _, l := range []*lease{a, b} {
		select {
		case <-l.Lost():
			t.Errorf("%s is lost", l.name)
		default:
		}
		l.Release()
	}
}

// The holder knows before anybody else has it that a lease was not renewed in time.
func TestALeaseIsLostWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	server := start(t)
	var log notes
	s := open(t, server.URL(), log.logger())
	l := must(t, s, "a")
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	l.until = time.Now().Add(300 * time.Millisecond) // as if it had not been renewed for long
	s.mu.Unlock()
	if s.renewOnce() {
		t.Error("it was renewed")
	}
	// The goroutine looks when the lease was to be renewed, at the latest.
	select {
	case <-l.Lost():
	case <-time.After(time.Minute): // which only a failure takes
		t.Error("the holder was not told")
	}
	if !strings.Contains(log.String(), "lost a lease") {
		t.Errorf("the log says %s", log.String())
	}
	began := time.Now()
	l.Release()
	longtest.Within(t, "to give back what is lost", time.Since(began), leaseGiven)
}

// A call that waits ends when the leases are closed, and a name that nobody waits for is forgotten.
func TestClosingEndsThoseWhoWait(t *testing.T) {
	one, two := open(t, "", nil), open(t, "", nil)
	l := must(t, one, "a")
	defer l.Release()
	ended := make(chan error, 1)
	go func() {
		_, err := two.Lease(context.WithoutCancel(t.Context()), "a", true)
		ended <- err
	}()
	for { // until it waits
		two.mu.Lock()
		n := len(two.waits)
		two.mu.Unlock()
		if n > 0 {
			break
		}
		runtime.Gosched()
	}
	two.Close()
	if err := <-ended; !errors.Is(err, store.ErrClosed) {
		t.Errorf("whoever waited got %v", err)
	}
	if n := len(two.waits); n > 0 {
		t.Errorf("%d names are waited for by nobody", n)
	}
	if !l.Held() {
		t.Error("the holder has lost it")
	}
}

// A lease is taken and given back over connections that break.
func TestALeaseOverABrokenConnection(t *testing.T) {
	need(t)
	proxy := postgrestest.NewProxy(t, server.Socket())
	s := open(t, proxy.URL(), nil)
	for range 3 {
		proxy.Break()
		l := must(t, s, "a")
		proxy.Break()
		l.Release()
	}
}

func BenchmarkLease(b *testing.B) {
	s := open(b, "", nil)
	for b.Loop() {
		l, err := s.Lease(b.Context(), "a", true)
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}
