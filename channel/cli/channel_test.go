//go:build unix

package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/cli"
	"github.com/lingserve/lingserve/channel/kernel"
)

// platform is the terminal as the suite of all channels sees one: what somebody has typed parts what is shown.
type platform struct {
	*rig
	sent int
}

func (p *platform) Send(_ context.Context, m channeltest.Message) error {
	p.sent++
	p.types(m.Text + "\r")
	p.until("the line", func() bool { return p.typed() >= p.sent })
	return nil
}

// typed counts the lines that were sent.
func (p *platform) typed() (n int) {
	for i, row := range p.vt.all() {
		if strings.Contains(row, "> ") && i != p.vt.row {
			n++
		}
	}
	return n
}

func (p *platform) Shown() (list []string) {
	p.settles()
	p.mu.Lock()
	defer p.mu.Unlock()
	rows := p.vt.all()[2:] // without what is said at the beginning
	var b strings.Builder
	for _, row := range append(rows, "> ") {
		if !strings.HasPrefix(row, ">") && !strings.Contains(row, " >") { // the second one has a spinner
			b.WriteString(row + "\n")
			continue
		}
		if text := strings.TrimSpace(b.String()); text != "" {
			list = append(list, text)
		}
		b.Reset()
	}
	return list
}

func (p *platform) Writes() int { return len(strings.Join(p.Shown(), "")) }

func (*platform) Fail(channeltest.Failure) bool { return false } // what is written on a screen stands there

func (p *platform) Stop() error { return p.end() }

func TestATerminalIsAChannel(t *testing.T) {
	channeltest.Run(t, channeltest.Fixture{
		Start: func(t *testing.T, q *kernel.Queue, grace time.Duration) channeltest.Platform {
			return &platform{rig: newRig(t, q.Kernel(), cli.Options{Grace: grace, Colors: true})}
		},
		Streams: true,
	})
}
