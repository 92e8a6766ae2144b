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
type Terminal struct{ in, out *os.File }

// OpenTerminal returns the terminal of two files, if both are files of a terminal on which the cursor can be moved.
func OpenTerminal(in, out *os.File) (*Terminal, bool) {
	for _, f := range []*os.File{in, out} {
		isTerminal := false
		if control(f, func(fd int) { isTerminal = term.IsTerminal(fd) }) != nil || !isTerminal {
			return nil, false
		}
	}
	return &Terminal{in, out}, os.Getenv("TERM") != "dumb"
}

// control calls do with the descriptor of a file. [os.File.Fd] would disable the deadlines of the file.
func control(f *os.File, do func(fd int)) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return c.Control(func(fd uintptr) { do(int(fd)) })
}

// raw has the program get each key as it is pressed, until restore is called.
func (t *Terminal) raw() (restore func() error, err error) {
	var before *term.State
	if failed := control(t.in, func(fd int) { before, err = term.MakeRaw(fd) }); failed != nil || err != nil {
		return nil, errors.Join(failed, err)
	}
	return func() (err error) {
		failed := control(t.in, func(fd int) { err = term.Restore(fd, before) })
		return errors.Join(failed, err)
	}, nil
}

// size returns the size of the screen, or a usual one if it is unknown.
func (t *Terminal) size() (width, height int) {
	_ = control(t.out, func(fd int) { width, height, _ = term.GetSize(fd) })
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
	restore, err := c.o.Terminal.raw()
	if err != nil {
		return fmt.Errorf("cannot use the terminal: %w", err)
	}
	_, _ = io.WriteString(c.o.Out, pasteOn) // if the terminal is gone, its reader notices
	c.view = &screen{tty: c.o.Terminal, out: c.o.Out, colors: c.o.Colors}
	c.showing.Store(true)
	defer func() {
		c.showing.Store(false)
		_, _ = io.WriteString(c.o.Out, "\r"+clearBelow+pasteOff)
		err = errors.Join(err, restore())
	}()
	c.writeBanner()
	return c.talk(ctx, newEditor(c.o.In, c.view.(*screen), c.cancelTurns, c.complete))
}

// writeBanner says who answers.
func (c *Chat) writeBanner() {
	who := "agent " + c.o.Agent
	if c.o.Model != "" {
		who += ", model " + c.o.Model
	}
	c.view.note("lingserve chat: "+oneLine(who+", session "+c.o.Session, 1000), strong)
	c.view.note(",help lists the agent's commands; Ctrl-C cancels an answer, Ctrl-D ends", dim)
}
