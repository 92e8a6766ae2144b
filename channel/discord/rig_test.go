package discord_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/discord"
	"github.com/lingserve/lingserve/channel/discord/discordtest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/logtest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// Where people write. A thread has its channel as parent, a channel its category.
const (
	direct  = "100"
	general = "200"
	thread  = "300"
)

func addChannels(s *discordtest.Server) {
	s.AddChannel(discordtest.Channel{ID: direct, Type: 1})
	s.AddChannel(discordtest.Channel{ID: general, GuildID: "50", Name: "general", ParentID: "60"})
	s.AddChannel(discordtest.Channel{ID: thread, GuildID: "50", Name: "a thread", Type: 11, ParentID: general})
}

type agentFunc func(context.Context, *channel.Turn) (channel.DispatchResult, error)

// rig is a channel, its platform, and an agent that answers "say x" with x, and all else with "ok".
type rig struct {
	t       *testing.T
	fake    *discordtest.Server
	channel *discord.Channel
	queue   *kernel.Queue
	store   *flaky
	log     *logtest.Buffer

	mu     sync.Mutex
	answer agentFunc
	turns  []*channel.TurnContext

	stop context.CancelFunc
	done chan error
}

// flaky is a store that may be unavailable.
type flaky struct {
	kernel.Store
	down atomic.Bool
}

func (f *flaky) Accept(ctx context.Context, list []store.Event) ([]bool, error) {
	if f.down.Load() {
		return nil, errors.New("the store is down")
	}
	return f.Store.Accept(ctx, list)
}

// options change a rig.
type options struct {
	fake     discordtest.Options
	settings func(*discord.Settings)
	place    channel.Place
	agent    channel.Agent
}

// bubble runs a test in virtual time, with a channel that is connected.
func bubble(t *testing.T, o options, test func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, o)
		r.serve()
		r.until("a connection", r.fake.Connected)
		test(t, r)
	})
}

func newRig(t *testing.T, o options) *rig {
	t.Helper()
	r := &rig{t: t, fake: discordtest.New(o.fake), log: new(logtest.Buffer)}
	t.Cleanup(func() {
		if wrong := r.fake.Close(); len(wrong) > 0 {
			t.Errorf("the channel did wrong: %q", wrong)
		}
		if log := r.log.String(); strings.Contains(log, discordtest.Token) || strings.Contains(log, "token-") || strings.Contains(log, "canary") {
			t.Errorf("a secret is in the log: %s", log)
		}
	})
	addChannels(r.fake)
	o.place.DMPolicy = cmp.Or(o.place.DMPolicy, channel.PolicyOpen)
	o.place.GroupPolicy = cmp.Or(o.place.GroupPolicy, channel.PolicyOpen)
	o.place.Agent = "assistant"
	tree, err := channel.NewTree(channel.Configuration{{Level: channel.OfChannel, Channel: "discord"}: &o.place})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	k := &kernel.Kernel{Agent: r, Settings: tree, Observer: channel.NewSlogObserver(log), Log: log}
	if o.agent != nil {
		k.Agent = o.agent
	}
	d, err := db.Open(t.Context(), "memory", &db.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r.store = &flaky{Store: d.Events()}
	k.Store = r.store
	r.queue = kernel.NewQueue(k, kernel.QueueOptions{Replica: "test"})
	t.Cleanup(func() {
		r.queue.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	s := discord.Settings{
		Token: discordtest.Token, Settings: platform.Settings{API: discordtest.API, Client: r.fake.Client(), Log: log},
	}
	if o.settings != nil {
		o.settings(&s)
	}
	if r.channel, err = discord.New(s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.end)
	return r
}

func (r *rig) serve() {
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.done = stop, make(chan error, 1)
	go func() { r.done <- r.channel.Serve(ctx, r.queue) }()
}

// end ends the channel, if it serves.
func (r *rig) end() {
	r.t.Helper()
	if r.stop == nil {
		return
	}
	r.stop()
	r.stop = nil
	if err := <-r.done; err != nil {
		r.t.Errorf("Serve: %v", err)
	}
}

// Dispatch implements [channel.Agent].
func (r *rig) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	r.mu.Lock()
	r.turns = append(r.turns, t.Context)
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		t.Queued()
		return answer(ctx, t)
	}
	defer t.Queued() // the turns of a conversation answer one after the other, as those of an agent do
	text, ok := strings.CutPrefix(t.Context.BodyForAgent, "say ")
	if !ok {
		text = "ok"
	}
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text})
}

func (r *rig) answers(f agentFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// told returns the contexts of the turns so far.
func (r *rig) told() []*channel.TurnContext {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.turns)
}

// say has somebody write. The clock of a bubble moves, because events are ordered by their times.
func (r *rig) say(conversation, author, content string, more map[string]any) string {
	time.Sleep(time.Millisecond)
	return r.fake.Say(conversation, author, content, more)
}

func (r *rig) emit(kind string, d map[string]any) {
	time.Sleep(time.Millisecond)
	r.fake.Emit(kind, d)
}

// last waits for so many turns and returns the context of the last.
func (r *rig) last(n int) *channel.TurnContext {
	r.t.Helper()
	r.until("a turn", func() bool { return len(r.told()) >= n })
	return r.told()[n-1]
}

// until waits, in virtual time, for something to be so.
func (r *rig) until(what string, so func() bool) {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if synctest.Wait(); so() {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s: that has not come; the log is %s", what, r.log)
		}
	}
}

// sent waits for so many messages of the bot in a conversation.
func (r *rig) sent(conversation string, n int) []discordtest.Message {
	r.t.Helper()
	r.until("a message", func() bool { return len(r.fake.Sent(conversation)) >= n })
	return r.fake.Sent(conversation)
}

// stage is a channel beside a platform of its own, for the suite.
type stage struct {
	fake *discordtest.Server
	stop context.CancelFunc
	done chan error

	mu   sync.Mutex
	said map[int]string // ids, of messages that are said again
}

func startStage(t *testing.T, q *kernel.Queue, grace time.Duration) channeltest.Platform {
	s := &stage{fake: discordtest.New(discordtest.Options{}), done: make(chan error, 1), said: map[int]string{}}
	for i := range 20 {
		s.fake.AddChannel(discordtest.Channel{ID: strconv.Itoa(1000 + i), Type: 1})
		s.fake.AddChannel(discordtest.Channel{ID: strconv.Itoa(2000 + i), GuildID: "50", Name: "general"})
	}
	c, err := discord.New(discord.Settings{Token: discordtest.Token, Settings: platform.Settings{API: discordtest.API, Client: s.fake.Client(), Agent: "assistant", Grace: grace}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.done <- c.Serve(ctx, q) }()
	if err := s.fake.Await(t.Context(), s.fake.Connected); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // for the first heartbeat: the library sleeps with a lock when it closes, and a bubble's clock stands while another waits for the lock
	return s
}

func (s *stage) Send(_ context.Context, m channeltest.Message) error {
	at, text, more := strconv.Itoa(1000+m.Chat), m.Text, map[string]any{}
	if m.Group {
		at = strconv.Itoa(2000 + m.Chat)
	}
	if m.Mention {
		text, more["mentions"] = "<@"+discordtest.Bot+"> "+text, []map[string]any{{"id": discordtest.Bot}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := s.said[m.ID]; id != "" {
		more["id"] = id
	}
	s.said[m.ID] = s.fake.Say(at, strconv.Itoa(10+m.Sender), text, more)
	return nil
}

func (s *stage) Shown() (texts []string) {
	for _, m := range s.fake.Sent("") {
		texts = append(texts, m.Content)
	}
	return texts
}

func (s *stage) Writes() int { return s.fake.Writes() }

func (s *stage) Fail(f channeltest.Failure) bool {
	fault := discordtest.Fault{Method: http.MethodPost, Path: "/messages", Status: 400, Code: 50035}
	switch f {
	case channeltest.FailUnknown:
		fault.Cut = true
	case channeltest.FailPartial:
		fault.Skip = 1
	}
	s.fake.Fail(fault)
	return true
}

func (s *stage) Stop() error {
	s.stop()
	err := <-s.done
	if wrong := s.fake.Close(); len(wrong) > 0 {
		err = errors.Join(err, errors.New(strings.Join(wrong, "; ")))
	}
	return err
}

func TestChannelPassesTheSuite(t *testing.T) {
	channeltest.Run(t, channeltest.Fixture{Start: startStage, Groups: true, Redelivers: true, Streams: true, Bubble: true})
}
