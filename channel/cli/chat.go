// Package cli is the channel of a terminal: a person types lines, and the answers grow above the line that is typed.
//
// # Guarantees
//   - Text of a model is shown and never obeyed: no control character of it reaches the terminal.
//   - A line that is being typed stays as it is, while text is written.
//   - Ctrl-C ends answers and not the program. Lines that wait for their turn are dropped.
//   - When Serve returns, the terminal is as it was before, and no turn runs.
//
// golang.org/x/term edits the line. What it lacks, wide characters, pastes of several rows and an answer that grows above the line, is in
// editor and screen.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

	Commands []*command.Command // of the agent, for completion
	Colors   bool               // bold, dim and red

	// Reason returns what the person may read of the error of a turn; nil or "" is nothing.
	Reason func(error) string

	Interrupts <-chan os.Signal // a Ctrl-C that did not come as a key; nil
	Grace      time.Duration    // how long turns may go on when Serve ends; 0 is 20 s
}

// Chat is the channel. Make one with [New].
type Chat struct {
	o       Options
	kernel  *kernel.Kernel
	view    view
	showing atomic.Bool // view shows the notes of others

	interrupted bool // by one of Interrupts; only talk sets it

	wg sync.WaitGroup // of turns

	mu        sync.Mutex
	turns     context.Context // of the turns that run
	cancel    context.CancelCauseFunc
	running   int // turns
	session   string
	questions []question // without an answer, the oldest first
	failed    bool       // a line was not answered, or not to its end
}

type question struct{ turn, id string }

// view shows the conversation: a [screen], or [pages] without a terminal.
type view interface {
	write(b *block, text string) // shows a text in place of what is shown of the block
	finish(b *block)             // shows that the block is complete
	note(text string, as style)  // writes rows
	working(on bool)             // shows or removes the sign that an answer is awaited
	failure() error              // of the first text that could not be written
}

// New returns the channel.
func New(o Options) *Chat {
	o.Session = cmp.Or(o.Session, DefaultSession)
	o.Default = cmp.Or(o.Default, o.Agent)
	o.Grace = cmp.Or(max(o.Grace, 0), 20*time.Second)
	o.Err = cmp.Or(o.Err, io.Discard)
	if o.Reason == nil {
		o.Reason = func(error) string { return "" }
	}
	return &Chat{o: o, session: o.Session}
}

// Serve talks until ctx ends or the person ends the conversation. A Chat serves once.
//
// After Serve has returned, one read of In may go on, whose line is lost.
func (c *Chat) Serve(ctx context.Context, k *kernel.Kernel) error {
	c.kernel = k
	c.turns, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if c.o.Terminal == nil {
		c.view = &pages{out: c.o.Out, err: c.o.Err}
		return c.talk(ctx, scanLines(c.o.In))
	}
	return c.talkAtTerminal(ctx)
}

// Unanswered reports whether a message was not answered, or not to its end.
func (c *Chat) Unanswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Interrupted reports whether one of [Options.Interrupts] came. Call it after Serve.
func (c *Chat) Interrupted() bool { return c.interrupted }

// Note shows a text of others, such as a log. It returns false if no conversation is shown at the moment.
func (c *Chat) Note(text string) bool {
	showing := c.showing.Load()
	if showing {
		c.view.note(Visible(text), dim)
	}
	return showing
}

// talk handles the lines that read returns. Without a terminal, a line is read when the one before is answered, and nobody approves a call.
func (c *Chat) talk(ctx context.Context, read func() (string, error)) error {
	reading, stopReading := context.WithCancel(ctx)
	defer c.wg.Wait()
	defer c.stopTurns(turn.ErrStopped)
	defer stopReading()
	ended := make(chan struct{}) // is closed when there are no more lines
	go func() {
		defer close(ended)
		for c.view.failure() == nil {
			text, err := read()
			if err != nil || reading.Err() != nil {
				return
			}
			if text = strings.TrimSpace(text); text != "" && c.enter(text) {
				return
			}
			if c.o.Terminal == nil {
				c.wg.Wait()
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			late := time.AfterFunc(c.o.Grace, func() { c.stopTurns(channel.ErrDraining) })
			defer late.Stop()
			c.wg.Wait()
			return nil
		case <-c.o.Interrupts:
			c.interrupted = true
			if !c.cancelTurns() && c.o.Terminal == nil {
				return nil
			}
		case <-ended:
			if err := c.view.failure(); err != nil {
				return fmt.Errorf("write the answer: %w", err)
			}
			return nil
		}
	}
}

// enter handles a line. It returns whether the line ends the conversation.
func (c *Chat) enter(text string) (quit bool) {
	text, ok := c.answer(text)
	rest, isCommand := cutComma(text)
	name, rest, _ := strings.Cut(rest, " ")
	switch name = strings.ToLower(name); {
	case !ok:
		c.view.note(severalWait, bad)
	case isCommand && (name == "quit" || name == "exit"):
		return true
	case isCommand && name == "session":
		c.changeSession(strings.TrimSpace(rest))
	default:
		c.send(text)
	}
	return false
}

// send starts the turn of a line, and returns when it has its place in its lane: the next one starts afterwards (CH-05).
func (c *Chat) send(text string) {
	c.mu.Lock()
	if c.turns.Err() != nil { // the chat has ended
		c.mu.Unlock()
		return
	}
	if words := strings.Fields(text); len(words) > 1 && (words[0] == ",approve" || words[0] == ",deny") {
		c.questions = slices.DeleteFunc(c.questions, func(q question) bool { return strings.EqualFold(q.id, words[1]) })
	}
	c.running++
	ctx, d := c.turns, &delivery{chat: c, block: new(block)}
	t := c.newTurn(text, d)
	placed := make(chan struct{})
	place := sync.OnceFunc(func() { close(placed) })
	c.wg.Go(func() {
		defer place()
		result, err := c.kernel.RunAssembled(ctx, kernel.Meta{Channel: Name, Queued: place}, t)
		c.view.finish(d.block)
		c.endTurn(result, err)
	})
	c.mu.Unlock()
	<-placed
}

// cancelTurns cancels all turns. It returns false if there are none: then it says so at a terminal.
func (c *Chat) cancelTurns() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == 0 {
		c.view.note("No answer is running. Ctrl-D or ,quit ends the chat.", dim)
		return false
	}
	c.cancel(turn.ErrStopped)
	c.turns, c.cancel = context.WithCancelCause(context.WithoutCancel(c.turns))
	return true
}

// stopTurns cancels all turns when the chat ends.
func (c *Chat) stopTurns(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel(cause)
}
