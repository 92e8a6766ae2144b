package nats_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/nats"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
)

// replica is a journal with a connection of its own.
func replica(t testing.TB, s *clustertest.Servers) (*nats.Journal, *cluster.Cluster) {
	t.Helper()
	c := s.Open(t)
	j, err := nats.OpenJournal(t.Context(), c, nats.JournalOptions{Bytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j, c
}

func key(i int) channel.EventKey {
	return channel.EventKey{Channel: "fake", Conversation: fmt.Sprint("c", i%7), ID: fmt.Sprint(i)}
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
func door(t testing.TB, j *nats.Journal, do func(channel.JournalEntry, channel.Claim) error) (_ *channel.Door, stop func()) {
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
const patience = 2 * time.Minute

func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// Each event is brought to two replicas at once, and to both once more.
func racing(t *testing.T, s *clustertest.Servers, n int) {
	var ran runs
	var news, refused atomic.Int32
	var doors []*channel.Door
	for range 2 {
		j, _ := replica(t, s)
		d, _ := door(t, j, func(e channel.JournalEntry, _ channel.Claim) error {
			ran.add(e.Key)
			return nil
		})
		doors = append(doors, d)
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				var both sync.WaitGroup
				for _, d := range doors {
					both.Go(func() {
						for range 2 {
							isNew, again := deliver(t, d, i)
							if isNew {
								news.Add(1)
							}
							if again {
								refused.Add(1)
							}
						}
					})
				}
				both.Wait()
			}
		})
	}
	wg.Wait()
	until(t, "all events to run", func() bool { return ran.len() == n })
	ran.check(t, n)
	// One that was refused, and stored all the same, may have run before it came again.
	if got := int(news.Load()); got > n || got+int(refused.Load()) < n {
		t.Errorf("%d of %d were new, and %d were refused at first", got, n, refused.Load())
	}
}

func TestTwoReplicasRunEachEventOnce(t *testing.T) { // CL-02, CH-71, CH-72
	t.Parallel()
	racing(t, clustertest.One(t), longtest.Times(250, 1000))
}

// The replica that dies has accepted events, runs some of them, and has said of one that it is answering.
func TestWhatADeadReplicaHasLeftRunsOnAnotherOne(t *testing.T) { // CL-02, CH-73, CH-74
	t.Parallel()
	s := clustertest.One(t)
	first, dying := replica(t, s)
	second, _ := replica(t, s)
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
	d := channel.NewDoor(&channel.Kernel{Journal: second}, channel.DoorOptions{
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
		if err := d.Serve(ctx, nil); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(2 * nats.LookEvery)
	if ran.len() != 0 {
		t.Fatal("what a living replica has accepted is run by another one")
	}

	first.Abandon(nil)
	kill(t, dying)
	died := time.Now()
	until(t, "the other replica to take over", func() bool { return ran.len() == n-2 })
	longtest.Within(t, "until the other one takes over", time.Since(died), cluster.TTL+time.Second)
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

// kill ends the connection of a replica without a word to the others.
func kill(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	c.Conn().Close()
}

// A replica that was stopped for longer than its lease comes back: it neither sends nor settles what another one has by now.
func TestAClaimOfAReplicaThatWasTakenForDeadDoesNothing(t *testing.T) { // CH-73, CL-06
	t.Parallel()
	s := clustertest.One(t)
	c := s.Open(t)
	alive := new(nats.Alive)
	open := func() *nats.Journal {
		j, err := nats.OpenWith(t.Context(), c, alive, time.Now, nats.JournalOptions{Bytes: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = j.Close() })
		return j
	}
	second, first := open(), open()
	for i := range 3 {
		if _, err := first.Accept(t.Context(), key(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	old, _, err := first.Claim(t.Context(), key(0))
	if err != nil || old == nil {
		t.Fatal(err)
	}
	kept, _, err := first.Claim(t.Context(), key(1))
	if err != nil || kept == nil {
		t.Fatal(err)
	}
	first.Pause() // it knows nothing of what comes
	alive.Lose(first)
	until(t, "the claim to be free", func() bool {
		c, _, err := second.Claim(t.Context(), key(0))
		return err == nil && c != nil
	})
	if err := first.Sending(t.Context(), key(0).String()); err == nil {
		t.Error("a replica that has lost an event may send an answer to it")
	}
	if err := old.Commit(t.Context(), channel.OutcomeVisible); err != nil {
		t.Error(err)
	}
	if err := old.Release(t.Context(), errors.New("broken")); err != nil {
		t.Error(err)
	}
	if s, err := second.Peek(t.Context(), key(0)); s != channel.ClaimTaken || err != nil {
		t.Errorf("an outdated claim has made the event %q, %v", s, err)
	}
	first.Continue()
	until(t, "the first replica to have what nobody has taken", func() bool {
		s, err := second.Peek(t.Context(), key(1))
		c, _, _ := second.Claim(t.Context(), key(2))
		return err == nil && s == channel.ClaimTaken && c == nil
	})
	if err := first.Sending(t.Context(), key(1).String()); err != nil {
		t.Error(err)
	}
	if err := kept.Commit(t.Context(), channel.OutcomeVisible); err != nil {
		t.Error(err)
	}
	if s, err := second.Peek(t.Context(), key(1)); s != channel.ClaimSettled || err != nil {
		t.Errorf("what it has kept and settled is %q, %v", s, err)
	}
}

// attempts counts how often messages are published.
type attempts struct{ all sync.Map }

func (a *attempts) of(m *client.Msg) int32 {
	n, _ := a.all.LoadOrStore(m, new(atomic.Int32))
	return n.(*atomic.Int32).Add(1)
}

// mostLost are the answers to one message that are lost: how many attempts a call makes before it gives up depends on how busy the
// machine is, and all of few may be lost.
const mostLost = 6

// Of each answer of the servers half get lost, of messages that were stored and of those that were not.
func TestLostAnswersCostNothing(t *testing.T) { // CL-06, CH-71, CH-72
	t.Parallel()
	s := clustertest.One(t)
	var ran runs
	var doors []*channel.Door
	var lost atomic.Int32
	for range 2 {
		j, _ := replica(t, s)
		var tries attempts
		j.Publish(func(_ context.Context, m *client.Msg, publish func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
			if tries.of(m) > mostLost {
				return publish()
			}
			switch rand.N(4) {
			case 0: // on the way there
				lost.Add(1)
				return nil, client.ErrTimeout
			case 1: // on the way back
				lost.Add(1)
				_, err := publish()
				if _, is := errors.AsType[*jetstream.APIError](err); is {
					return nil, err
				}
				return nil, client.ErrTimeout
			}
			return publish()
		})
		d, _ := door(t, j, func(e channel.JournalEntry, _ channel.Claim) error {
			ran.add(e.Key)
			return nil
		})
		doors = append(doors, d)
	}
	n := longtest.Times(100, 400)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				for _, at := range []int{i % 2, (i + 1) % 2} { // delivered again to the other one
					deliver(t, doors[at], i)
				}
			}
		})
	}
	wg.Wait()
	until(t, "all events to run", func() bool { return ran.len() == n })
	ran.check(t, n)
	if int(lost.Load()) < n {
		t.Errorf("%d answers were lost", lost.Load())
	}
}

// Accept that says nothing certain to the platform: whoever has stored the event runs it, and the platform brings it again.
func TestAnEventThatWasStoredWithoutAnAnswerRunsOnce(t *testing.T) { // CH-71
	t.Parallel()
	for name, again := range map[string]bool{"and does not come again": false, "and comes again": true} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.One(t)
			j, _ := replica(t, s)
			other, _ := replica(t, s)
			var away atomic.Bool
			j.Publish(func(_ context.Context, _ *client.Msg, publish func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
				ack, err := publish()
				if away.Load() {
					return nil, errLost
				}
				return ack, err
			})
			var ran runs
			d, _ := door(t, j, func(e channel.JournalEntry, _ channel.Claim) error {
				ran.add(e.Key)
				return nil
			})
			away.Store(true)
			if _, err := d.Accept(t.Context(), channel.Arrival{Key: key(0), Raw: []byte("raw")}); err == nil {
				t.Fatal("what nobody has confirmed is accepted")
			}
			away.Store(false)
			if isNew, err := other.Accept(t.Context(), key(0), []byte("raw")); isNew || err != nil {
				t.Errorf("at another replica it is new: %v, %v", isNew, err)
			}
			if again {
				if _, err := d.Accept(t.Context(), channel.Arrival{Key: key(0), Raw: []byte("raw")}); err != nil {
					t.Error(err)
				}
			}
			until(t, "the event to run", func() bool { return ran.len() == 1 })
			if again {
				if isNew, err := d.Accept(t.Context(), channel.Arrival{Key: key(0), Raw: []byte("raw")}); err != nil || isNew[0] {
					t.Error(isNew, err)
				}
			}
			ran.check(t, 1)
		})
	}
}

// errLost is none of those after which a call is made again.
var errLost = errors.New("the answer is lost")
