package cli

import (
	"bufio"
	"cmp"
	"io"
	"strings"
	"sync"
)

// pages is the view without a terminal: answers go to out, the rest to err.
type pages struct {
	mu       sync.Mutex
	out, err io.Writer
	failed   error
}

// write writes a block, which has its whole text.
func (p *pages) write(_ *block, text string) { p.note(text, plain) }

func (p *pages) note(text string, as style) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text = strings.TrimSuffix(text, "\n") + "\n"
	if as != plain {
		_, _ = io.WriteString(p.err, text)
		return
	}
	_, err := io.WriteString(p.out, text)
	p.failed = cmp.Or(p.failed, err)
}

func (*pages) finish(*block) {}

func (*pages) working(bool) {}

// failure returns the error of the first write of an answer that has failed.
func (p *pages) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// scanLines returns what reads the next line of in.
func scanLines(in io.Reader) func() (string, error) {
	reader := bufio.NewReader(in)
	return func() (string, error) {
		line, err := reader.ReadString('\n')
		if line != "" {
			err = nil
		}
		return strings.ToValidUTF8(line, "\ufffd"), err
	}
}
