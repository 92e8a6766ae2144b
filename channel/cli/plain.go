package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
)

// pages is plain text: what is said goes to one place, and what is said about it to another.
type pages struct {
	mu       sync.Mutex
	out, err io.Writer
	open     bool // a row of out has not ended
	broken   error
}

func (p *pages) write(_ any, text string, _ style) {
	if text == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = !strings.HasSuffix(text, "\n")
	if _, err := io.WriteString(p.out, text); err != nil && p.broken == nil {
		p.broken = err
	}
}

func (p *pages) fresh(any) {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	if open {
		p.write(nil, "\n", plain)
	}
}

func (*pages) tell(string) {}

func (p *pages) note(text string, as style) {
	text = strings.TrimSuffix(text, "\n") + "\n"
	if as == plain {
		p.fresh(nil)
		p.write(nil, text, plain)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.err, text)
}

func (p *pages) gone() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

// plainly answers one line after the other.
func (c *Chat) plainly(ctx context.Context) error {
	p := &pages{out: c.o.Out, err: c.o.Err}
	defer c.shows(p)()
	asked := make(chan string, maxWaiting)
	c.told = func(id string) {
		select {
		case asked <- id:
		default: // it waits until its time is over
		}
	}
	in := read(c.o.In)
	defer in.stop()
	defer c.leave()
	var lines lines
	for {
		text, ok := lines.next()
		if !ok {
			select {
			case <-ctx.Done():
				return nil
			case <-c.o.Interrupts:
				return nil
			case piece, more := <-in.pieces:
				lines.add(piece.data, !more)
				if !more && !lines.has() {
					return nil
				}
			}
			continue
		}
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if known, quit := c.do(text); quit {
			return nil
		} else if known {
			continue
		}
		if !c.one(ctx, text, &lines, in, asked) {
			return nil
		}
		if err := p.gone(); err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
	}
}

// one waits for the answer to a line. A tool that asks is answered by the next line, and denied where that is no answer. It is false
// where the conversation is to end.
func (c *Chat) one(ctx context.Context, text string, lines *lines, in *reading, asked <-chan string) bool {
	done := make(chan struct{})
	m := c.message(text)
	m.done = func() { close(done) }
	if !c.send(m) { // nothing else waits for long
		c.show.note("Too many messages are waiting; this line was not sent.", bad)
		return true
	}
	var questions []string
	for {
		if len(questions) > 0 && (lines.ended || lines.has()) {
			c.reply(questions[0], lines)
			questions = questions[1:]
			continue
		}
		var pieces <-chan piece // read on only where a line is needed
		if len(questions) > 0 {
			pieces = in.pieces
		}
		select {
		case <-done:
			c.wg.Wait() // for an answer to a question
			return true
		case <-ctx.Done():
			c.drain()
			return false
		case <-c.o.Interrupts:
			c.interrupt()
		case id := <-asked:
			questions = append(questions, id)
		case piece, more := <-pieces:
			lines.add(piece.data, !more)
		}
	}
}

// reply answers a question with the next line, where that is an answer.
func (c *Chat) reply(id string, lines *lines) {
	text := ",deny " + id + " this conversation has no approver"
	if next, ok := lines.peek(); ok {
		if said, _ := c.answer(strings.TrimSpace(next), id); strings.HasPrefix(said, ",approve ") || strings.HasPrefix(said, ",deny ") {
			text = said
			lines.next()
		}
	}
	c.send(c.message(text))
}

// maxPlain bounds a line, in bytes: what is behind is another one.
const maxPlain = 1 << 20

// lines cuts what comes into lines.
type lines struct {
	rest  []byte
	ended bool
}

func (l *lines) add(data []byte, ended bool) {
	l.rest = append(l.rest, data...)
	l.ended = l.ended || ended
}

func (l *lines) has() bool {
	_, ok := l.peek()
	return ok
}

func (l *lines) peek() (string, bool) {
	n := bytes.IndexByte(l.rest, '\n')
	switch {
	case n >= 0 && n <= maxPlain:
	case len(l.rest) > maxPlain:
		n = maxPlain
	case l.ended && len(l.rest) > 0:
		n = len(l.rest)
	default:
		return "", false
	}
	return strings.ToValidUTF8(string(l.rest[:n]), "\ufffd"), true
}

func (l *lines) next() (string, bool) {
	text, ok := l.peek()
	if ok {
		n := bytes.IndexByte(l.rest, '\n')
		if n < 0 || n > maxPlain {
			n = min(len(l.rest), maxPlain) - 1
		}
		l.rest = l.rest[n+1:]
	}
	return text, ok
}
