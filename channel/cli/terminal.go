package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Terminal is a terminal that a conversation is held at.
type Terminal struct{ in, out int }

// OpenTerminal returns the terminal of two files, if both are files of a terminal on which the cursor can be moved.
func OpenTerminal(in, out *os.File) (*Terminal, bool) {
	t := &Terminal{int(in.Fd()), int(out.Fd())}
	return t, term.IsTerminal(t.in) && term.IsTerminal(t.out) && os.Getenv("TERM") != "dumb"
}

// size returns the size of the screen, or a usual one if it is unknown.
func (t *Terminal) size() (width, height int) {
	width, height, _ = term.GetSize(t.out)
	if width < 2 || height < 2 {
		return 80, 24
	}
	return width, height
}

// A terminal with bracketed paste marks the begin and the end of a pasted text.
const (
	pasteOn  = "\x1b[?2004h"
	pasteOff = "\x1b[?2004l"
)

// talkAtTerminal talks with a person at a terminal.
func (c *Chat) talkAtTerminal(ctx context.Context) (err error) {
	before, err := term.MakeRaw(c.o.Terminal.in) // the program gets each key as it is pressed
	if err != nil {
		return fmt.Errorf("cannot use the terminal: %w", err)
	}
	_, _ = io.WriteString(c.o.Out, pasteOn) // if the terminal is gone, its reader notices
	c.view = &screen{tty: c.o.Terminal, out: c.o.Out, colors: c.o.Colors}
	c.showing.Store(true)
	defer func() {
		c.showing.Store(false)
		_, _ = io.WriteString(c.o.Out, "\r"+clearBelow+pasteOff)
		err = errors.Join(err, term.Restore(c.o.Terminal.in, before))
	}()
	who := "agent " + c.o.Agent
	if c.o.Model != "" {
		who += ", model " + c.o.Model
	}
	c.view.note("lingserve chat: "+oneLine(who+", session "+c.o.Session, 1000), strong)
	c.view.note(",help lists the agent's commands; Ctrl-C cancels an answer, Ctrl-D ends", dim)
	return c.talk(ctx, newEditor(c.o.In, c.view.(*screen), c.cancelTurns, c.complete))
}
