//go:build unix

package cli_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/cli"
	"github.com/lingserve/lingserve/channel/kernel"
)

// patience is how long is waited for what has to come. Nothing takes that long where it comes at all.
const patience = time.Hour

// rig is a conversation at a pseudo-terminal.
type rig struct {
	t    *testing.T
	chat *cli.Chat
	keys *os.File // where somebody types
	line *os.File // the program's side
	also *os.File // the same
	stop context.CancelFunc
	wg   sync.WaitGroup

	reading sync.WaitGroup
	before  string // how the terminal was
	once    sync.Once

	mu    sync.Mutex
	vt    *vt
	moved chan struct{} // closed when something has come
	sent  int           // bytes that the program has written, or is writing
	come  int           // of them
	ended bool
	err   error // of Serve
}

// newRig begins a conversation. It is ended, and the terminal is as it was before, when the test ends.
func newRig(t *testing.T, k *kernel.Kernel, o cli.Options) *rig {
	t.Helper()
	keys, line, err := pty.Open()
	if err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	r := &rig{t: t, keys: keys, line: line, vt: newVT(80, 24), moved: make(chan struct{})}
	if err := pty.Setsize(keys, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	also, err := os.OpenFile(line.Name(), os.O_RDWR|syscall.O_NOCTTY, 0) // OpenTerminal ends the deadlines of its file, and so how Close ends a reading
	if err != nil {
		t.Fatal(err)
	}
	r.also = also
	terminal, ok := cli.OpenTerminal(also, also)
	if !ok {
		t.Fatal("a pseudo-terminal is no terminal")
	}
	if p, ok := o.In.(*parts); ok {
		p.File = line
	} else {
		o.In = line
	}
	o.Out, o.Terminal = (*sender)(r), terminal
	if o.Agent == "" {
		o.Agent = "assistant"
	}
	r.chat = cli.New(o)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.before = r.state()
	r.reading.Go(r.read)
	r.wg.Go(func() {
		err := r.chat.Serve(ctx, k)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended, r.err = true, err
		r.wake()
	})
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	r.until("the prompt", func() bool { return r.vt.text(r.vt.row) == ">" })
	return r
}

// parts is the program's side of a terminal which has the first keys in these parts.
type parts struct {
	*os.File
	first []string
}

func (p *parts) Read(b []byte) (int, error) {
	if len(p.first) == 0 {
		return p.File.Read(b)
	}
	n := copy(b, p.first[0])
	p.first = p.first[1:]
	return n, nil
}

// state is how the terminal treats what is typed.
func (r *rig) state() (state string) {
	c, err := r.line.SyscallConn()
	if err != nil {
		r.t.Fatal(err)
	}
	err = c.Control(func(fd uintptr) {
		s, err := term.GetState(int(fd))
		state = fmt.Sprintf("%+v %v", s, err)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return state
}

// sender is the program's side of the terminal, which counts: what is written is on the screen some time later.
type sender rig

func (s *sender) Write(b []byte) (int, error) {
	s.mu.Lock()
	s.sent += len(b)
	s.mu.Unlock()
	return s.line.Write(b)
}

// settles waits for the screen to show all that was written.
func (r *rig) settles() {
	r.t.Helper()
	r.until("what was written", func() bool { return r.come >= r.sent })
}

func (r *rig) read() {
	buf := make([]byte, 4096)
	for {
		n, err := r.keys.Read(buf)
		r.mu.Lock()
		_, _ = r.vt.Write(buf[:n])
		r.come += n
		r.wake()
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (r *rig) wake() {
	close(r.moved)
	r.moved = make(chan struct{})
}

// end ends the conversation as a shutdown does, then the terminal, and returns what Serve has.
func (r *rig) end() error {
	r.once.Do(func() {
		r.stop()
		r.wg.Wait()
		if after := r.state(); after != r.before {
			r.t.Errorf("the terminal is %s, it was %s", after, r.before)
		}
		r.until("the end of what is said", func() bool { return !r.vt.pastes }) // what is on its way is lost with the line
		r.line.Close()                                                          // which ends the reading
		r.also.Close()
		r.reading.Wait()
		r.keys.Close()
		if len(r.vt.faults) > 0 {
			r.t.Errorf("the terminal was sent %q", r.vt.faults)
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// until waits for the screen to be so.
func (r *rig) until(what string, so func() bool) {
	r.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		r.mu.Lock()
		is, moved := so(), r.moved
		r.mu.Unlock()
		if is {
			return
		}
		select {
		case <-moved:
		case <-late.C:
			r.mu.Lock()
			defer r.mu.Unlock()
			r.t.Fatalf("%s: that has not come; the screen is\n%s", what, r.vt.shown())
		}
	}
}

// sees waits for a text to stand somewhere.
func (r *rig) sees(text string) {
	r.t.Helper()
	r.until(fmt.Sprintf("%q", text), func() bool { return strings.Contains(strings.Join(r.vt.all(), "\n"), text) })
}

// reads waits for the line that is typed to be like this.
func (r *rig) reads(line string) {
	r.t.Helper()
	r.until(fmt.Sprintf("the line %q", line), func() bool { return r.vt.text(r.vt.row) == strings.TrimRight("> "+line, " ") })
}

// leaves waits for Serve to return.
func (r *rig) leaves() {
	r.t.Helper()
	r.until("the end", func() bool { return r.ended })
}

// types presses keys.
func (r *rig) types(text string) {
	r.t.Helper()
	if _, err := r.keys.WriteString(text); err != nil {
		r.t.Fatal(err)
	}
}

// shows is whether a text stands somewhere now.
func (r *rig) shows(text string) bool {
	r.t.Helper()
	r.settles()
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(strings.Join(r.vt.all(), "\n"), text)
}

// scripted answers as a test says, and knows what it was asked.
type scripted struct {
	mu     sync.Mutex
	asked  []*channel.Turn
	answer func(context.Context, *channel.Turn) (channel.DispatchResult, error)
	seen   sync.WaitGroup // for answers that wait until something is seen
}

// Dispatch implements [channel.Agent].
func (a *scripted) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	a.mu.Lock()
	a.asked = append(a.asked, t)
	answer := a.answer
	a.mu.Unlock()
	t.Queued()
	return answer(ctx, t)
}

func (a *scripted) texts() (list []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.asked {
		list = append(list, t.Context.BodyForAgent)
	}
	return list
}

// echo answers with what was asked.
func echo(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "echo " + t.Context.BodyForAgent})
}

// kernelOf is one as lingserve chat has it, with the shipped settings of this channel.
func kernelOf(t *testing.T, a *scripted) *kernel.Kernel {
	t.Helper()
	tree, err := channel.NewTree(channel.Configuration{{Channel: cli.Name}: {
		DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{cli.Sender}, Admins: []string{cli.Sender}, OnBusy: "steer", SenderRate: new(0), ChatRate: new(0),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &kernel.Kernel{
		Agent: a, Settings: tree,
	}
}
