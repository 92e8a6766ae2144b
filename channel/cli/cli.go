// Package cli is the channel of a terminal: somebody types a line, and the answer grows above the next one.
//
// # Guarantees
//   - What a model writes is shown and never obeyed: no control character of it reaches the terminal.
//   - A line that is being typed stays as it is, whatever is written meanwhile.
//   - Ctrl-C ends answers and not the program. What was typed before it is answered no more.
//   - When Serve returns, the terminal is as it was before, and no turn runs.
//
// # What the library does, and what it does not
//
// golang.org/x/term makes a terminal raw and knows its size. Its line editor is not used: it counts a wide character as one cell, hands
// a paste of several rows out as several lines, ends at Ctrl-C and takes it again with the next call, and puts the prompt behind an
// answer that has not ended its row.
package cli

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/turn"
)

// Name is the channel's.
const Name = "cli"

// Sender is who types. The channel's shipped settings let this one talk and give every command.
const Sender = "local"

// DefaultSession is the session of those who name none.
const DefaultSession = "main"

// Options of [New]. In, Out and Agent are required.
type Options struct {
	In       io.Reader
	Out      io.Writer // what is said
	Err      io.Writer // without a terminal: errors and tools; nil is nowhere
	Terminal Terminal  // that In and Out are of; nil: lines in, plain text out

	Agent   string // that answers
	Default string // the agent whose sessions do not have its name; "" is Agent
	Model   string // for people; may be ""
	Session string // "" is [DefaultSession]

	History  string             // file of the lines that were typed; "" keeps them while it runs
	Commands []*command.Command // of the agent, for completion and help
	Colors   bool               // bold, dim and red; else nothing but text

	// Reason is what a person may read of the error of a turn, beside the sentence that everybody is told; nil or "" is nothing.
	Reason func(error) string

	Interrupts <-chan struct{} // Ctrl-C that did not come as a key; nil for none
	Grace      time.Duration   // how long turns may go on when Serve is to end: 20 s
}

// Chat is the channel. Make one with [New].
type Chat struct {
	o      Options
	names  []string // of all commands, for completion
	kernel *kernel.Kernel
	show   shower

	turns     context.Context // of what runs
	stopTurns context.CancelCauseFunc
	wg        sync.WaitGroup // of turns

	mu        sync.Mutex
	session   string
	waiting   []*message // behind one that has no place in its lane yet
	starting  bool
	running   []*running   // in the order of their beginning
	questions []*question  // that wait for approval, the oldest first
	last      *lastTurn    // for ,why
	failed    bool         // a turn has
	told      func(string) // without a terminal: of a question; nil
	noting    bool         // show shows what others have to say
}

// message is a line that is for the agent.
type message struct {
	id, text, session string
	at                time.Time
	done              func() // nil
}

type running struct {
	message *message
	cancel  context.CancelCauseFunc
	why     bool // what came of it is to be shown
}

type question struct{ turn, id, tool string }

type lastTurn struct {
	result channel.Result
	text   string
}

// shower shows what is said: a screen, or plain text.
type shower interface {
	write(owner any, text string, as style)
	fresh(owner any)    // ends a row that is not ended
	tell(status string) // that something works; "" for nothing
	note(text string, as style)
}

// New returns the channel.
func New(o Options) *Chat {
	o.Session = cmp.Or(o.Session, DefaultSession)
	o.Default = cmp.Or(o.Default, o.Agent)
	o.Grace = cmp.Or(max(o.Grace, 0), 20*time.Second)
	if o.Err == nil {
		o.Err = io.Discard
	}
	c := &Chat{o: o, session: o.Session}
	for _, own := range ownCommands {
		c.names = append(c.names, own.name)
	}
	for _, one := range o.Commands {
		c.names = append(c.names, one.Name)
	}
	slices.Sort(c.names)
	c.names = slices.Compact(c.names)
	return c
}

// Serve talks until ctx ends or the person ends the conversation. A Chat serves once.
//
// Where In has deadlines, nothing reads it any more when Serve returns; else one read may go on, whose line is lost.
func (c *Chat) Serve(ctx context.Context, k *kernel.Kernel) error {
	c.kernel = k
	c.turns, c.stopTurns = context.WithCancelCause(context.WithoutCancel(ctx))
	defer c.stopTurns(nil)
	if c.o.Terminal == nil {
		return c.plainly(ctx)
	}
	return c.interactively(ctx)
}

// Unanswered says whether a message was not answered, or not to its end.
func (c *Chat) Unanswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Note shows what others have to say, such as a log; false where nothing is shown at the moment.
func (c *Chat) Note(text string) bool {
	c.mu.Lock()
	noting := c.noting
	c.mu.Unlock()
	if noting {
		c.show.note(Visible(text), dim)
	}
	return noting
}

// shows begins to show what is said, and the notes of others; hides ends the latter.
func (c *Chat) shows(s shower) (hides func()) {
	set := func(on bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.show, c.noting = s, on
	}
	set(true)
	return func() { set(false) }
}

func (c *Chat) message(text string) *message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &message{id: turn.NewID(), text: text, session: c.session, at: time.Now()}
}

// maxWaiting bounds the lines that are not answered yet: nobody types so many.
const maxWaiting = 64

// send gives a line to the agent; false where there are too many already.
func (c *Chat) send(m *message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting)+len(c.running) >= maxWaiting {
		return false
	}
	c.waiting = append(c.waiting, m)
	c.startLocked()
	return true
}

// startLocked starts the next line when the one before has its place in the lane (CH-05).
func (c *Chat) startLocked() {
	if c.starting || len(c.waiting) == 0 || c.turns.Err() != nil {
		return
	}
	m := c.waiting[0]
	c.waiting = c.waiting[1:]
	ctx, cancel := context.WithCancelCause(c.turns)
	r := &running{message: m, cancel: cancel}
	c.running = append(c.running, r)
	c.starting = true
	c.wg.Go(func() { c.run(ctx, r) })
}

// run runs the turn of one line.
func (c *Chat) run(ctx context.Context, r *running) {
	queued := sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.starting = false
		c.startLocked()
	})
	result, err := c.kernel.RunAssembled(ctx, kernel.Meta{Channel: Name, Queued: queued}, c.turn(r.message))
	c.ended(r, result, err)
	r.cancel(nil)
	queued()
	if r.message.done != nil {
		r.message.done()
	}
}

// interrupt ends the turns that run, and forgets the lines that wait; false where there were none.
func (c *Chat) interrupt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.running) == 0 {
		return false
	}
	c.waiting = nil
	for _, r := range c.running {
		r.cancel(turn.ErrStopped)
	}
	return true
}

// drain lets the turns end that run, and cancels those that take too long.
func (c *Chat) drain() {
	c.mu.Lock()
	c.waiting = nil
	c.mu.Unlock()
	late := time.AfterFunc(c.o.Grace, func() { c.stopTurns(channel.ErrDraining) })
	defer late.Stop()
	c.wg.Wait()
}

// leave ends the turns that run: whoever leaves waits for nothing.
func (c *Chat) leave() {
	c.mu.Lock()
	c.waiting = nil
	c.mu.Unlock()
	c.stopTurns(turn.ErrStopped)
	c.wg.Wait()
}
