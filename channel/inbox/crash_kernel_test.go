package inbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/outbox"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store/db"
	storefile "github.com/lingserve/lingserve/store/storetest/file"
)

// person is who writes and reads: all that is seen by whichever process, and once more by none that is dead.
type person struct {
	mu      sync.Mutex
	alive   int // the process that can still be heard
	replies int
	notices int
}

// hears counts what a process says, if it lives.
func (p *person) hears(process int, reply bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case process != p.alive:
		return false
	case reply:
		p.replies++
	default:
		p.notices++
	}
	return true
}

// server is one process with all that a channel needs of a kernel: hooks, a journal, windows, an outbox and sessions on the disk.
type server struct {
	process int
	person  *person
	at      func(point string) // is called wherever the process may die
	durable bool

	kernel *channel.Kernel
	door   *channel.Door
	close  []func()
	stop   context.CancelFunc
	served chan error
}

func startServer(t *testing.T, dir string, process int, p *person, durable bool, at func(string)) *server {
	t.Helper()
	s := &server{process: process, person: p, at: at, durable: durable, served: make(chan error, 1)}
	tables, err := storefile.Open(vfs.At(dir), storefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := inbox.Open(t.Context(), tables, inbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := outbox.Open(t.Context(), tables, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), "sqlite:"+filepath.Join(dir, "x.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := channel.OpenOutbox(&channel.OutboxOptions{Store: blocks})
	if err != nil {
		t.Fatal(err)
	}
	rows := channel.NewSessions(d.Values(db.Conversations, db.ValueOptions{}), nil)
	s.kernel = &channel.Kernel{Agent: s, Journal: j, Window: channel.NewWindow(d.Values(db.Windows, db.ValueOptions{}), channel.WindowOptions{}), Outbox: o, Recorder: rows}
	s.kernel.Init()
	o.Register("fake", s)
	o.Start()
	s.door = channel.NewDoor(s.kernel, channel.DoorOptions{
		Channel: "fake", Grace: time.Millisecond,
		Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
			at("after claim")
			return channel.Run(ctx, s.kernel, channel.Event[channel.JournalEntry]{Meta: m, Raw: e, Adapter: s})
		},
		Incomplete: func(context.Context, channel.JournalEntry) error {
			s.person.hears(s.process, false)
			return nil
		},
	})
	s.close = []func(){
		func() { _ = o.Close(canceled()) }, func() { _ = j.Close() }, func() { _ = tables.Close() }, func() { _ = d.Close() },
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.served <- s.door.Serve(ctx, nil) }()
	return s
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (s *server) end() error {
	s.stop()
	err := <-s.served
	for _, f := range s.close {
		f()
	}
	return err
}

func (*server) Ingest(_ context.Context, e channel.JournalEntry) (*channel.Input, error) {
	return &channel.Input{ID: e.Key.ID, RawText: string(e.Raw), ConversationID: "c", SenderID: "p"}, nil
}

func (*server) Classify(context.Context, *channel.Input) (channel.EventClass, error) {
	return channel.EventClass{Kind: channel.EventMessage, CanStartAgentTurn: true, RequiresImmediateAck: true}, nil
}

func (s *server) Resolve(_ context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (channel.Plan, error) {
	return &channel.Assembled{Delivery: s, Common: channel.Common{Record: channel.RecordOptions{UpdateLastRoute: true}, Facts: channel.Facts{
		MessageID: in.ID, Sender: channel.SenderFacts{ID: in.SenderID},
		Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: in.ConversationID},
		Route:        channel.RouteFacts{AgentID: "a", RouteSessionKey: "fake:c"},
		Reply:        channel.ReplyPlanFacts{To: "c"},
		Access:       channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyOpen}},
		Message:      channel.MessageFacts{RawBody: in.RawText},
	}}}, nil
}

func (s *server) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	t.Queued()
	s.at("during dispatch")
	if err := t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "answer"}); err != nil {
		return channel.DispatchResult{}, err
	}
	s.at("behind the emission")
	return channel.DispatchResult{}, nil
}

func (s *server) Deliver(context.Context, channel.Block) (channel.Receipt, error) {
	s.at("before the send")
	if !s.person.hears(s.process, true) {
		return channel.Receipt{}, &channel.NotSentError{Err: errors.New("dead")}
	}
	s.at("between send and receipt")
	return channel.Receipt{MessageIDs: []string{"1"}}, nil
}

func (s *server) Durable(channel.Block) *channel.Durable {
	if !s.durable {
		return nil
	}
	return &channel.Durable{Sender: "fake"}
}

func (*server) Can(channel.Capabilities) (bool, error) { return true, nil }

func (s *server) Send(ctx context.Context, out channel.Outbound) (channel.Receipt, error) {
	return s.Deliver(ctx, out.Block)
}

func (s *server) Finalize(context.Context, channel.Result) error {
	s.at("in finalize")
	return nil
}

// CH-192, CH-74: a process dies at a point, as its folder is at that moment; others go on with the folder.
func TestWhereverAServerDiesThePersonGetsOneReplyOrOneNotice(t *testing.T) {
	for _, point := range []string{
		"after accept", "after ack", "after claim", "during dispatch", "behind the emission", "before the send", "between send and receipt",
		"in finalize", "after the receipt",
	} {
		for name, durable := range map[string]bool{"direct": false, "durable": true} {
			t.Run(point+"/"+name, func(t *testing.T) {
				dir, crashed := t.TempDir(), filepath.Join(t.TempDir(), "crashed")
				synctest.Test(t, func(t *testing.T) {
					p := &person{alive: 1}
					var died sync.Once
					die := func() {
						died.Do(func() {
							p.mu.Lock() // what it says from now on is not heard, and not in the copy
							defer p.mu.Unlock()
							if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
								t.Error(err)
							}
							p.alive = 2
						})
					}
					at := func(here string) {
						if here == point {
							die()
						}
					}
					first := startServer(t, dir, 1, p, durable, at)
					synctest.Wait()
					if point == "after accept" { // and nothing of it has run
						first.stop()
						<-first.served
						first.served <- nil
						first.door = channel.NewDoor(first.kernel, channel.DoorOptions{Run: func(context.Context, channel.JournalEntry, channel.Meta) (channel.Result, error) {
							t.Error("it runs")
							return channel.Result{}, nil
						}})
					}
					k := channel.EventKey{Channel: "fake", Conversation: "c", ID: "1"}
					acked := func(context.Context, channel.Result) { at("after ack") }
					if _, err := first.door.Accept(t.Context(), channel.Arrival{Key: k, Raw: []byte("hi"), Ack: acked}); err != nil {
						t.Fatal(err)
					}
					if point == "after accept" {
						die()
					}
					synctest.Wait()
					if point == "after the receipt" {
						die()
					}
					if p.alive != 2 {
						t.Fatal("the process has not come to the point where it dies")
					}
					_ = first.end()
					for process := range 3 { // and no later start does it again
						p.mu.Lock()
						p.alive = 2 + process
						p.mu.Unlock()
						next := startServer(t, crashed, 2+process, p, durable, func(string) {})
						time.Sleep(time.Hour)
						if state, err := next.kernel.Journal.Peek(t.Context(), k); err != nil || state != channel.ClaimSettled {
							t.Errorf("the event is %q, %v at the end, expected %q", state, err, channel.ClaimSettled)
						}
						if err := next.end(); err != nil {
							t.Error(err)
						}
					}
					if p.replies > 1 || p.notices > 1 || p.replies+p.notices == 0 {
						t.Errorf("the person sees %d replies and %d notices", p.replies, p.notices)
					}
				})
			})
		}
	}
}
