// Package bot turns a model into a worker with a state: a prompt goes in, parsed output comes out while it is written.
//
// # Guarantees
//   - A bot goes init → chatting → inference-done → finished, or to error from any state but the last; from finished and error it goes
//     to chatting when it is asked again. Every transition is observable, in order.
//   - A bot's callbacks are called one at a time, in order: strings, objects and scalars as they are complete, then
//     InferenceDone, then Response; or Error, and after it none of the others.
//   - A panic in a callback is that bot's error. Its stack is in the log and nowhere else.
//   - What a bot has written stays, also when it fails. With [Retry] and [RetryThenFail], an answer that is no good gives way to another, once
//     that has begun.
//   - Every tool that a model calls has a result, which the model gets in the next round; a failing tool fails no bot. The rounds
//     are bounded, and nothing of a tool is running when its bot has ended, except one that ignores that its time is over.
package bot

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// State is where a bot stands: init → chatting → inference-done → finished, or error from any but the end; and chatting again from both
// ends.
type State string

const (
	Init          State = "init"
	Chatting      State = "chatting"
	InferenceDone State = "inference-done"
	Finished      State = "finished"
	Error         State = "error"
)

// Ended says whether a bot in this state has nothing more to do, unless it is asked again.
func (s State) Ended() bool { return s == Finished || s == Error }

// Transition is a change of state; Err is the cause where To is [Error].
type Transition struct {
	From, To State
	Err      error
}

// Bot is anything that a manager can wait for: a chat with a model, a drawing, a database query. Embed a [Machine] to
// have one.
type Bot interface {
	State() State
	Err() error
	// Watch calls f for each transition from now on, in order, from the goroutine that makes it.
	Watch(f func(Transition))
}

// Machine is the state machine that bots embed. Its zero value is in the state [Init]. It is safe for concurrent use.
type Machine struct {
	mu         sync.Mutex
	state      State // "" is Init
	err        error
	watchers   []func(Transition)
	queue      []Transition // that the watchers have not got yet
	delivering bool         // a goroutine is notifying them
}

// next is the table of transitions. [Error] is not in it: every state leads there but those that are the end.
var next = map[State]State{Init: Chatting, Chatting: InferenceDone, InferenceDone: Finished}

// State returns where the bot stands.
func (m *Machine) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now()
}

func (m *Machine) now() State {
	if m.state == "" {
		return Init
	}
	return m.state
}

// Err returns what led to the state [Error], nil in any other.
func (m *Machine) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Watch calls f for each transition from now on, in order, from the goroutine that makes it. Where transitions are made by
// several goroutines at once, or by f itself, the first of them notifies all watchers. A panic in f reaches the goroutine that made the
// transition, when all watchers were told.
func (m *Machine) Watch(f func(Transition)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers = append(m.watchers[:len(m.watchers):len(m.watchers)], f) // deliver reads the old slice without the lock
}

// To makes a transition; one that is not in the table is refused with an error (and is a bug).
func (m *Machine) To(s State) error { return m.move(s, nil) }

// Fail makes the transition to [Error] with its cause.
func (m *Machine) Fail(cause error) error { return m.move(Error, cause) }

func (m *Machine) move(to State, cause error) error {
	if to == Error && cause == nil {
		return errors.New("bot: the state error needs a cause: use Fail")
	}
	m.mu.Lock()
	from := m.now()
	again := from.Ended() && to == Chatting
	if to == Error && from.Ended() || to != Error && next[from] != to && !again {
		m.mu.Unlock()
		return fmt.Errorf("bot: no transition from %s to %s", from, to)
	}
	m.state, m.err = to, cause
	m.queue = append(m.queue, Transition{From: from, To: to, Err: cause})
	m.deliver()
	return nil
}

// deliver notifies the watchers of the queued transitions, in order and without the lock. It is called with the lock held and releases it.
// If a watcher panics, the next transition delivers the rest.
func (m *Machine) deliver() {
	defer m.mu.Unlock()
	if m.delivering {
		return
	}
	m.delivering = true
	defer func() { m.delivering = false }()
	for len(m.queue) > 0 {
		t, watchers := m.queue[0], m.watchers
		m.queue = m.queue[1:]
		m.mu.Unlock()
		func() {
			defer m.mu.Lock()
			for _, f := range slices.Backward(watchers) {
				defer f(t) // all are called, also where one of them panics
			}
		}()
	}
}
