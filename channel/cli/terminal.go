package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Terminal is what In and Out are of.
type Terminal interface {
	// Raw gives every key to the program as it is pressed, until restore is called.
	Raw() (restore func() error, err error)
	// Size is that of the screen; zero where it is not known.
	Size() (width, height int)
	// Resized is told when the size may have changed, until stop is called.
	Resized() (changed <-chan struct{}, stop func())
}

// Bracketed paste says of what is pasted where it begins and ends.
const (
	pasteOn  = "\x1b[?2004h"
	pasteOff = "\x1b[?2004l"
)

// paper is a screen as what is said is shown on.
type paper struct{ *screen }

// note writes rows of the channel's own.
func (p paper) note(text string, as style) {
	p.write(p.screen, strings.TrimSuffix(text, "\n")+"\n", as)
}

// interactively talks with somebody at a terminal.
func (c *Chat) interactively(ctx context.Context) (err error) {
	t := c.o.Terminal
	restore, err := t.Raw()
	if err != nil {
		return fmt.Errorf("cannot use the terminal: %w", err)
	}
	width, height := t.Size()
	s := newScreen(c.o.Out, width, height, c.o.Colors)
	hides := c.shows(paper{s})
	_, _ = io.WriteString(c.o.Out, pasteOn) // a terminal that has gone is noticed below
	defer func() {
		hides()
		s.hide()
		_, _ = io.WriteString(c.o.Out, pasteOff)
		err = errors.Join(err, restore())
	}()
	resized, stop := t.Resized()
	defer stop()
	in := read(c.o.In)
	defer in.stop()

	c.banner()
	s.editor.history, err = openHistory(c.o.History)
	if err != nil {
		c.show.note("The input history is unreadable; new lines are not saved.", dim)
	}
	s.show()
	var keyboard keys
	for {
		select {
		case <-ctx.Done():
			c.show.tell("… ending")
			c.drain()
			return nil
		case <-c.o.Interrupts:
			c.cancel(s)
		case <-resized:
			s.resize(t.Size())
		case piece, ok := <-in.pieces:
			if !ok { // the terminal has gone
				c.leave()
				return nil
			}
			for _, k := range keyboard.read(piece.data, piece.full) {
				if c.press(s, k) {
					c.leave()
					return nil
				}
			}
			if s.gone() != nil {
				c.leave()
				return nil
			}
		}
	}
}

// banner says who answers.
func (c *Chat) banner() {
	who := "agent " + c.o.Agent
	if c.o.Model != "" {
		who += ", model " + c.o.Model
	}
	c.show.write(nil, "lingserve chat: "+line(who+", session "+c.o.Session)+"\n", strong)
	c.show.note(",help shows the commands; Ctrl-C cancels an answer, Ctrl-D ends", dim)
}

// press does what a key says; true ends the conversation.
func (c *Chat) press(s *screen, k key) (quit bool) {
	switch k.name {
	case keyEnter:
		return c.enter(s)
	case keyCancel:
		c.cancel(s)
	case keyClear:
		s.clear()
	case keyTab:
		var several []string
		s.edit(func(e *editor) { several = e.complete(c.names) })
		if len(several) > 0 {
			c.show.note(strings.Join(several, "  "), dim)
		}
	case keyEOF:
		empty := false
		s.edit(func(e *editor) {
			if empty = len(e.text) == 0; !empty {
				e.press(k)
			}
		})
		return empty
	default:
		s.edit(func(e *editor) { e.press(k) })
	}
	return false
}

// enter takes the line that was typed; true ends the conversation.
func (c *Chat) enter(s *screen) (quit bool) {
	text := s.submit()
	if strings.TrimSpace(text) == "" {
		return false
	}
	if err := s.editor.history.add(text); err != nil {
		c.show.note("The input history is not writable; new lines are not saved.", dim)
	}
	text, ok := c.answer(strings.TrimSpace(text), "")
	if !ok {
		c.show.note(severalWait, bad)
		return false
	}
	if known, quit := c.do(text); known {
		return quit
	}
	if !c.send(c.message(text)) {
		c.show.note("Too many messages are waiting; this line was not sent.", bad)
	}
	return false
}

// cancel is what Ctrl-C does: it ends what runs, else it empties the line.
func (c *Chat) cancel(s *screen) {
	if c.interrupt() {
		return
	}
	empty := false
	s.edit(func(e *editor) {
		empty = len(e.text) == 0
		e.take()
	})
	if empty {
		c.show.note("No answer is running. Ctrl-D or ,quit ends the chat.", dim)
	}
}

// reading is what comes in, read by a goroutine of its own: a read cannot be waited for beside something else.
type reading struct {
	pieces chan piece
	stop   func()
}

type piece struct {
	data []byte
	full bool // the buffer was: there may be more
}

// deadliner is a reader that can be told to stop.
type deadliner interface{ SetReadDeadline(time.Time) error }

func read(in io.Reader) *reading {
	r := &reading{pieces: make(chan piece)}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer close(r.pieces)
		buf := make([]byte, 4096)
		for {
			n, err := in.Read(buf)
			if n > 0 {
				select {
				case r.pieces <- piece{append([]byte(nil), buf[:n]...), n == len(buf)}:
				case <-ended:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	r.stop = func() {
		close(ended)
		if d, ok := in.(deadliner); ok && d.SetReadDeadline(time.Now()) == nil {
			<-done
			_ = d.SetReadDeadline(time.Time{})
		}
	}
	return r
}
