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

// chat is a platform with one direct conversation for each sender.
type chat struct {
	mu       sync.Mutex
	messages []string // as they stand now
	writes   int
	fail     func(text string) error // of the next sends; nil: they succeed
	onKey    func(key, text string)  // is told of what is sent; nil
}

func (c *chat) deliver(_ context.Context, b channel.Block) (channel.Receipt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		if err := c.fail(b.Text); err != nil {
			return channel.Receipt{}, err
		}
	}
	c.writes++
	if c.onKey != nil {
		c.onKey(b.Key, b.Text)
	}
	if b.Preview != nil {
		i, _ := strconv.Atoi(b.Preview.MessageIDs[0])
		c.messages[i] = b.Text
		return *b.Preview, nil
	}
	c.messages = append(c.messages, b.Text)
	return channel.Receipt{MessageIDs: []string{strconv.Itoa(len(c.messages) - 1)}}, nil
}

func (c *chat) shown() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.messages, "\n")
}

func (c *chat) failWith(fail func(text string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = fail
}

// agentFunc is an agent.
type agentFunc func(context.Context, *channel.Turn) (channel.DispatchResult, error)

func (f agentFunc) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	t.Queued()
	return f(ctx, t)
}

func echo(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "echo " + t.Context.BodyForAgent})
}

// memory is a database that several servers of a test share.
func memory(t *testing.T) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), "memory", &db.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// server is a process with the channel "chat".
type server struct {
	t      *testing.T
	kernel *kernel.Kernel
	queue  *kernel.Queue
	chat   *chat
	store  *mortal
	stop   context.CancelFunc
	served chan error
	traces chan channel.Trace
}

// mortal is a store that a process writes to until it is killed.
type mortal struct {
	kernel.Store
	mu   sync.Mutex
	dead bool
}

var errDead = fmt.Errorf("the process is dead: %w", store.ErrMoved)

func (m *mortal) alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errDead
	}
	return nil
}

func (m *mortal) Claim(ctx context.Context, c store.EventClaim, held []string) ([]store.Event, time.Time, error) {
	if err := m.alive(); err != nil {
		return nil, time.Time{}, err
	}
	return m.Store.Claim(ctx, c, held)
}

func (m *mortal) ClaimReplies(ctx context.Context, c store.EventClaim, held []int64) ([]store.Reply, time.Time, error) {
	if err := m.alive(); err != nil {
		return nil, time.Time{}, err
	}
	return m.Store.ClaimReplies(ctx, c, held)
}

func (m *mortal) Note(ctx context.Context, key, replica string, n store.EventNote) error {
	return errors.Join(m.alive(), m.unlessDead(func() error { return m.Store.Note(ctx, key, replica, n) }))
}

func (m *mortal) Release(ctx context.Context, r store.EventRelease) error {
	return errors.Join(m.alive(), m.unlessDead(func() error { return m.Store.Release(ctx, r) }))
}

func (m *mortal) End(ctx context.Context, e store.EventEnd) (id int64, first bool, err error) {
	if err := m.alive(); err != nil {
		return 0, false, err
	}
	return m.Store.End(ctx, e)
}

func (m *mortal) PostponeReply(ctx context.Context, id int64, replica string, due time.Time, unsure bool) error {
	return m.unlessDead(func() error { return m.Store.PostponeReply(ctx, id, replica, due, unsure) })
}

func (m *mortal) EndReply(ctx context.Context, id int64, replica string) error {
	return m.unlessDead(func() error { return m.Store.EndReply(ctx, id, replica) })
}

func (m *mortal) unlessDead(write func() error) error {
	if m.alive() != nil {
		return errDead
	}
	return write()
}

type openSettings struct{ policy channel.Policy }

func (s openSettings) Policy(channel.PolicyQuery) channel.Policy { return s.policy }

func openPolicy() channel.Policy {
	return channel.Policy{
		DM: channel.PolicyOpen, Group: channel.PolicyOpen, RouteAllowed: true, RequireMention: true, ErrorNotice: true,
		Limits: channel.PolicyLimits{SenderRate: channel.Rate{PerMinute: -1}, ChatRate: channel.Rate{PerMinute: -1}},
	}
}

// start starts a process. alive are the replicas that live.
func start(t *testing.T, d *db.DB, replica string, c *chat, agent agentFunc, change ...func(*kernel.Kernel)) *server {
	t.Helper()
	s := &server{t: t, chat: c, store: &mortal{Store: d.Events()}, served: make(chan error, 1), traces: make(chan channel.Trace, 10_000)}
	s.kernel = &kernel.Kernel{
		Agent: agent, Store: s.store, Settings: openSettings{openPolicy()}, Observer: s,
		Limits: channel.Limits{Preview: 10 * time.Millisecond},
	}
	for _, f := range change {
		f(s.kernel)
	}
	s.queue = kernel.NewQueue(s.kernel, kernel.QueueOptions{Replica: replica, Alive: func() []string { return []string{replica} }})
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	h := kernel.Handler{Channel: "chat", Grace: time.Second, Run: s.run, Sender: kernel.Sender{Send: func(ctx context.Context, out channel.Outbound) (channel.Receipt, error) {
		return c.deliver(ctx, out.Block)
	}}}
	go func() { s.served <- s.queue.Serve(ctx, h, nil) }()
	return s
}

func (s *server) Observe(_ context.Context, tr channel.Trace) { s.traces <- tr }

// run runs an event, whose raw form is "sender/id/text".
func (s *server) run(ctx context.Context, e *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
	var texts []string
	var sender, id string
	for _, raw := range e.Raws() {
		parts := strings.SplitN(string(raw), "/", 3)
		sender, id = parts[0], parts[1]
		texts = append(texts, parts[2])
	}
	text := strings.Join(texts, "\n")
	return kernel.Run(ctx, s.kernel, m, text, &kernel.Adapter[string]{
		Ingest: func(context.Context, string) (*channel.Input, error) {
			return &channel.Input{ID: id, RawText: text, ConversationID: sender, SenderID: sender}, nil
		},
		Resolve: func(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (*kernel.Turn, error) {
			f := directFacts(sender, id, text)
			policy, who := s.kernel.PolicyAt(ctx, f.PolicyQuery(), f.Sender)
			f.Access = policy.Access(who, channel.MentionFacts{})
			d := &kernel.Delivery{Deliver: s.chat.deliver, Durable: true, Preview: func(ctx context.Context, b channel.Block, _ channel.Receipt) (channel.Receipt, error) {
				return s.chat.deliver(ctx, b)
			}}
			return &kernel.Turn{Facts: f, Delivery: d}, nil
		},
	})
}

func directFacts(sender, id, text string) channel.Facts {
	return channel.Facts{
		Channel: "chat", MessageID: id, Sender: channel.SenderFacts{ID: sender}, Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: sender},
		Route: channel.RouteFacts{AgentID: "a", RouteSessionKey: "chat:" + sender}, Reply: channel.ReplyPlanFacts{To: sender},
		Message: channel.MessageFacts{RawBody: text},
	}
}

// send has somebody write.
func (s *server) send(sender string, id int, text string) {
	s.t.Helper()
	_, err := s.queue.Accept(s.t.Context(), kernel.Arrival{
		Key: channel.EventKey{Channel: "chat", Conversation: sender, ID: strconv.Itoa(id)}, Raw: fmt.Appendf(nil, "%s/%d/%s", sender, id, text),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// close ends the process, as a shutdown does.
func (s *server) close() {
	s.t.Helper()
	s.stop()
	if err := <-s.served; err != nil {
		s.t.Error(err)
	}
	s.queue.Close(s.t.Context())
}

// kill ends the process: nothing of it is stored any more.
func (s *server) kill() {
	s.store.mu.Lock()
	s.store.dead = true
	s.store.mu.Unlock()
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
