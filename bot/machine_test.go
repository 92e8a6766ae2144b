package bot

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// BO-01
func TestOnlyTheTransitionsOfTheTableAreMade(t *testing.T) {
	cause := errors.New("cause")
	states := []State{Init, Chatting, InferenceDone, Finished, Error}
	allowed := map[[2]State]bool{
		{Init, Chatting}: true, {Chatting, InferenceDone}: true, {InferenceDone, Finished}: true,
		{Finished, Chatting}: true, {Error, Chatting}: true, // DM-01
		{Init, Error}: true, {Chatting, Error}: true, {InferenceDone, Error}: true,
	}
	at := func(s State) *Machine {
		m := new(Machine)
		if s == Error {
			m.Fail(cause)
			return m
		}
		for _, step := range states[1:4] {
			if m.State() == s {
				break
			}
			if err := m.To(step); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}
	for _, from := range states {
		for _, to := range states {
			t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) {
				m := at(from)
				var seen []Transition
				m.Watch(func(tr Transition) { seen = append(seen, tr) })
				var err error
				if to == Error {
					err = m.Fail(cause)
				} else {
					err = m.To(to)
				}
				if !allowed[[2]State{from, to}] {
					if err == nil || m.State() != from || len(seen) > 0 {
						t.Fatalf("was not refused: %v, state %s, seen %v", err, m.State(), seen)
					}
					return
				}
				want := Transition{From: from, To: to}
				if to == Error {
					want.Err = cause
				}
				if err != nil || m.State() != to || len(seen) != 1 || seen[0] != want || m.Err() != want.Err {
					t.Fatalf("%v, state %s, err %v, seen %v", err, m.State(), m.Err(), seen)
				}
			})
		}
	}
}

func TestAnErrorNeedsACause(t *testing.T) {
	var m Machine
	if m.To(Error) == nil || m.Fail(nil) == nil || m.State() != Init {
		t.Fatal("the state error was reached without a cause")
	}
}

// BO-01
func TestWatchersSeeTransitionsInOrder(t *testing.T) {
	t.Run("made by a watcher", func(t *testing.T) {
		var m Machine
		var seen []string
		for _, name := range []string{"a", "b"} {
			m.Watch(func(tr Transition) {
				seen = append(seen, name+" "+string(tr.To))
				if name == "a" && tr.To == Chatting {
					m.To(InferenceDone)
				}
			})
		}
		m.To(Chatting)
		want := []string{"a chatting", "b chatting", "a inference-done", "b inference-done"}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("made by many goroutines", func(t *testing.T) {
		for range 50 {
			var m Machine
			var mu sync.Mutex
			var seen []State
			m.Watch(func(tr Transition) { mu.Lock(); seen = append(seen, tr.To); mu.Unlock() })
			var wg sync.WaitGroup
			for _, s := range []State{Chatting, InferenceDone, Finished} {
				wg.Go(func() {
					for m.To(s) != nil && !m.State().Ended() {
					}
				})
			}
			wg.Wait()
			if diff := cmp.Diff([]State{Chatting, InferenceDone, Finished}, seen); diff != "" {
				t.Fatal(diff)
			}
		}
	})
	t.Run("though one panics", func(t *testing.T) {
		var m Machine
		var seen []State
		m.Watch(func(tr Transition) {
			if tr.To == Chatting {
				panic("ouch")
			}
		})
		m.Watch(func(tr Transition) { seen = append(seen, tr.To) })
		func() {
			defer func() {
				if recover() != "ouch" {
					t.Error("the panic was swallowed")
				}
			}()
			m.To(Chatting)
		}()
		m.To(InferenceDone)
		if diff := cmp.Diff([]State{Chatting, InferenceDone}, seen); diff != "" {
			t.Error(diff)
		}
	})
}
