package inbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/channel/owner/leased"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
)

// openReplica opens an inbox of a replica, with leases as servers have them.
func openReplica(t testing.TB, d *db.DB) (*inbox.Inbox, *clustertest.Replica) {
	t.Helper()
	r := clustertest.Join(t, d)
	return openOn(t, r.Tables, leased.Owners(r.Leases("inbox"))), r
}

func openOn(t testing.TB, e store.Engine, owners owner.Owners) *inbox.Inbox {
	t.Helper()
	j, err := inbox.Open(t.Context(), e, inbox.Options{Owners: owners})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// runs counts how often events run.
type runs struct {
	mu sync.Mutex
	of map[string]int
}

func (r *runs) add(k channel.EventKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]int{}
	}
	r.of[k.ID]++
}

func (r *runs) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of)
}

// check says which events did not run once.
func (r *runs) check(t *testing.T, n int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	wrong := 0
	for i := range n {
		if r.of[fmt.Sprint(i)] != 1 {
			if wrong++; wrong < 5 {
				t.Errorf("event %d has run %d times, expected once", i, r.of[fmt.Sprint(i)])
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d events have not run once", wrong, n)
	}
}

// door serves until the test ends or stop is called, and runs what do says.
func door(t testing.TB, j *inbox.Inbox, do func(channel.JournalEntry, channel.Claim) error) (_ *channel.Door, stop func()) {
	d := channel.NewDoor(&channel.Kernel{Journal: j}, channel.DoorOptions{
		Channel: "fake", Waiting: 5000, Grace: time.Second, Together: true,
		Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
			if err := do(e, m.Claim); err != nil {
				return channel.Result{}, err
			}
			return channel.Result{Outcome: channel.OutcomeVisible}, m.Claim.Commit(ctx, channel.OutcomeVisible)
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Serve(ctx, nil) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return d, stop
}

// patience is how long is waited for what has to come. Nothing takes that long where it comes at all.
const patience = time.Hour

func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// The replica that dies has accepted events, runs some of them, and has said of one that it is answering.
func TestWhatADeadReplicaHasLeftRunsOnAnotherOne(t *testing.T) { // CL-02, CH-73, CH-74
	t.Parallel()
	synctest.Test(t, whatADeadReplicaHasLeftRunsOnAnotherOne)
}

func whatADeadReplicaHasLeftRunsOnAnotherOne(t *testing.T) {
	d := clustertest.Open(t)
	first, dying := openReplica(t, d)
	second, _ := openReplica(t, d)
	var ran runs
	attempts := make(chan [2]int, 100)
	const n = 20
	for i := range n {
		if isNew, err := first.Accept(t.Context(), key(i), []byte(fmt.Sprint("raw ", i))); err != nil || !isNew {
			t.Fatal(isNew, err)
		}
	}
	claim := func(i int) channel.Claim {
		c, state, err := first.Claim(t.Context(), key(i))
		if err != nil || c == nil {
			t.Fatal(state, err)
		}
		return c
	}
	late := claim(3) // it runs, and nobody has seen anything of it
	sending := claim(5)
	for _, err := range []error{
		first.Sending(t.Context(), key(5).String()),
		claim(7).Commit(t.Context(), channel.OutcomeVisible),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if c, state, err := second.Claim(t.Context(), key(1)); c != nil || state != channel.ClaimAccepted || err != nil {
		t.Errorf("what a living replica has accepted is claimed by another one: %v, %q, %v", c, state, err)
	}
	if c, state, err := second.Claim(t.Context(), key(3)); c != nil || state != channel.ClaimTaken || err != nil {
		t.Errorf("what a living replica runs is claimed by another one: %v, %q, %v", c, state, err)
	}
	told := make(chan string, n)
	events := channel.NewDoor(&channel.Kernel{Journal: second}, channel.DoorOptions{
		Channel: "fake",
		Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
			ran.add(e.Key)
			var i int
			if _, err := fmt.Sscanf(string(e.Raw), "raw %d", &i); err != nil || fmt.Sprint(i) != e.Key.ID {
				t.Errorf("the event %s has %q", e.Key.ID, e.Raw)
			}
			attempts <- [2]int{i, e.Attempt}
			return channel.Result{Outcome: channel.OutcomeVisible}, m.Claim.Commit(ctx, channel.OutcomeVisible)
		},
		Incomplete: func(_ context.Context, e channel.JournalEntry) error {
			told <- e.Key.ID
			return nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var served sync.WaitGroup
	served.Go(func() {
		if err := events.Serve(ctx, nil); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(2 * owner.LookEvery)
	if ran.len() != 0 {
		t.Fatal("what a living replica has accepted is run by another one")
	}

	first.Abandon(nil)
	dying.Kill()
	died := time.Now()
	until(t, "the other replica to take over", func() bool { return ran.len() == n-2 })
	if took := time.Since(died); took > 8*time.Second {
		t.Errorf("the other one took over after %v", took)
	}
	cancel()
	served.Wait()
	close(attempts)
	for a := range attempts {
		if want := map[bool]int{true: 1}[a[0] == 3]; a[1] != want {
			t.Errorf("event %d has %d attempts behind it, expected %d", a[0], a[1], want)
		}
	}
	if id := <-told; id != "5" || len(told) > 0 {
		t.Errorf("of %q a conversation was told that its answer may be incomplete, and of %d more; expected 5 alone", id, len(told))
	}
	for _, i := range []int{5, 7} {
		if ran.of[fmt.Sprint(i)] != 0 {
			t.Errorf("event %d is run again", i)
		}
	}
	for _, c := range []channel.Claim{late, sending} { // the process is dead; nothing it says can count
		_ = c.Commit(t.Context(), channel.OutcomeVisible)
	}
}
