package postgres

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
)

// envLease makes the test binary a process that holds the lease of tape a in that schema until its input ends.
const envLease = "POSTGRES_TEST_LEASE"

func holdLease() error {
	s, err := Open(context.Background(), Options{URL: os.Getenv(envURL), Schema: os.Getenv(envLease)})
	if err == nil {
		_, err = s.Lease(context.Background(), "a", false)
	}
	if err == nil {
		_, _ = io.WriteString(os.Stdout, "held\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	return err
}

// expire makes a lease one that was not renewed for long, as if its holder had been stopped.
func expire(t *testing.T, s *Store, name string) {
	t.Helper()
	if tag, err := s.db.Pool.Exec(t.Context(), `UPDATE leases SET expires = clock_timestamp() - interval '1 second' WHERE name = $1`, name); err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%v, %v", tag, err)
	}
}

func must(t *testing.T, s *Store, name string) *lease {
	t.Helper()
	l, err := s.Lease(t.Context(), name, false)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*lease)
}

// TU-68
func TestTheLeaseOfADeadProcessEnds(t *testing.T) {
	s := open(t, Options{})
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), envLease+"="+s.db.Schema)
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
		s := open(t, Options{}) // as if each were a process
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
	one, two := open(t, Options{}), open(t, Options{})
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
			if err := one.db.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query = 'LISTEN ' || $1 AND state = 'idle')`, two.keeper.channel).Scan(&listening); err != nil {
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

// CL-06: a holder that was stopped, and whose lease another has, is refused at its first append and is told. Nothing of it is on the tape.
func TestALeaseThatAnotherHasTakenIsAFence(t *testing.T) {
	one, two := open(t, Options{}), open(t, Options{})
	create(t, one, "a")
	old := must(t, one, "a")
	expire(t, one, "a")
	now := must(t, two, "a")
	e := []tape.Entry{tape.NewMessage("user", "hi")}
	fork := tape.Batch{Create: true, KeepIDs: true, Entries: []tape.Entry{{ID: 2, Kind: "x", Payload: []byte(`{}`)}}}
	for range 2 { // the second time it knows by itself
		if _, err := one.Append(t.Context(), "a", tape.Batch{Entries: e}); !errors.Is(err, tape.ErrLeased) {
			t.Errorf("an append of the one who lost it: %v", err)
		}
		if _, err := one.Append(t.Context(), "a.1-ff", fork); !errors.Is(err, tape.ErrLeased) {
			t.Errorf("an append to a fork: %v", err)
		}
		if !one.keeper.renewOnce() {
			t.Error("the database does not answer")
		}
		select {
		case <-old.Lost():
		default:
			t.Error("the holder is not told")
		}
	}
	select {
	case <-now.Lost():
		t.Error("the other is told, too")
	default:
	}
	if first, err := two.Append(t.Context(), "a", tape.Batch{Entries: e}); first != 2 || err != nil {
		t.Errorf("an append of the one who has it: %d, %v", first, err)
	}
	old.Release() // takes nothing from the other
	if !two.keeper.renewOnce() {
		t.Error("the database does not answer")
	}
	select {
	case <-now.Lost():
		t.Error("the other has lost it")
	default:
	}
	now.Release()
	if _, err := one.Append(t.Context(), "a", tape.Batch{Entries: e}); err != nil { // nobody has the lease
		t.Error(err)
	}
}

// A lease that is renewed is not lost, however long it is held; one that nobody took meanwhile is still the holder's.
func TestRenewing(t *testing.T) {
	s := open(t, Options{})
	held := []*lease{must(t, s, "a"), must(t, s, "b"), must(t, s, "c")}
	expire(t, s, "b")
	before := held[0].until
	if !s.keeper.renewOnce() {
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
	s := open(t, Options{})
	a, b := must(t, s, "a"), must(t, s, "b")
	tx, err := s.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM leases WHERE name = 'a' FOR SHARE`); err != nil {
		t.Fatal(err)
	}
	untilA, untilB, began := a.until, b.until, time.Now()
	if !s.keeper.renewOnce() {
		t.Error("nothing was renewed")
	}
	longtest.Within(t, "to renew what nobody holds up", time.Since(began), database.LockTime/2)
	if a.until != untilA || !b.until.After(untilB) {
		t.Errorf("the first ends at %v, was %v; the second at %v, was %v", a.until, untilA, b.until, untilB)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !s.keeper.renewOnce() || !a.until.After(untilA) {
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
	server := start(t, "fsync=off")
	var log notes
	s := open(t, Options{URL: server.URL(), Log: log.logger()})
	l := must(t, s, "a")
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	s.keeper.mu.Lock()
	l.until = time.Now().Add(300 * time.Millisecond) // as if it had not been renewed for long
	s.keeper.mu.Unlock()
	if s.keeper.renewOnce() {
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

// TA-41: erasing a session does not let two hold its lease.
func TestErasingATapeLeavesItsLease(t *testing.T) {
	s := open(t, Options{})
	create(t, s, "a")
	l := must(t, s, "a")
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lease(t.Context(), "a", false); !errors.Is(err, tape.ErrLeased) {
		t.Error(err)
	}
	l.Release()
	if n := len(s.keeper.waits); n > 0 {
		t.Errorf("%d names are waited for by nobody", n)
	}
}
