// Package bot turns a model into a worker with a state: a prompt goes in, parsed output comes out while it is written.
package bot

// State is where a bot stands: init → chatting → inference-done → finished, or error from any but the end.
type State string

const (
	Init          State = "init"
	Chatting      State = "chatting"
	InferenceDone State = "inference-done"
	Finished      State = "finished"
	Error         State = "error"
)

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

// Machine is the state machine that bots embed. Its zero value is in the state [Init].
type Machine struct{}

func (m *Machine) State() State             { panic("bot: not built yet") }
func (m *Machine) Err() error               { panic("bot: not built yet") }
func (m *Machine) Watch(f func(Transition)) { panic("bot: not built yet") }

// To makes a transition; one that is not in the table is refused with an error (and is a bug).
func (m *Machine) To(s State) error { panic("bot: not built yet") }

// Fail makes the transition to [Error] with its cause.
func (m *Machine) Fail(cause error) error { panic("bot: not built yet") }
