package telegram

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/secret"
	"github.com/lingserve/lingserve/internal/faketelegram"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// Those who write, and where.
var (
	ann     = &faketelegram.User{ID: 7, FirstName: "Ann", LastName: "Lee", Username: "ann"}
	bob     = &faketelegram.User{ID: 8, FirstName: "Bob"}
	private = faketelegram.Chat{ID: 7, Type: "private", FirstName: "Ann"}
	group   = faketelegram.Chat{ID: -5, Type: "group", Title: "Team"}
	forum   = faketelegram.Chat{ID: -1007, Type: "supergroup", Title: "Forum", IsForum: true}
	posts   = faketelegram.Chat{ID: -1008, Type: "channel", Title: "News"}
)

// agentFunc is an agent.
type agentFunc func(context.Context, *channel.Turn) (channel.DispatchResult, error)

func (f agentFunc) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	return f(ctx, t)
}

// rig is a channel, its platform, and an agent that answers what is asked of it: "say x" with x, all else with "ok".
type rig struct {
	fake    *faketelegram.Server
	channel *Channel
	kernel  *channel.Kernel
	log     *logbook

	mu     sync.Mutex
	turns  []*channel.TurnContext
	answer agentFunc // nil answers as above
	traces []channel.Trace

	stop context.CancelFunc
	done chan error
}

// setup makes a rig whose channel does not run yet. Everybody may talk; in groups, a mention is required.
func setup(t *testing.T, change func(*Settings), fake *faketelegram.Options) *rig {
	t.Helper()
	r := &rig{fake: faketelegram.New(fake), log: &logbook{}, done: make(chan error, 1)}
	t.Cleanup(func() { _ = r.fake.Close() })
	r.kernel = kernel(t, channel.Place{})
	r.kernel.Agent = agentFunc(r.dispatch)
	r.kernel.Observer = r
	s := Settings{
		Token: secret.Text(r.fake.Token()), API: "http://api.test", Client: &http.Client{Transport: r.fake.Transport()},
		Media: t.TempDir(), Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&s)
	}
	var err error
	if r.channel, err = New(s); err != nil {
		t.Fatal(err)
	}
	for _, c := range []faketelegram.Chat{private, group, posts} {
		r.fake.AddChat(c)
	}
	r.fake.AddChat(forum, 3, 4)
	return r
}

// kernel is one whose settings let everybody talk, changed by more.
func kernel(t *testing.T, more channel.Place) *channel.Kernel {
	t.Helper()
	if more.DMPolicy == "" {
		more.DMPolicy = channel.PolicyOpen
	}
	if more.GroupPolicy == "" {
		more.GroupPolicy = channel.PolicyOpen
	}
	more.Agent = "assistant"
	tree, err := channel.NewTree(channel.Configuration{Channels: map[string]channel.ChannelPlace{
		"telegram": {AccountPlace: channel.AccountPlace{Place: more}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &channel.Kernel{
		Settings: tree, Routes: tree, Window: channel.NewWindow(nil, channel.WindowOptions{}), Journal: channel.NewJournal(nil),
	}
}

// Observe implements [channel.Observer].
func (r *rig) Observe(_ context.Context, t channel.Trace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.traces = append(r.traces, t)
}

// outcomes are those of the turns so far; a blocked turn has its reason behind it.
func (r *rig) outcomes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, t := range r.traces {
		if t.Outcome != "" {
			s := string(t.Outcome)
			if t.Admission.Reason != "" {
				s += " " + string(t.Admission.Reason)
			}
			list = append(list, s)
		}
	}
	return list
}

func (r *rig) dispatch(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
	r.mu.Lock()
	r.turns = append(r.turns, turn.Context)
	answer := r.answer
	r.mu.Unlock()
	turn.Queued()
	if answer != nil {
		return answer(ctx, turn)
	}
	text, ok := strings.CutPrefix(turn.Context.BodyForAgent, "say ")
	if !ok {
		text = "ok"
	}
	return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text})
}

// answers changes the agent of a rig that runs.
func (r *rig) answers(f agentFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// told are the contexts of the turns that were dispatched.
func (r *rig) told() []*channel.TurnContext {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*channel.TurnContext(nil), r.turns...)
}

// serve runs the channel until the test or stop ends it.
func (r *rig) serve(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.done <- r.channel.Serve(ctx, r.kernel) }()
	t.Cleanup(func() {
		stop()
		if r.done != nil {
			<-r.done
		}
	})
	synctest.Wait()
}

// end stops the channel and returns what Serve said.
func (r *rig) end() error {
	r.stop()
	err := <-r.done
	r.done = nil
	return err
}

// ours are the texts of the bot's messages in a chat, as they stand now.
func (r *rig) ours(chat int64) []string {
	of := r.fake.Me().ID
	if chat == posts.ID {
		of = chat
	}
	var texts []string
	for _, m := range r.fake.Messages(chat, of) {
		texts = append(texts, m.Text)
	}
	return texts
}

// say writes a message and waits until nothing happens any more at this moment.
func (r *rig) say(m faketelegram.Message) faketelegram.Message {
	m = r.fake.Say(m)
	synctest.Wait()
	return m
}

// bubble runs a test whose time is not the clock's.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// logbook is what was logged.
type logbook struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// timeout is a context for real sockets.
func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("it took too long"))
	t.Cleanup(cancel)
	return ctx
}

// snapshots is a journal in a folder of which a copy can be taken, as a crash would leave it.
type snapshots struct {
	channel.Journal
	channel.Ledger
	channel.Shower
	dir, to string
}

// keeper is an agent that is told what people saw of an answer that a crash has cut off.
type keeper struct {
	agentFunc
	kept []string
}

// KeepCutOff implements [channel.Resumer].
func (k *keeper) KeepCutOff(_ context.Context, s channel.ShownText) error {
	k.kept = append(k.kept, s.Session+": "+s.Text)
	return nil
}

func (s *snapshots) take(t *testing.T) {
	t.Helper()
	if err := os.CopyFS(s.to, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
}
