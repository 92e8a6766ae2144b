package feishu

import (
	"context"
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
	"github.com/lingserve/lingserve/internal/fakefeishu"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// Those who write, and where.
const (
	ann     = "ou_ann"
	bob     = "ou_bob"
	private = "oc_private"
	group   = "oc_group"
)

// agentFunc is an agent.
type agentFunc func(context.Context, *channel.Turn) (channel.DispatchResult, error)

func (f agentFunc) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	return f(ctx, t)
}

// rig is a channel, its platform, and an agent that answers what is asked of it: "say x" with x, all else with "ok".
type rig struct {
	fake    *fakefeishu.Server
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
func setup(t *testing.T, change func(*Settings), options *fakefeishu.Options) *rig {
	t.Helper()
	r := &rig{fake: fakefeishu.New(options), log: &logbook{}, done: make(chan error, 1)}
	t.Cleanup(func() { _ = r.fake.Close() })
	r.kernel = kernel(t, channel.Place{})
	r.kernel.Agent = agentFunc(r.dispatch)
	r.kernel.Observer = r
	s := settings(r.fake)
	s.Media = t.TempDir()
	s.Log = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if change != nil {
		change(&s)
	}
	var err error
	if r.channel, err = New(s); err != nil {
		t.Fatal(err)
	}
	root, err := channel.OpenMediaRoot(s.Media, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	r.kernel.Media = root
	r.fake.SetDoor(r.channel.Webhook())
	r.fake.AddChat(private, "p2p")
	r.fake.AddChat(group, "group")
	return r
}

// settings are those of a platform's app.
func settings(fake *fakefeishu.Server) Settings {
	o := fake.Options()
	s := Settings{
		AppID: o.AppID, AppSecret: secret.Text(o.AppSecret), VerificationToken: secret.Text(o.Token), EncryptKey: secret.Text(o.Key),
		API: "http://api.test", Client: &http.Client{Transport: fake.Transport()},
	}
	if o.Plain {
		s.EncryptKey = ""
	}
	return s
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
		"feishu": {AccountPlace: channel.AccountPlace{Place: more}},
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

// says makes the agent answer with a text, and with media.
func says(text string, media ...channel.MediaFact) agentFunc {
	return func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text, Media: media})
	}
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

// say writes a message, has it delivered once, and waits until nothing happens any more at this moment.
func (r *rig) say(t *testing.T, m fakefeishu.Said) (event map[string]any, id string) {
	t.Helper()
	event, id = r.fake.Say(m)
	r.post(t, event)
	return event, id
}

func (r *rig) post(t *testing.T, event map[string]any) {
	t.Helper()
	if p := r.fake.Post(t.Context(), event); p.Status != http.StatusOK || p.Body != "{}\n" {
		t.Errorf("the event was answered with %d %q", p.Status, p.Body)
	}
	synctest.Wait()
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

// snapshots is a journal in a folder of which a copy can be taken, as a crash would leave it.
type snapshots struct {
	channel.Journal
	channel.Ledger
	dir, to string
}

func (s *snapshots) take(t *testing.T) {
	t.Helper()
	if err := os.CopyFS(s.to, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
}

// wait lets time pass.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
