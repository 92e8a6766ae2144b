package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
)

// agentFunc is an agent.
type agentFunc func(context.Context, *channel.Turn) (channel.DispatchResult, error)

func (f agentFunc) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	t.Queued()
	return f(ctx, t)
}

// inLanes is an agent that runs one turn of a session at a time, in their order.
func inLanes(f agentWithoutPlace) func(*process, *kernel.QueueOptions) {
	var mu sync.Mutex
	last := map[string]chan struct{}{}
	return func(s *process, _ *kernel.QueueOptions) {
		s.kernel.Agent = agentWithoutPlace(func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
			end := make(chan struct{})
			defer close(end)
			mu.Lock()
			before := last[t.SessionKey]
			last[t.SessionKey] = end
			mu.Unlock()
			t.Queued()
			if before != nil {
				select {
				case <-before:
				case <-ctx.Done():
					return channel.DispatchResult{}, context.Cause(ctx)
				}
			}
			return f(ctx, t)
		})
	}
}

func echo(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "echo " + t.Context.BodyForAgent})
}

// memory is a database that several servers of a test share. With Beside it does not remove old rows by itself, which would take most of the time of
// a test that lets a day pass.
func memory(t *testing.T) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), "memory", &db.Options{Log: slog.New(slog.DiscardHandler), Beside: true})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// process is a rig in a process that runs the events of the channel "fake" by a queue.
type process struct {
	*rig
	t       *testing.T
	queue   *kernel.Queue
	store   *mortal
	handler kernel.Handler
	change  func(text string, d *kernel.Delivery) // of the turn of a message; nil
	stop    context.CancelFunc
	served  chan error
}

// mortal is a store that a process writes to until it dies. Its calls, and those of the platform, are the steps that the process dies at.
type mortal struct {
	kernel.Store
	mu          sync.Mutex
	steps, last int // the process dies at the step last; 0: at none
	dead        bool
	away        bool // the database cannot be reached
}

var errDead = errors.New("the process is dead")

// step reports whether the process is dead.
func (m *mortal) step() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps++
	m.dead = m.dead || m.steps == m.last
	return m.dead
}

// do is two steps: before a call, and behind it.
func (m *mortal) do(call func() error) error {
	if m.step() {
		return errDead
	}
	err := call()
	if m.step() {
		return errDead
	}
	return err
}

func (m *mortal) write(call func() error) error {
	m.mu.Lock()
	away := m.away
	m.mu.Unlock()
	if away {
		return store.ErrAway
	}
	return m.do(call)
}

func (m *mortal) setAway(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

// kill ends the process: nothing of it is stored or seen any more.
func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

// isDead is not a step, so that looking for events is none.
func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead || m.away
}

func (m *mortal) Claim(ctx context.Context, c store.EventClaim, held []string) (events []store.Event, next time.Time, err error) {
	if m.isDead() {
		return nil, next, errDead
	}
	if events, next, err = m.Store.Claim(ctx, c, held); len(events) > 0 && m.step() {
		return nil, next, errDead
	}
	return events, next, err
}

func (m *mortal) ClaimReplies(ctx context.Context, c store.EventClaim) (replies []store.Reply, next time.Time, err error) {
	if m.isDead() {
		return nil, next, errDead
	}
	if replies, next, err = m.Store.ClaimReplies(ctx, c); len(replies) > 0 && m.step() {
		return nil, next, errDead
	}
	return replies, next, err
}

func (m *mortal) Note(ctx context.Context, key, replica string, n store.EventNote) error {
	return m.write(func() error { return m.Store.Note(ctx, key, replica, n) })
}

func (m *mortal) Release(ctx context.Context, r store.EventRelease) error {
	return m.write(func() error { return m.Store.Release(ctx, r) })
}

func (m *mortal) End(ctx context.Context, e store.EventEnd) (id int64, first bool, err error) {
	err = m.write(func() (err error) {
		id, first, err = m.Store.End(ctx, e)
		return err
	})
	return id, first, err
}

func (m *mortal) PostponeReply(ctx context.Context, id int64, replica string, due time.Time, unsure bool) error {
	return m.write(func() error { return m.Store.PostponeReply(ctx, id, replica, due, unsure) })
}

func (m *mortal) ReplaceReply(ctx context.Context, id int64, replica string, block []byte) error {
	return m.write(func() error { return m.Store.ReplaceReply(ctx, id, replica, block) })
}

func (m *mortal) EndReply(ctx context.Context, id int64, replica string) error {
	return m.write(func() error { return m.Store.EndReply(ctx, id, replica) })
}

// openSettings are the same everywhere.
type openSettings struct {
	mu     sync.Mutex
	policy channel.Policy
}

func (s *openSettings) Policy(channel.PolicyQuery) channel.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.policy
}

func openPolicy() channel.Policy {
	return channel.Policy{
		DM: channel.PolicyOpen, Group: channel.PolicyOpen, RouteAllowed: true, RequireMention: true, ErrorNotice: true,
	}
}

// start starts a process. By default, its replica is the only one.
func start(t *testing.T, d *db.DB, replica string, c *platform, agent agentFunc, change ...func(*process, *kernel.QueueOptions)) *process {
	t.Helper()
	s := &process{rig: newRig(), t: t, store: &mortal{Store: d.Events()}, served: make(chan error, 1)}
	s.platform = c
	s.kernel = &kernel.Kernel{Agent: agent, Store: s.store, Settings: &openSettings{policy: openPolicy()}}
	s.handler = kernel.Handler{Channel: "fake", Grace: time.Second, Run: s.runEvent, Sender: kernel.Sender{Send: func(ctx context.Context, out channel.Outbound) (channel.Receipt, error) {
		return s.deliver(ctx, out.Block)
	}}}
	o := kernel.QueueOptions{Replica: replica}
	for _, f := range change {
		f(s, &o)
	}
	s.queue = kernel.NewQueue(s.kernel, o)
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	go func() { s.served <- s.queue.Serve(ctx, s.handler, nil) }()
	return s
}

// deliver is a step of the process.
func (s *process) deliver(ctx context.Context, b channel.Block) (r channel.Receipt, err error) {
	err = s.store.do(func() (err error) {
		r, err = s.platform.deliver(ctx, b)
		return err
	})
	return r, err
}

// runEvent runs an event, whose raw form is "sender/id/text". Its hooks and facts are its own.
func (s *process) runEvent(ctx context.Context, e *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
	var texts []string
	var sender, id string
	for _, raw := range e.Raws() {
		parts := strings.SplitN(string(raw), "/", 3)
		sender, id = parts[0], parts[1]
		texts = append(texts, parts[2])
	}
	text, one := strings.Join(texts, "\n"), newRig()
	one.kernel, one.facts = s.kernel, directFacts(sender, id, text)
	one.in = &channel.Input{ID: id, RawText: text, ConversationID: sender, SenderID: sender}
	policy := s.kernel.PolicyOf(ctx, &one.facts)
	one.facts.Access = policy.Access(one.facts.Sender, channel.MentionFacts{})
	one.delivery = &kernel.Delivery{Deliver: s.deliver, Durable: s.handler.Sender.Send != nil, PreviewEvery: 10 * time.Millisecond, Preview: func(ctx context.Context, b channel.Block, _ channel.Receipt) (channel.Receipt, error) {
		b.Key = ""
		return s.deliver(ctx, b)
	}}
	if s.change != nil {
		s.change(text, one.delivery)
	}
	return kernel.Run(ctx, s.kernel, m, text, one.adapter())
}

// directFacts are of a message in the conversation of its sender.
func directFacts(sender, id, text string) channel.Facts {
	f := facts(id, text)
	f.Channel, f.Route.RouteSessionKey = "fake", "fake:"+sender
	f.Sender.ID, f.Conversation.ID, f.Reply.To = sender, sender, sender
	return f
}

// send sends a message to the agent.
func (s *process) send(sender string, id int, text string) {
	s.t.Helper()
	_, err := s.queue.Accept(s.t.Context(), kernel.Arrival{
		Key: channel.EventKey{Channel: "fake", Conversation: sender, ID: strconv.Itoa(id)}, Raw: fmt.Appendf(nil, "%s/%d/%s", sender, id, text),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// close ends the process, as a shutdown does.
func (s *process) close() {
	s.t.Helper()
	s.stop()
	if err := <-s.served; err != nil {
		s.t.Error(err)
	}
	s.queue.Close()
}

// die ends a process that was killed.
func (s *process) die() {
	s.store.kill()
	s.close()
}

// bubble runs a test in virtual time. What it starts has to end before it.
func bubble(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := memory(t)
		test(t, d)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}
