package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
)

// pages is the view without a terminal: answers go to out, the rest to err.
type pages struct {
	mu       sync.Mutex
	out, err io.Writer
	open     bool // the last row of out has not ended
	failed   error
}

func (p *pages) write(_ any, text string, _ style) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writeLocked(text)
}

func (p *pages) writeLocked(text string) {
	if text == "" {
		return
	}
	p.open = !strings.HasSuffix(text, "\n")
	if _, err := io.WriteString(p.out, text); err != nil && p.failed == nil {
		p.failed = err
	}
}

func (p *pages) note(text string, as style) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text = strings.TrimSuffix(text, "\n") + "\n"
	switch {
	case as != plain:
		_, _ = io.WriteString(p.err, text)
		return
	case p.open:
		text = "\n" + text
	}
	p.writeLocked(text)
}

func (*pages) working(bool) {}

// failure returns the error of the first write of an answer that has failed.
func (p *pages) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// talkInLines answers one line of the input after the other.
func (c *Chat) talkInLines(ctx context.Context) error {
	p := &pages{out: c.o.Out, err: c.o.Err}
	defer c.showOn(p)()
	c.asked = make(chan string, maxWaiting)
	in, stop := readLines(c.o.In)
	defer stop()
	defer c.stop()
	for p.failure() == nil {
		text, ok := "", false
		select {
		case <-ctx.Done():
		case <-c.o.Interrupts:
		case text, ok = <-in.next():
		}
		if !ok {
			return nil
		}
		known, quit := c.runCommand(text)
		if quit || !known && !c.answerLine(ctx, text, in) {
			return nil
		}
	}
	return fmt.Errorf("write the answer: %w", p.failure())
}

// answerLine waits for the answer to a line. It returns false if the conversation is to end.
//
// The next line answers a question of the turn. If it is no answer to a question, the question is denied.
func (c *Chat) answerLine(ctx context.Context, text string, in *lines) bool {
	done := make(chan struct{})
	m := c.newMessage(text)
	m.done = func() { close(done) }
	c.send(m) // it is the only line
	var questions []string
	for {
		var next <-chan string // of a line, if one is needed
		if len(questions) > 0 {
			next = in.next()
		}
		select {
		case <-done:
			c.wg.Wait() // for the turn of an answer to a question
			return true
		case <-ctx.Done():
			c.drain()
			return false
		case <-c.o.Interrupts:
			c.interrupt()
		case id := <-c.asked:
			questions = append(questions, id)
		case text, ok := <-next:
			command, _ := c.answer(text, questions[0])
			if !strings.HasPrefix(command, ",approve ") && !strings.HasPrefix(command, ",deny ") {
				command = ",deny " + questions[0] + " this conversation has no approver"
				if ok {
					in.unread(text)
				}
			}
			c.send(c.newMessage(command))
			questions = questions[1:]
		}
	}
}

// lines are the lines of the input that are not blank.
type lines struct {
	read chan string // closed at the end
	kept chan string // with a line that was read too early, or nil
}

func (l *lines) next() <-chan string {
	if len(l.kept) > 0 {
		return l.kept
	}
	return l.read
}

func (l *lines) unread(text string) { l.kept <- text }

// maxInput limits a line of the input, in bytes; the rest of it is another line.
const maxInput = 1 << 20

// readLines reads in, until stop is called.
func readLines(in io.Reader) (l *lines, stop func()) {
	l = &lines{read: make(chan string), kept: make(chan string, 1)}
	stopped, ended := make(chan struct{}), make(chan struct{})
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 2*maxInput)
	scanner.Split(splitLine)
	go func() {
		defer close(ended)
		defer close(l.read)
		for scanner.Scan() {
			text := strings.TrimSpace(strings.ToValidUTF8(scanner.Text(), "\ufffd"))
			if text == "" {
				continue
			}
			select {
			case l.read <- text:
			case <-stopped:
				return
			}
		}
	}()
	return l, func() {
		close(stopped)
		stopReading(in, ended)
	}
}

func splitLine(data []byte, isEnd bool) (int, []byte, error) {
	if n := bytes.IndexByte(data, '\n'); len(data) > maxInput && (n < 0 || n > maxInput) {
		return maxInput, data[:maxInput], nil
	}
	return bufio.ScanLines(data, isEnd)
}
