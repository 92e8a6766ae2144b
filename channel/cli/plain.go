package cli

import (
	"bufio"
	"bytes"
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

// maxInput limits a line of the input, in bytes; the rest of it is another line.
const maxInput = 1 << 20

// scanLines returns what reads the next line of in.
func scanLines(in io.Reader) func() (string, error) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 2*maxInput)
	scanner.Split(splitLine)
	return func() (string, error) {
		if !scanner.Scan() {
			return "", io.EOF
		}
		return strings.ToValidUTF8(scanner.Text(), "\ufffd"), nil
	}
}

func splitLine(data []byte, isEnd bool) (int, []byte, error) {
	if n := bytes.IndexByte(data, '\n'); len(data) > maxInput && (n < 0 || n > maxInput) {
		return maxInput, data[:maxInput], nil
	}
	return bufio.ScanLines(data, isEnd)
}
