package program

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
)

// ErrEnded says that a process has ended without what was waited for.
var ErrEnded = errors.New("the process has ended")

// Log is what a process has said so far. Many may read it while it grows.
type Log struct {
	mu    sync.Mutex
	text  bytes.Buffer
	more  chan struct{} // closed with the next piece; nil while nobody waits
	ended bool
}

// Write adds a piece, which need not be a line.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake()
	return l.text.Write(p)
}

// end says that nothing more comes.
func (l *Log) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake()
	l.ended = true
}

func (l *Log) wake() {
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
}

// String is all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Lines are its lines, without their ends. One that is not finished is not among them before the process has ended.
func (l *Log) Lines() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.Bytes()
	if !l.ended {
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines
}

// Tail is the end of it, for the message of a failure.
func (l *Log) Tail() string {
	const most = 4000 // bytes
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.Bytes()
	return string(text[max(0, len(text)-most):])
}

// Find waits for a line that matches, and returns it as [regexp.Regexp.FindStringSubmatch] does. The error is [ErrEnded] where the
// process has ended without such a line, or what has ended ctx.
func (l *Log) Find(ctx context.Context, expr *regexp.Regexp) ([]string, error) {
	for seen := 0; ; {
		l.mu.Lock()
		text, ended := l.text.Bytes()[seen:], l.ended
		if !ended {
			text = text[:bytes.LastIndexByte(text, '\n')+1]
		}
		lines := string(text)
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		for line := range strings.Lines(lines) {
			if m := expr.FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil {
				return m, nil
			}
		}
		seen += len(lines)
		if ended {
			return nil, ErrEnded
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
