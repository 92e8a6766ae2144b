package turn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/turn"
)

// machine submits at random and watches over what becomes of it.
type machine struct {
	t        *rapid.T
	f        *turn.Framework
	mu       sync.Mutex
	sent     []*sent
	byText   map[string]*sent
	running  map[string]*active // by session
	mistakes []string           // of hooks, which run elsewhere
}

// sent is one submission.
type sent struct {
	text    string
	session string
	policy  turn.Policy
	ticket  *turn.Ticket // nil where it was refused
	queued  bool         // it went to the queue
	cancel  context.CancelCauseFunc
	begun   int // turns of it
	saved   int
	taken   int // turns that have taken it
	order   int // of those that have begun
}

func (s *sent) phase() turn.Phase {
	if s.ticket == nil {
		return ""
	}
	return s.ticket.Status().Phase
}

// active is a turn that runs.
type active struct {
	text  string
	ctx   context.Context
	do    chan string
	saved bool
}

// over says whether a turn that has not been dispatched ends all the same: it was canceled in its save_state.
func (a *active) over() bool { return a == nil || a.saved && a.ctx.Err() != nil }

var errCanceled = errors.New("canceled by the machine")

const slots = 3

func newMachine(t *rapid.T) *machine {
	m := &machine{
		t: t, byText: map[string]*sent{}, running: map[string]*active{},
		f: turn.New(turn.Options{Concurrency: slots, Queue: 4, QueueTotal: 10}),
	}
	begun := 0
	err := m.f.Register("machine", struct {
		loader
		streamer
		saver
		dispatcher
	}{
		func(ctx context.Context, e *turn.Envelope, session string) (turn.State, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if !m.running[session].over() {
				m.wrong("%s begins while %s runs in %s", e.Content, m.running[session].text, session)
			}
			m.running[session] = &active{text: e.Content, ctx: ctx, do: make(chan string)}
			s := m.byText[e.Content]
			begun++
			s.begun, s.order = s.begun+1, begun
			return nil, nil
		},
		func(ctx context.Context, p turn.Prompt, session string, _ turn.State) (turn.Stream, bool, error) {
			return func(yield func(turn.Event, error) bool) {
				inbox := turn.FromContext(ctx).Inbox()
				m.mu.Lock()
				do := m.running[session].do
				m.mu.Unlock()
				for {
					select {
					case <-ctx.Done():
						yield(turn.Event{}, ctx.Err())
						return
					case what := <-do:
						switch what {
						case "take":
							list := inbox.Take()
							m.mu.Lock()
							for _, e := range list {
								m.byText[e.Content].taken++
							}
							m.mu.Unlock()
						case "close":
							inbox.CloseIfEmpty()
						case "say":
							if !yield(turn.Text("x"), nil) {
								return
							}
						case "fail":
							yield(turn.Event{}, errTest)
							return
						case "panic":
							panic(errTest)
						case "end":
							return
						}
					}
				}
			}, true, nil
		},
		func(_ context.Context, o *turn.Outcome) error {
			time.Sleep(time.Second)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.byText[o.Envelope.Content].saved++
			m.running[o.Session].saved = true
			if o.Err != nil {
				delete(m.running, o.Session)
			}
			return nil
		},
		func(_ context.Context, e *turn.Envelope) (bool, error) {
			time.Sleep(time.Second)
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.running, e.SessionID)
			return true, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) wrong(format string, args ...any) {
	m.mistakes = append(m.mistakes, fmt.Sprintf(format, args...))
}

// Submit sends a message with any policy to any session.
func (m *machine) Submit(t *rapid.T) {
	s := &sent{
		text:    fmt.Sprint("m", len(m.sent)),
		session: rapid.SampledFrom([]string{"1", "2", "3", "4", "5"}).Draw(t, "session"),
		policy:  rapid.SampledFrom([]turn.Policy{turn.Queue, turn.Queue, turn.Reject, turn.Interrupt, turn.Steer}).Draw(t, "policy"),
	}
	m.mu.Lock()
	m.sent = append(m.sent, s)
	m.byText[s.text] = s
	m.mu.Unlock()
	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancel = cancel
	k, err := m.f.Submit(ctx, &turn.Envelope{SessionID: s.session, ChatID: s.session, Channel: "c", Content: s.text}, turn.WithPolicy(s.policy))
	switch {
	case err == nil:
		s.ticket = k
		s.queued = s.policy != turn.Interrupt && k.Status().Phase == turn.Queued
	case errors.Is(err, turn.ErrBusy) && s.policy == turn.Reject, errors.Is(err, turn.ErrQueueFull):
	default:
		t.Fatalf("%s: %v", s.text, err)
	}
}

// Turn tells a running turn what to do.
func (m *machine) Turn(t *rapid.T) {
	synctest.Wait()
	session := rapid.SampledFrom([]string{"1", "2", "3", "4", "5"}).Draw(t, "session")
	what := rapid.SampledFrom([]string{"take", "close", "say", "fail", "panic", "end", "end"}).Draw(t, "what")
	if a := m.active(session); a != nil {
		select {
		case a.do <- what:
		default: // it is at its end
		}
	}
}

func (m *machine) active(session string) *active {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running["c:"+session]
}

// Cancel ends the context of a submission.
func (m *machine) Cancel(t *rapid.T) {
	if len(m.sent) > 0 {
		m.sent[rapid.IntRange(max(0, len(m.sent)-12), len(m.sent)-1).Draw(t, "which")].cancel(errCanceled)
	}
}

// Stop stops a session.
func (m *machine) Stop(t *rapid.T) {
	if rapid.IntRange(0, 5).Draw(t, "rarely") == 0 {
		m.f.Stop("c:"+rapid.SampledFrom([]string{"1", "2"}).Draw(t, "session"), nil)
	}
}

// Sleep lets save_states end.
func (m *machine) Sleep(t *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
}

// Check holds after each step.
func (m *machine) Check(t *rapid.T) {
	synctest.Wait()
	if len(m.mistakes) > 0 {
		t.Fatal(m.mistakes)
	}
	_, waiting, running, _ := m.f.LanesLeft()
	if busy := len(slices.DeleteFunc(slices.Clone(m.sent), func(s *sent) bool { return s.phase() != turn.Running })); running > slots || busy > running {
		t.Fatalf("%d turns at once, in %d slots", busy, running)
	}
	if running < slots && waiting > 0 {
		for session, n := range m.waiting() { // somebody who waits though there is a slot waits for their own lane
			if n > 0 && !m.busy(session) {
				t.Fatalf("%d wait in %s, where nothing runs, and %d slots are free", n, session, slots-running)
			}
		}
	}
}

func (m *machine) waiting() map[string]int {
	n := map[string]int{}
	for _, s := range m.sent {
		if s.phase() == turn.Queued {
			n[s.session]++
		}
	}
	return n
}

func (m *machine) busy(session string) bool {
	return slices.ContainsFunc(m.sent, func(s *sent) bool {
		return s.session == session && s.phase() == turn.Running
	})
}

// end drains and looks at everybody.
func (m *machine) end(t *rapid.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	m.f.Drain(ctx)
	if lanes, waiting, running, ready := m.f.LanesLeft(); lanes+waiting+running+ready > 0 {
		t.Fatalf("%d lanes, %d waiting, %d running, %d ready are left", lanes, waiting, running, ready)
	}
	last := map[string]*sent{} // the last of the queue that has begun, by session
	for _, s := range m.sent {
		s.cancel(nil)
		if s.ticket == nil {
			if s.begun+s.taken > 0 {
				t.Fatalf("%s was refused, and ran", s.text)
			}
			continue
		}
		phase := s.ticket.Status().Phase
		_, err := s.ticket.Wait(context.Background())
		switch {
		case phase != turn.Done:
			t.Fatalf("%s is %s after the end", s.text, phase)
		case s.begun+s.taken > 1:
			t.Fatalf("%s was used %d times", s.text, s.begun+s.taken)
		case s.begun != s.saved:
			t.Fatalf("%s began %d times and was saved %d times", s.text, s.begun, s.saved)
		case s.begun+s.taken == 0 && err == nil:
			t.Fatalf("%s is lost", s.text)
		case s.begun+s.taken == 0 && !errors.Is(err, errCanceled) && !errors.Is(err, turn.ErrDraining) && !errors.Is(err, turn.ErrStopped) && !errors.Is(err, turn.ErrInterrupted):
			t.Fatalf("%s ended without a turn because of %v", s.text, err)
		}
		if s.queued && s.begun > 0 {
			if before := last[s.session]; before != nil && before.order > s.order {
				t.Fatalf("%s ran before %s", s.text, before.text)
			}
			last[s.session] = s
		}
	}
}

func TestTU_60ToTU_67HoldForRandomSubmissions(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var failed any // rapid ends a property by a panic, which has to leave the bubble
		synctest.Test(t, func(*testing.T) {
			defer func() { failed = recover() }()
			m := newMachine(r)
			defer m.end(r)
			r.Repeat(map[string]func(*rapid.T){
				"": m.Check, "submit": m.Submit, "submit again": m.Submit, "turn": m.Turn, "turn again": m.Turn,
				"cancel": m.Cancel, "stop": m.Stop, "sleep": m.Sleep,
			})
		})
		if failed != nil {
			panic(failed)
		}
	})
}
