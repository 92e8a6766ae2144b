package db

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/store"
)

// eventScene is a store of events with a clock.
type eventScene struct {
	*Events
	t   *testing.T
	now time.Time
}

func newEventScene(t *testing.T, open openEmpty) *eventScene {
	s := &eventScene{t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	s.Events = open(t, func() time.Time { return s.now }).Events()
	return s
}

func (s *eventScene) accept(events ...store.Event) []bool {
	s.t.Helper()
	for i := range events {
		if events[i].Arrived.IsZero() {
			s.now = s.now.Add(time.Millisecond)
			events[i].Arrived = s.now
		}
	}
	isNew, err := s.Accept(s.t.Context(), events)
	if err != nil {
		s.t.Fatal(err)
	}
	return isNew
}

func anEvent(key, lane string) store.Event {
	return store.Event{Key: key, Login: "chat", Lane: lane, Raw: []byte("raw " + key)}
}

func (s *eventScene) claimBy(c store.EventClaim, held ...string) (keys string) {
	s.t.Helper()
	if c.Logins == nil {
		c.Logins = []string{"chat"}
	}
	if c.Limit == 0 {
		c.Limit = 100
	}
	events, _, err := s.Claim(s.t.Context(), c, held)
	if err != nil {
		s.t.Fatal(err)
	}
	list := []string{}
	for _, e := range events {
		list = append(list, e.Key)
	}
	return strings.Join(list, " ")
}

func (s *eventScene) want(got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Fatalf("got the events %q, expected %q", got, want)
	}
}

func (s *eventScene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *eventScene) moved(err error) {
	s.t.Helper()
	if !errors.Is(err, store.ErrMoved) {
		s.t.Fatalf("got %v, expected ErrMoved", err)
	}
}

func eventsRunOnceInOrder(t *testing.T, open openEmpty) {
	s := newEventScene(t, open)
	a := store.EventClaim{Replica: "a", Alive: []string{"a"}}
	if isNew := s.accept(anEvent("1", "x"), anEvent("2", "x"), anEvent("3", "y"), anEvent("1", "x")); !slices.Equal(isNew, []bool{true, true, true, false}) {
		t.Fatalf("got %v, expected that the last is known", isNew)
	}
	s.want(s.claimBy(store.EventClaim{Replica: "a", Alive: []string{"a"}, Logins: []string{"other"}}), "")
	s.want(s.claimBy(a), "1 3")
	busy := a
	busy.Busy = []string{"x", "y"}
	s.want(s.claimBy(busy, "1", "3"), "")
	s.want(s.claimBy(a, "1", "3"), "2") // the turn of 1 has its place
	_, _, err := s.End(t.Context(), store.EventEnd{Key: "1", Replica: "a", Outcome: "visible"})
	s.must(err)
	_, _, err = s.End(t.Context(), store.EventEnd{Key: "1", Replica: "a", Outcome: "visible"})
	s.moved(err)
	if isNew := s.accept(anEvent("1", "x"), anEvent("2", "x")); slices.Contains(isNew, true) {
		t.Error("an event that has ended, or runs, is new")
	}
	s.want(s.claimBy(a, "2", "3"), "")
	s.now = s.now.Add(25 * time.Hour)
	s.must(s.db.Sweep(t.Context()))
	if isNew := s.accept(anEvent("1", "x")); !isNew[0] {
		t.Error("an event that ended a day ago is known")
	}
}

func eventsOfADeadReplica(t *testing.T, open openEmpty) {
	s := newEventScene(t, open)
	a, both, alone := store.EventClaim{Replica: "a", Alive: []string{"a"}}, store.EventClaim{Replica: "b", Alive: []string{"a", "b"}}, store.EventClaim{Replica: "b", Alive: []string{"b"}}
	s.accept(anEvent("1", "x"), anEvent("2", "x"), anEvent("3", "y"))
	one := a
	one.Limit = 1
	s.want(s.claimBy(one), "1")
	s.must(s.Note(t.Context(), "1", "a", store.EventNote{Session: "s", Progress: []byte("half")}))
	s.want(s.claimBy(both), "3") // 2 is of a conversation that is answered at a
	_, _, err := s.End(t.Context(), store.EventEnd{Key: "3", Replica: "b"})
	s.must(err)
	events, _, err := s.Claim(t.Context(), store.EventClaim{Replica: alone.Replica, Alive: alone.Alive, Logins: []string{"chat"}, Limit: 10}, nil)
	s.must(err)
	if len(events) != 1 || events[0].Key != "1" || !events[0].Begun || events[0].Crashes != 1 || string(events[0].Progress) != "half" || events[0].Session != "s" {
		t.Fatalf("got %+v, expected the event as a has left it", events)
	}
	// a has only stood still.
	s.moved(s.Note(t.Context(), "1", "a", store.EventNote{}))
	s.moved(s.Release(t.Context(), store.EventRelease{Key: "1", Replica: "a"}))
	_, _, err = s.End(t.Context(), store.EventEnd{Key: "1", Replica: "a"})
	s.moved(err)
	s.must(s.Note(t.Context(), "1", "b", store.EventNote{Advanced: true}))
	s.want(s.claimBy(alone, "1"), "2")
	// What b has given back is no crash.
	s.must(s.Release(t.Context(), store.EventRelease{Key: "1", Replica: "b"}))
	events, _, err = s.Claim(t.Context(), store.EventClaim{Replica: "b", Alive: []string{"b"}, Logins: []string{"chat"}, Limit: 10}, []string{"2"})
	s.must(err)
	if len(events) != 1 || events[0].Crashes != 0 || !events[0].Begun {
		t.Fatalf("got %+v, expected the event that was given back, without a crash", events)
	}
	// The answer to this claim is lost: the next one has it again.
	events, _, err = s.Claim(t.Context(), store.EventClaim{Replica: "b", Alive: []string{"b"}, Logins: []string{"chat"}, Limit: 10}, []string{"2"})
	s.must(err)
	if len(events) != 1 || events[0].Crashes != 0 {
		t.Fatalf("got %+v, expected the event whose claim was lost", events)
	}
	// What b has given back while its turn still ends is not claimed twice at once.
	s.must(s.Release(t.Context(), store.EventRelease{Key: "1", Replica: "b"}))
	s.want(s.claimBy(alone, "1", "2"), "")
	s.want(s.claimBy(alone, "2"), "1")
}

// eventsOfAChannelThatIsGone are removed after a week.
func eventsOfAChannelThatIsGone(t *testing.T, open openEmpty) {
	s := newEventScene(t, open)
	s.accept(anEvent("1", "x"), anEvent("2", "y"), anEvent("3", "z"))
	s.want(s.claimBy(store.EventClaim{Replica: "a", Alive: []string{"a"}}), "1 2 3")
	s.must(s.Release(t.Context(), store.EventRelease{Key: "2", Replica: "a", Parked: "ann"}))
	_, _, err := s.End(t.Context(), store.EventEnd{Key: "3", Replica: "a", Reply: &store.Reply{Login: "chat", Target: "t", Session: "s", Block: []byte("b")}})
	s.must(err)
	for _, days := range []int{6, 2} {
		s.now = s.now.Add(time.Duration(days) * 24 * time.Hour)
		s.must(s.db.Sweep(t.Context()))
		events, replies, err := s.Pending(t.Context())
		if kept := days == 6; err != nil || (events["chat"] == 2) != kept || (replies["chat"] == 1) != kept || len(events) != boolean(kept) {
			t.Errorf("got %v and %v, %v after %d days more", events, replies, err, days)
		}
	}
}

// A query that reads all events or runs that have ended would take longer and longer.
func TestQueriesOfWhatIsOpenUseAnIndex(t *testing.T) {
	db, err := Open(t.Context(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for query, index := range map[string]string{
		"SELECT key FROM events WHERE " + notEnded + "state = 'waiting' AND login IN ('a')":                                                                        "INDEX",
		"SELECT key FROM events e WHERE EXISTS (SELECT 1 FROM events o WHERE o.lane = e.lane AND o." + notEnded + "o.state = 'running') AND " + notEnded + "1 = 1": "INDEX",
		"UPDATE events SET raw = '' WHERE key IN ('a') OR state = 'merged' AND leader IN ('b')":                                                                    "INDEX",
		"SELECT id FROM runs WHERE removed < 2 AND (ended = 0 OR expires > 1) AND state = 'running' AND ended < 1 ORDER BY created DESC, id DESC":                  "INDEX runs_open",
		"SELECT id FROM runs WHERE ended = 0 AND (replica <> '' OR state <> 'waiting') AND NOT replica IN ('a') ORDER BY created, id LIMIT 9":                      "INDEX runs_left",
		"SELECT id FROM runs WHERE ended = 0 AND replica = '' AND state = 'waiting' AND wake <= 1 ORDER BY wake LIMIT 9":                                           "INDEX runs_waiting",
	} {
		tx := db.reader(t.Context())
		for read := range tx.rows("EXPLAIN QUERY PLAN " + query) {
			var id, parent, unused int
			var step string
			read(&id, &parent, &unused, &step)
			if (strings.HasPrefix(step, "SCAN") || strings.HasPrefix(step, "SEARCH")) && !strings.Contains(step, index) {
				t.Errorf("%s: %s", query, step)
			}
		}
		must(t, tx.err)
	}
}

func failedEventsRunAgain(t *testing.T, open openEmpty) {
	s := newEventScene(t, open)
	a := store.EventClaim{Replica: "a", Alive: []string{"a"}, Logins: []string{"chat"}, Limit: 10}
	s.accept(anEvent("1", "x"), anEvent("2", "x"))
	s.want(s.claimBy(store.EventClaim{Replica: "a", Alive: []string{"a"}, Limit: 1}), "1")
	s.must(s.Release(t.Context(), store.EventRelease{Key: "1", Replica: "a", Failed: true, Due: s.now.Add(5 * time.Second)}))
	events, next, err := s.Claim(t.Context(), a, nil)
	s.must(err)
	if len(events) != 1 || events[0].Key != "2" || !next.Equal(s.now.Add(5*time.Second)) {
		t.Fatalf("got %+v and %v, expected that what comes behind does not wait", events, next)
	}
	s.now = s.now.Add(5 * time.Second)
	events, _, err = s.Claim(t.Context(), a, []string{"2"})
	s.must(err)
	if len(events) != 1 || events[0].Attempts != 1 || events[0].Begun {
		t.Fatalf("got %+v, expected a second attempt that begins anew", events)
	}
}

func bundlesAreOneEvent(t *testing.T, open openEmpty) {
	s := newEventScene(t, open)
	a := store.EventClaim{Replica: "a", Alive: []string{"a"}, Logins: []string{"chat"}, Limit: 10}
	part := func(key string, wait time.Duration) store.Event {
		e := anEvent(key, "x")
		e.Bundle, e.Arrived = "album", s.now
		e.Due = s.now.Add(wait)
		return e
	}
	s.accept(part("1", time.Second))
	s.now = s.now.Add(900 * time.Millisecond)
	s.accept(part("2", time.Second), anEvent("3", "x"))
	s.now = s.now.Add(900 * time.Millisecond)
	s.want(s.claimBy(a), "") // each part waits for the next one
	s.now = s.now.Add(200 * time.Millisecond)
	claim := func() store.Event {
		t.Helper()
		events, _, err := s.Claim(t.Context(), store.EventClaim{Replica: "a", Alive: []string{"a"}, Logins: []string{"chat"}, Limit: 1}, nil)
		s.must(err)
		if len(events) != 1 || events[0].Key != "1" || len(events[0].Parts) != 2 || string(events[0].Parts[1]) != "raw 2" || !slices.Equal(events[0].Merged, []string{"2"}) {
			t.Fatalf("got %+v, expected both parts", events)
		}
		return events[0]
	}
	claim()
	s.must(s.Release(t.Context(), store.EventRelease{Key: "1", Replica: "a"}))
	claim() // with its parts
	_, _, err := s.End(t.Context(), store.EventEnd{Key: "1", Replica: "a", Outcome: "visible"})
	s.must(err)
	if isNew := s.accept(part("2", time.Second)); isNew[0] {
		t.Error("a part that has ended with the others is new")
	}
	s.want(s.claimBy(a), "3")
	if events, _, err := s.Pending(t.Context()); err != nil || events["chat"] != 1 {
		t.Errorf("got %v, %v, expected that 3 is open", events, err)
	}
}

func parkedEventsWait(t *testing.T, open openEmpty) {
	s := newEventScene(t, open)
	a := store.EventClaim{Replica: "a", Alive: []string{"a"}}
	s.accept(anEvent("1", "x"), anEvent("2", "y"))
	s.want(s.claimBy(a), "1 2")
	s.must(s.Release(t.Context(), store.EventRelease{Key: "1", Replica: "a", Parked: "ann"}))
	s.must(s.Release(t.Context(), store.EventRelease{Key: "2", Replica: "a", Parked: "bob"}))
	s.want(s.claimBy(a), "")
	names, err := s.Parked(t.Context(), "chat")
	if slices.Sort(names); err != nil || !slices.Equal(names, []string{"ann", "bob"}) {
		t.Fatalf("got %q, %v", names, err)
	}
	s.must(s.Unpark(t.Context(), "chat", "ann", false))
	s.must(s.Unpark(t.Context(), "chat", "bob", true))
	s.want(s.claimBy(a), "1")
	if isNew := s.accept(anEvent("2", "y")); isNew[0] {
		t.Error("an event that was dropped is new")
	}
}

func tooManyEvents(t *testing.T, open openEmpty) {
	s := newEventScene(t, open)
	s.maxOpen = 2
	s.accept(anEvent("1", "x"), anEvent("2", "x"))
	if _, err := s.Accept(t.Context(), []store.Event{anEvent("3", "x")}); !errors.Is(err, store.ErrFull) {
		t.Errorf("got %v, expected ErrFull", err)
	}
	s.accept(anEvent("2", "x"))
	s.must(s.EraseOf(t.Context(), "", []string{"x"}))
	s.accept(anEvent("3", "x"))
}

func repliesKeepTheirOrder(t *testing.T, open openEmpty) {
	s := newEventScene(t, open)
	end := func(key, target string) (id int64, first bool) {
		t.Helper()
		s.accept(anEvent(key, key))
		s.claimBy(store.EventClaim{Replica: "a", Alive: []string{"a"}})
		id, first, err := s.End(t.Context(), store.EventEnd{Key: key, Replica: "a", Reply: &store.Reply{Login: "chat", Target: target, Session: "s " + target, Block: []byte(key)}})
		s.must(err)
		return id, first
	}
	claim := func(replica string, alive []string) (all []store.Reply) {
		t.Helper()
		all, _, err := s.ClaimReplies(t.Context(), store.EventClaim{Replica: replica, Alive: alive, Logins: []string{"chat"}, Limit: 10})
		s.must(err)
		return all
	}
	first, now := end("1", "x")
	if !now {
		t.Fatal("the first reply has to wait")
	}
	second, now := end("2", "x")
	if now {
		t.Fatal("the second reply to a target does not wait for the first")
	}
	if got := claim("a", []string{"a"}); len(got) != 0 {
		t.Fatalf("got %+v while the first is being sent", got)
	}
	s.must(s.PostponeReply(t.Context(), first, "a", s.now.Add(time.Minute), false))
	if got := claim("a", []string{"a"}); len(got) != 0 {
		t.Fatalf("got %+v before the first is due", got)
	}
	s.now = s.now.Add(time.Minute)
	if got := claim("a", []string{"a"}); len(got) != 1 || got[0].ID != first || got[0].Attempts != 2 || got[0].Unsure {
		t.Fatalf("got %+v, expected the second attempt of the first", got)
	}
	// a dies.
	if got := claim("b", []string{"b"}); len(got) != 1 || got[0].ID != first || !got[0].Unsure {
		t.Fatalf("got %+v, expected the first, whose outcome is not known", got)
	}
	s.moved(s.EndReply(t.Context(), first, "a"))
	s.moved(s.ReplaceReply(t.Context(), first, "a", []byte("x")))
	s.now = s.now.Add(2 * time.Minute)
	s.must(s.ReplaceReply(t.Context(), first, "b", []byte("notice")))
	s.now = s.now.Add(2 * time.Minute)
	if got := claim("b", []string{"b"}); len(got) != 0 {
		t.Fatalf("got %+v, while the notice is being sent", got)
	}
	s.must(s.PostponeReply(t.Context(), first, "b", s.now, false))
	if got := claim("b", []string{"b"}); len(got) != 1 || got[0].ID != first || got[0].Unsure || string(got[0].Block) != "notice" {
		t.Fatalf("got %+v, expected what the first was replaced by", got)
	}
	s.must(s.EndReply(t.Context(), first, "b"))
	if got := claim("b", []string{"b"}); len(got) != 1 || got[0].ID != second || string(got[0].Block) != "2" {
		t.Fatalf("got %+v, expected the second", got)
	}
	// An answer that was lost.
	if got := claim("b", []string{"b"}); len(got) != 0 {
		t.Fatalf("got %+v, while it may be that it is being sent", got)
	}
	s.now = s.now.Add(10 * time.Minute)
	if got := claim("b", []string{"b"}); len(got) != 1 || !got[0].Unsure {
		t.Fatalf("got %+v, expected the one that was lost", got)
	}
	s.must(s.EraseOf(t.Context(), "s x", nil))
	if _, replies, err := s.Pending(t.Context()); err != nil || replies["chat"] != 0 {
		t.Errorf("got %v, %v after the session was erased", replies, err)
	}
}

// manyClaims has replicas claim at the same time: one event of a lane runs at a time, and each once.
func manyClaims(t *testing.T, open openEmpty) {
	s := newEventScene(t, open)
	const lanes, each = 5, 4
	for i := range each {
		for lane := range lanes {
			s.accept(anEvent(fmt.Sprintf("%d-%d", lane, i), fmt.Sprint(lane)))
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	next, running := map[string]int{}, map[string]bool{}
	for r := range 3 {
		replica := fmt.Sprint("r", r)
		wg.Go(func() {
			for {
				mu.Lock()
				done := 0
				for _, n := range next {
					done += n
				}
				mu.Unlock()
				if done >= lanes*each {
					return
				}
				events, _, err := s.Claim(t.Context(), store.EventClaim{Replica: replica, Alive: []string{"r0", "r1", "r2"}, Logins: []string{"chat"}, Limit: 2}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range events {
					mu.Lock()
					if running[e.Lane] || e.Key != fmt.Sprintf("%s-%d", e.Lane, next[e.Lane]) {
						t.Errorf("%s claims %s while %v runs and %d is next", replica, e.Key, running[e.Lane], next[e.Lane])
					}
					running[e.Lane] = true
					mu.Unlock()
				}
				for _, e := range events {
					mu.Lock()
					running[e.Lane] = false
					next[e.Lane]++
					mu.Unlock()
					if _, _, err := s.End(t.Context(), store.EventEnd{Key: e.Key, Replica: replica}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}
