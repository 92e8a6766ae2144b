// Package cli is the channel of a terminal: a person types lines, and the answers grow above the line that is typed.
//
// # Guarantees
//   - Text of a model is shown and never obeyed: no control character of it reaches the terminal.
//   - A line that is being typed stays as it is, while text is written.
//   - Ctrl-C ends answers and not the program. Lines that wait for their turn are dropped.
//   - When Serve returns, the terminal is as it was before, and no turn runs.
//
// golang.org/x/term edits the line. What it lacks, wide characters, pastes of several rows and an answer that grows above the line, is in the
// reader and the writer below it: keyboard and screen.
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

// Name is the name of the channel.
const Name = "cli"

// Sender is the id of the person at the terminal. By default this one may talk and give every command.
const Sender = "local"

// DefaultSession is the session if none is named.
const DefaultSession = "main"

// Options of [New]. In, Out and Agent are required.
type Options struct {
	In       io.Reader
	Out      io.Writer
	Err      io.Writer // of errors and tools, without a terminal; nil drops them
	Terminal *Terminal // of In and Out; nil: lines in, plain text out

	Agent   string // the agent that answers
	Default string // the agent whose sessions do not have its name; "" is Agent
	Model   string // its name for the banner; may be ""
	Session string // "" is [DefaultSession]

	History  string             // file of the lines that were typed; ""
	Commands []*command.Command // of the agent, for completion and help
	Colors   bool               // bold, dim and red

	// Reason returns what the person may read of the error of a turn; nil or "" is nothing.
	Reason func(error) string

	Interrupts <-chan struct{} // a Ctrl-C that did not come as a key; nil
	Grace      time.Duration   // how long turns may go on when Serve ends; 0 is 20 s
}

// Chat is the channel. Make one with [New].
type Chat struct {
	o      Options
	names  []string // of all commands, for completion
	kernel *kernel.Kernel
	view   view
	asked  chan string // ids of questions, without a terminal; nil

	turns     context.Context // of all turns
	stopTurns context.CancelCauseFunc
	wg        sync.WaitGroup // of turns

	mu        sync.Mutex
	session   string
	placed    chan struct{} // closed when the last line has its place in its lane
	running   []*running    // turns that run or wait for the place of the line before
	questions []*question   // without an answer, the oldest first
	last      *lastTurn     // for ,why
	failed    bool          // a line was not answered, or not to its end
	noting    bool          // view shows the notes of others
}

// message is a line for the agent.
type message struct {
	id, text, session string
	at                time.Time
	done              func() // nil
}

type running struct {
	message *message
	cancel  context.CancelCauseFunc
	started bool
	explain bool // its outcome is to be shown
}

type question struct{ turn, id string }

type lastTurn struct {
	result channel.Result
	text   string
}

// view shows the conversation: a [screen], or [pages] without a terminal.
type view interface {
	write(owner any, text string, as style) // continues the text of the owner
	note(text string, as style)             // writes rows
	working(on bool)                        // shows or removes the sign that an answer is awaited
}

// New returns the channel.
func New(o Options) *Chat {
	o.Session = cmp.Or(o.Session, DefaultSession)
	o.Default = cmp.Or(o.Default, o.Agent)
	o.Grace = cmp.Or(max(o.Grace, 0), 20*time.Second)
	if o.Err == nil {
		o.Err = io.Discard
	}
	if o.Reason == nil {
		o.Reason = func(error) string { return "" }
	}
	c := &Chat{o: o, session: o.Session}
	for _, one := range terminalCommands {
		c.names = append(c.names, one.name)
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
// If In has deadlines, nothing reads it after Serve has returned; else one read may go on, and its line is lost.
func (c *Chat) Serve(ctx context.Context, k *kernel.Kernel) error {
	c.kernel, c.placed = k, make(chan struct{})
	close(c.placed)
	c.turns, c.stopTurns = context.WithCancelCause(context.WithoutCancel(ctx))
	defer c.stopTurns(nil)
	if c.o.Terminal == nil {
		return c.talkInLines(ctx)
	}
	return c.talkAtTerminal(ctx)
}

// Unanswered reports whether a message was not answered, or not to its end.
func (c *Chat) Unanswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Note shows a text of others, such as a log. It returns false if no conversation is shown at the moment.
func (c *Chat) Note(text string) bool {
	c.mu.Lock()
	noting := c.noting
	c.mu.Unlock()
	if noting {
		c.view.note(Visible(text), dim)
	}
	return noting
}

// showOn shows the conversation, and until hide is called the notes of others.
func (c *Chat) showOn(v view) (hide func()) {
	set := func(on bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.view, c.noting = v, on
	}
	set(true)
	return func() { set(false) }
}

func (c *Chat) newMessage(text string) *message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &message{id: turn.NewID(), text: text, session: c.session, at: time.Now()}
}

// maxWaiting limits the lines that are not answered yet.
const maxWaiting = 64

// send gives a line to the agent. It returns false if too many lines wait.
func (c *Chat) send(m *message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.running) >= maxWaiting {
		return false
	}
	ctx, cancel := context.WithCancelCause(c.turns)
	r := &running{message: m, cancel: cancel}
	c.running = append(c.running, r)
	before, placed := c.placed, make(chan struct{})
	c.placed = placed
	c.wg.Go(func() {
		<-before // the next turn starts when the last one has its place in the lane (CH-05)
		c.run(ctx, r, sync.OnceFunc(func() { close(placed) }))
	})
	return true
}

// run runs the turn of a line, unless it was canceled before.
func (c *Chat) run(ctx context.Context, r *running, placed func()) {
	defer placed()
	c.mu.Lock()
	r.started = ctx.Err() == nil
	c.mu.Unlock()
	var result channel.Result
	var err error
	if r.started {
		result, err = c.kernel.RunAssembled(ctx, kernel.Meta{Channel: Name, Queued: placed}, c.turnOf(r.message))
	}
	c.endTurn(r, result, err)
	r.cancel(nil)
	if r.message.done != nil {
		r.message.done()
	}
}

// interrupt cancels all turns. It returns false if there are none.
func (c *Chat) interrupt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.running {
		r.cancel(turn.ErrStopped)
	}
	return len(c.running) > 0
}

// drain waits for the turns that run, and cancels those that take too long.
func (c *Chat) drain() {
	c.mu.Lock()
	for _, r := range c.running {
		if !r.started {
			r.cancel(channel.ErrDraining)
		}
	}
	c.mu.Unlock()
	late := time.AfterFunc(c.o.Grace, func() { c.stopTurns(channel.ErrDraining) })
	defer late.Stop()
	c.wg.Wait()
}

// stop cancels all turns, and waits for their end.
func (c *Chat) stop() {
	c.stopTurns(turn.ErrStopped)
	c.wg.Wait()
}
