package slack

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/secret"
	"github.com/lingserve/lingserve/internal/fakeslack"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// Where people write, and who.
const (
	dm    = "D0ANN"
	room  = "C0ROOM"
	party = "G0PARTY"
	ann   = "U0ANN"
	bob   = "U0BOB"
	us    = "<@" + fakeslack.Bot + ">"
)

// agentFunc is an agent.
type agentFunc func(context.Context, *channel.Turn) (channel.DispatchResult, error)

func (f agentFunc) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	return f(ctx, t)
}

// rig is a channel, its platform, and an agent that answers what is asked of it: "say x" with x, all else with "ok".
type rig struct {
	fake    *fakeslack.Server
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
func setup(t *testing.T, change func(*Settings), options *fakeslack.Options) *rig {
	t.Helper()
	r := &rig{log: &logbook{}, done: make(chan error, 1)}
	if options == nil {
		options = &fakeslack.Options{}
	}
	options.Hook = "http://here.test/v1/channels/slack/webhook"
	options.Deliver = &http.Client{Transport: fakeslack.Local(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.channel.Webhook().ServeHTTP(w, req)
	}))}
	r.fake = fakeslack.New(options)
	t.Cleanup(func() { _ = r.fake.Close() })
	r.kernel = kernel(t, channel.Place{})
	r.kernel.Agent = agentFunc(r.dispatch)
	r.kernel.Observer = r
	s := Settings{
		Token: secret.Text(r.fake.Token()), SigningSecret: secret.Text(r.fake.Secret()), API: "http://api.test/api",
		Client: &http.Client{Transport: r.fake.Transport()}, Media: t.TempDir(),
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&s)
	}
	var err error
	if r.channel, err = New(s); err != nil {
		t.Fatal(err)
	}
	r.fake.AddConversation(fakeslack.Conversation{ID: dm, Kind: fakeslack.IM})
	r.fake.AddConversation(fakeslack.Conversation{ID: room, Kind: fakeslack.Channel})
	r.fake.AddConversation(fakeslack.Conversation{ID: party, Kind: fakeslack.MPIM})
	r.fake.AddPerson(ann, "ann", "Ann Lee")
	r.fake.AddPerson(bob, "bob", "Bob")
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
		"slack": {AccountPlace: channel.AccountPlace{Place: more}},
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
			list = append(list, strings.TrimSpace(string(t.Outcome)+" "+string(t.Admission.Reason)))
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

// answers changes the agent.
func (r *rig) answers(f agentFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// says is an agent that answers with a text.
func says(text string) agentFunc {
	return func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text})
	}
}

// told are the contexts of the turns that were dispatched.
func (r *rig) told() []*channel.TurnContext {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.turns)
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

// say writes a message and waits until nothing happens any more at this moment.
func (r *rig) say(m fakeslack.Message) fakeslack.Message {
	if m.User == "" {
		m.User = ann
	}
	m = r.fake.Say(m)
	synctest.Wait()
	return m
}

// texts are those of the bot's messages in a conversation, as they stand now.
func (r *rig) texts(conversation string) []string {
	var list []string
	for _, m := range r.fake.Shown(conversation) {
		list = append(list, m.Text)
	}
	return list
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

// copyFolder copies the files of a folder.
func copyFolder(to, from string) error { return os.CopyFS(to, os.DirFS(from)) }
