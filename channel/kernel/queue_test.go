package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/turn"
)

func arrival(sender string, id int, text string) kernel.Arrival {
	return kernel.Arrival{Key: channel.EventKey{Channel: "fake", Conversation: sender, ID: fmt.Sprint(id)}, Raw: fmt.Appendf(nil, "%s/%d/%s", sender, id, text)}
}

// CH-05, CH-70, CH-71
func TestCopiesAreOneTurnAndTheOrderHolds(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		s := start(t, d, "a", &platform{}, nil, inLanes(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			time.Sleep(10 * time.Millisecond)
			return echo(ctx, turn)
		}))
		var wg sync.WaitGroup
		var isNew atomic.Int32
		for range 100 {
			wg.Go(func() {
				known, err := s.queue.Accept(t.Context(), arrival("ann", 1, "1"))
				if err != nil {
					t.Error(err)
				} else if known[0] {
					isNew.Add(1)
				}
			})
		}
		wg.Wait()
		if _, err := s.queue.Accept(t.Context(), arrival("ann", 2, "2"), arrival("ann", 3, "3"), arrival("ann", 1, "1")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if got := s.platform.shown(); got != "echo 1\necho 2\necho 3" || isNew.Load() != 1 {
			t.Errorf("got %q; %d were new", got, isNew.Load())
		}
		s.close()
		// 24 h after its end a copy is known, in another process; then it is not.
		s = start(t, d, "b", s.platform, echo)
		time.Sleep(23 * time.Hour)
		s.send("ann", 1, "again")
		time.Sleep(2 * time.Hour)
		if err := d.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		s.send("ann", 3, "new")
		time.Sleep(time.Second)
		if got := s.platform.shown(); got != "echo 1\necho 2\necho 3\necho new" {
			t.Errorf("got %q", got)
		}
		s.close()
		if _, err := s.queue.Accept(t.Context(), arrival("ann", 9, "late")); !errors.Is(err, channel.ErrDraining) {
			t.Errorf("got %v after the end", err)
		}
	})
}

// An event starts when the one before has its place in the lane; other conversations do not wait, however many messages one has.
func TestEventsStartInTheirOrderAndOthersDoNotWait(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		var mu sync.Mutex
		var begun []string
		placed := make(chan struct{})
		c := &platform{}
		s := start(t, d, "a", c, nil, func(s *process, _ *kernel.QueueOptions) {
			s.kernel.Agent = agentWithoutPlace(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
				mu.Lock()
				begun = append(begun, turn.Context.BodyForAgent)
				mu.Unlock()
				if turn.Context.SenderID == "bob" {
					turn.Queued()
					return echo(ctx, turn)
				}
				<-placed
				turn.Queued()
				<-ctx.Done()
				return channel.DispatchResult{}, context.Cause(ctx)
			})
		})
		for i := range 105 {
			s.send(fmt.Sprint("ann", i%3), i, fmt.Sprint(i))
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		first := len(begun)
		mu.Unlock()
		if first != 3 {
			t.Errorf("%q have begun before the first have their places", begun)
		}
		close(placed)
		time.Sleep(5 * time.Second)
		s.send("bob", 1, "hello")
		time.Sleep(time.Second)
		if got := c.shownTo("bob"); len(got) != 1 {
			t.Errorf("another conversation got %q while three are full", got)
		}
		s.close()
		last := map[int]int{}
		for _, text := range begun[:len(begun)-1] {
			n := 0
			_, _ = fmt.Sscan(text, &n)
			if before, ok := last[n%3]; ok && n != before+3 {
				t.Errorf("%d has begun behind %d", n, before)
			}
			last[n%3] = n
		}
	})
}

// agentWithoutPlace says by itself when a turn has its place.
type agentWithoutPlace func(context.Context, *channel.Turn) (channel.DispatchResult, error)

func (f agentWithoutPlace) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	return f(ctx, t)
}

// CH-73: it runs again after 1, 5 and 30 s; then its sender gets a notice. A retry takes nothing of the rates, and later messages do not wait.
func TestAFailedTurnIsRetriedAndThenTheSenderGetsANotice(t *testing.T) {
	for name, err := range map[string]error{"it fails": errTest, "the lane is full": turn.ErrQueueFull} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				begun := time.Now()
				var times []time.Duration
				ids := map[string]bool{}
				s := start(t, d, "a", &platform{}, nil, func(s *process, _ *kernel.QueueOptions) {
					policy := &s.kernel.Settings.(*openSettings).policy
					policy.SenderRate, policy.SenderBurst = 1, 2
					s.kernel.Agent = agentWithoutPlace(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
						if turn.Context.BodyForAgent == "next" {
							turn.Queued()
							return echo(ctx, turn)
						}
						if turn.Resumed || turn.Repeated != (len(times) > 0) {
							t.Errorf("got %+v, expected a new attempt", turn)
						}
						ids[turn.ID] = true
						times = append(times, time.Since(begun).Round(time.Second))
						return channel.DispatchResult{}, err
					})
				})
				s.send("ann", 1, "one")
				time.Sleep(time.Millisecond)
				s.send("ann", 2, "next")
				time.Sleep(10 * time.Minute)
				got := s.platform.shownTo("ann")
				if fmt.Sprint(times) != "[0s 1s 6s 36s]" || len(ids) != 4 || len(got) != 2 || got[0] != "echo next" || !strings.Contains(got[1], "reference") && !strings.Contains(got[1], "busy") {
					t.Errorf("got attempts at %v and %q, expected four, the next message's answer, and one notice", times, got)
				}
				s.close()
			})
		})
	}
}

func TestAHandlerThatFailsEndsItsEvent(t *testing.T) {
	for name, fails := range map[string]func() error{"error": func() error { return errTest }, "panic": func() error { panic("x") }, "nothing": func() error { return nil }} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				runs := 0
				s := start(t, d, "a", &platform{}, echo, func(s *process, _ *kernel.QueueOptions) {
					s.handler.Run = func(context.Context, *kernel.Claimed, kernel.Meta) (channel.Result, error) {
						runs++
						return channel.Result{}, fails()
					}
				})
				s.send("ann", 1, "one")
				time.Sleep(time.Minute)
				if events, _, err := s.kernel.Store.Pending(t.Context()); runs != 1 || len(events) != 0 || err != nil {
					t.Errorf("it ran %d times, %v are left, %v", runs, events, err)
				}
				if err := s.queue.Serve(t.Context(), s.handler, nil); err == nil {
					t.Error("a channel serves twice")
				}
				s.close()
			})
		})
	}
}

// CH-84
func TestAnAlbumOrABurstIsOneTurn(t *testing.T) {
	k := &kernel.Kernel{Settings: &openSettings{policy: channel.Policy{Debounce: 2 * time.Second}}}
	for name, test := range map[string]struct {
		in     channel.Input
		bundle string
		wait   time.Duration
	}{
		"a text":             {channel.Input{RawText: "hi"}, "sender 7", 2 * time.Second},
		"an album":           {channel.Input{GroupID: "g", HasMedia: true}, "album g", time.Second},
		"a command":          {channel.Input{RawText: ",help"}, "", 0},
		"a command, cleaned": {channel.Input{RawText: "@ling ,help", TextForCommands: " ,help"}, "", 0},
		"media":              {channel.Input{RawText: "look", HasMedia: true}, "", 0},
		"nothing":            {channel.Input{RawText: " "}, "", 0},
	} {
		test.in.SenderID, test.in.ConversationID = "7", "c"
		if bundle, wait := k.Bundle("fake", "", &test.in); bundle != test.bundle || wait != test.wait {
			t.Errorf("%s: got %q, %v", name, bundle, wait)
		}
		if bundle, _ := (&kernel.Kernel{}).Bundle("fake", "", &test.in); bundle != "" && test.in.GroupID == "" {
			t.Errorf("%s: got %q without the setting", name, bundle)
		}
	}
	bubble(t, func(t *testing.T, d *db.DB) {
		s := start(t, d, "a", &platform{}, nil, inLanes(echo))
		begun := time.Now()
		part := func(id int, bundle string) {
			a := arrival("ann", id, fmt.Sprint("part ", id))
			if bundle != "" {
				a.Bundle, a.Wait = bundle, time.Second
			}
			if _, err := s.queue.Accept(t.Context(), a); err != nil {
				t.Error(err)
			}
			time.Sleep(900 * time.Millisecond)
		}
		part(1, "album x")
		part(2, "album x")
		part(3, "") // behind the album
		time.Sleep(5 * time.Second)
		if got := s.platform.shown(); got != "echo part 1\npart 2\necho part 3" {
			t.Errorf("got %q", got)
		}
		for id := range 8 { // at most five waits
			part(10+id, "sender ann")
		}
		if got := s.platform.shownTo("ann"); len(got) != 3 || !strings.HasPrefix(got[2], "echo part 10\npart 11") {
			t.Errorf("got %q after %v", got, time.Since(begun))
		}
		time.Sleep(time.Minute)
		s.close()
		if got := strings.Count(s.platform.shown(), "part 1"); got != 9 {
			t.Errorf("got %q", s.platform.shown())
		}
	})
}

// CH-101: the first messages of a sender are answered after the pairing, also after a restart, and the sender gets one message about the pairing.
func TestTheFirstMessageIsAnsweredWhenItsSenderIsPaired(t *testing.T) {
	for name, test := range map[string]struct {
		restart, approve bool
		wait             time.Duration
		want             []string
		pending          int
	}{
		"approved":                           {approve: true, want: []string{"code", "You are paired. You can talk here now.", "echo first", "echo second"}},
		"approved while the server was away": {approve: true, restart: true, want: []string{"code", "You are paired. You can talk here now.", "echo first", "echo second"}},
		"not approved yet":                   {want: []string{"code"}, pending: 2},
		"not approved yet, and a restart":    {restart: true, want: []string{"code"}, pending: 2},
		"not approved within the hour":       {wait: 2 * time.Hour, want: []string{"code"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				c, pairs := &platform{}, channel.NewPairs(nil)
				pairing := func(s *process, _ *kernel.QueueOptions) {
					s.kernel.Pairing = pairs
					s.kernel.Settings.(*openSettings).policy.DM = channel.PolicyPairing
				}
				s := start(t, d, "a", c, nil, inLanes(echo), pairing)
				s.send("ann", 1, "first")
				time.Sleep(time.Second)
				s.send("ann", 2, "second")
				time.Sleep(time.Second)
				asks, err := pairs.List(t.Context())
				if err != nil || len(asks) != 1 || !strings.Contains(c.shown(), asks[0].Code) {
					t.Fatalf("got %v, %v, shown %q", asks, err, c.shown())
				}
				if test.restart {
					s.close()
				}
				if test.approve {
					if _, err := pairs.Approve(t.Context(), "", asks[0].Code); err != nil {
						t.Fatal(err)
					}
				}
				if test.restart {
					s = start(t, d, "b", c, nil, inLanes(echo), pairing)
				}
				time.Sleep(max(test.wait, 10*time.Second))
				got := c.shownTo("ann")
				got[0] = "code"
				want(t, "shown", got, test.want)
				if events, _, err := s.kernel.Store.Pending(t.Context()); err != nil || events["fake"] != test.pending {
					t.Errorf("%v wait, %v", events, err)
				}
				s.close()
			})
		})
	}
}

// A sender gets the code once. A failed send of the code changes nothing.
func TestASenderGetsThePairingCodeOnce(t *testing.T) {
	s := newRig()
	s.kernel.Pairing = channel.NewPairs(nil)
	s.facts.Access = channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyPairing, Paired: channel.No}}
	for i, test := range []struct {
		sender string
		sent   int // so far
	}{{"42", 1}, {"42", 1}, {"43", 2}, {"44", 3}, {"44", 3}} {
		if test.sender == "44" {
			s.platform.answer = func(string) (channel.Receipt, error) { return channel.Receipt{}, errTest }
		}
		s.in = &channel.Input{ID: fmt.Sprint(i), ConversationID: test.sender, SenderID: test.sender}
		s.facts.MessageID, s.facts.Sender.ID = s.in.ID, test.sender
		r, err := s.run(t.Context())
		if err != nil || r.Admission.Reason != channel.ReasonPairingRequired || r.Admission.Kind != channel.Handled || len(s.platform.requests()) != test.sent {
			t.Errorf("%d: got %+v, %v, sent %q", i, r.Admission, err, s.platform.requests())
		}
	}
	if !slices.Contains(s.phases(), "authorize:warning") {
		t.Errorf("got %q, expected a warning", s.phases())
	}
}

// blockingStore is a database that does not answer.
type blockingStore struct {
	kernel.Store
	answer chan struct{}
}

func (s *blockingStore) Claim(context.Context, store.EventClaim, []string) ([]store.Event, time.Time, error) {
	<-s.answer
	return nil, time.Time{}, store.ErrAway
}

func TestCloseWaitsForTheDatabase(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		blocked := &blockingStore{d.Events(), make(chan struct{})}
		q := kernel.NewQueue(&kernel.Kernel{Store: blocked}, kernel.QueueOptions{Replica: "a"})
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- q.Serve(ctx, kernel.Handler{Channel: "fake"}, nil) }()
		synctest.Wait()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		closed := false
		go func() {
			q.Close()
			closed = true
		}()
		if synctest.Wait(); closed {
			t.Error("Close returned while the database was being asked")
		}
		close(blocked.answer)
		if synctest.Wait(); !closed {
			t.Error("Close did not return")
		}
	})
}

// CH-76: an erased session leaves no event, no reply, and no message in a window.
func TestAnErasedSessionLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		c := &platform{}
		c.failWith(func(string) error { return &channel.NotSentError{Err: errTest, Retryable: true} })
		s := start(t, d, "a", c, echo)
		s.send("ann", 1, "one")
		s.send("bob", 2, "two")
		time.Sleep(time.Second)
		key := channel.WindowKey{Channel: "fake", Conversation: "ann"}
		_ = s.kernel.Window.Record(t.Context(), channel.Recording{HistoryHint: channel.HistoryHint{Key: key}, MessageID: "0", Message: channel.MessageFacts{RawBody: "before"}})
		if !s.kernel.Keeps(t.Context(), "fake:ann") {
			t.Error("the window is empty")
		}
		if err := s.kernel.Erase(t.Context(), "fake:ann"); err != nil {
			t.Error(err)
		}
		c.failWith(nil)
		time.Sleep(time.Hour)
		if got := c.shown(); got != "echo two" || s.kernel.Keeps(t.Context(), "fake:ann") {
			t.Errorf("got %q", got)
		}
		s.close()
	})
}

// CH-71: what cannot be stored is not accepted.
func TestAnEventThatCannotBeStoredIsNotAccepted(t *testing.T) {
	bubble(t, func(t *testing.T, d *db.DB) {
		s := start(t, d, "a", &platform{}, echo, func(s *process, _ *kernel.QueueOptions) { s.kernel.Store = fullStore{s.store} })
		if _, err := s.queue.Accept(t.Context(), arrival("ann", 1, "one")); !errors.Is(err, store.ErrFull) {
			t.Errorf("got %v", err)
		}
		s.close()
	})
}

type fullStore struct{ *mortal }

func (fullStore) Accept(context.Context, []store.Event) ([]bool, error) { return nil, store.ErrFull }
