package feishu_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/feishu"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/fakefeishu"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// People and conversations.
const (
	ann     = "ou_ann"
	bob     = "ou_bob"
	private = "oc_private"
	group   = "oc_group"
)

type agentFunc = channeltest.AgentFunc

var (
	says = channeltest.Says
	wait = channeltest.Wait
)

// world is a platform and a database. Processes that serve the channel can die.
type world struct {
	fake *fakefeishu.Server
	db   *db.DB
}

// rig is a process with the channel. Its agent answers "ok".
type rig struct {
	world
	*channeltest.Recorder
	settings feishu.Settings
	channel  *feishu.Channel
	kernel   *kernel.Kernel
	log      *channeltest.Log
	mortal   *mortal

	stop context.CancelFunc
	done chan error
}

// options are for setup.
type options struct {
	change   func(*feishu.Settings)
	place    channel.Place // by default, everybody may talk; groups require a mention
	platform fakefeishu.Options
	agent    channel.Agent
}

// setup returns a rig whose channel does not serve yet.
func setup(t *testing.T, o options) *rig {
	t.Helper()
	d, err := db.Open(t.Context(), "memory", &db.Options{Log: slog.New(slog.DiscardHandler), Beside: true})
	if err != nil {
		t.Fatal(err)
	}
	w := world{fake: fakefeishu.New(&o.platform), db: d}
	t.Cleanup(func() {
		_ = w.fake.Close()
		_ = d.Close()
	})
	w.fake.AddChat(private, "p2p")
	w.fake.AddChat(group, "group")
	return w.process(t, o)
}

// process returns another process on the same database and platform.
func (w world) process(t *testing.T, o options) *rig {
	t.Helper()
	r := &rig{world: w, Recorder: &channeltest.Recorder{Agent: o.agent}, log: new(channeltest.Log)}
	if o.agent == nil {
		r.Agent = says("ok")
	}
	r.mortal = &mortal{Store: w.db.Events(), transport: w.fake.Transport()}
	r.settings = settings(w.fake)
	r.settings.Media, r.settings.Client, r.settings.Grace = t.TempDir(), &http.Client{Transport: r.mortal}, time.Second
	r.settings.Log = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if o.change != nil {
		o.change(&r.settings)
	}
	var err error
	if r.channel, err = feishu.New(r.settings); err != nil {
		t.Fatal(err)
	}
	w.fake.SetDoor(r.channel.Webhook())
	root, err := channel.OpenMediaRoot(r.settings.Media, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	tree := channeltest.Tree(t, "feishu", o.place)
	r.kernel = &kernel.Kernel{
		Agent: r, Observer: r, Settings: tree, Store: r.mortal, Media: root, Log: r.settings.Log, Pairing: channel.NewPairs(nil),
		Window: channel.NewWindow(nil, channel.WindowOptions{Media: root}),
	}
	return r
}

// settings returns those for the app of a platform.
func settings(fake *fakefeishu.Server) feishu.Settings {
	o := fake.Options()
	return feishu.Settings{
		AppID: o.AppID, AppSecret: platform.Secret(o.AppSecret), EncryptKey: platform.Secret(o.Key),
		Settings: platform.Settings{API: "http://api.test", Client: &http.Client{Transport: fake.Transport()}},
	}
}

// mortal is the store and the network of a process, until it is killed.
type mortal struct {
	kernel.Store
	transport http.RoundTripper
	dead      atomic.Bool
	accepted  atomic.Value // of the last event, its raw form
	full      atomic.Bool  // no event can be stored
}

func (m *mortal) ifAlive(write func() error) error {
	if m.dead.Load() {
		return store.ErrMoved
	}
	return write()
}

func (m *mortal) Accept(ctx context.Context, list []store.Event) ([]bool, error) {
	if m.full.Load() {
		return nil, errors.New("the disk is full")
	}
	m.accepted.Store(string(list[0].Raw))
	return m.Store.Accept(ctx, list)
}

func (m *mortal) Note(ctx context.Context, key, replica string, n store.EventNote) error {
	return m.ifAlive(func() error { return m.Store.Note(ctx, key, replica, n) })
}

func (m *mortal) Release(ctx context.Context, r store.EventRelease) error {
	return m.ifAlive(func() error { return m.Store.Release(ctx, r) })
}

func (m *mortal) End(ctx context.Context, e store.EventEnd) (id int64, first bool, err error) {
	err = m.ifAlive(func() error {
		id, first, err = m.Store.End(ctx, e)
		return err
	})
	return id, first, err
}

func (m *mortal) EndReply(ctx context.Context, id int64, replica string) error {
	return m.ifAlive(func() error { return m.Store.EndReply(ctx, id, replica) })
}

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.dead.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return m.transport.RoundTrip(r)
}

// kill ends the process: nothing of it is stored or sent any more.
func (r *rig) kill(t *testing.T) {
	t.Helper()
	r.mortal.dead.Store(true)
	_ = r.end()
}

// serve runs the channel until the test, or end, ends it.
func (r *rig) serve(t *testing.T) {
	t.Helper()
	name := "process " + t.TempDir()
	q := kernel.NewQueue(r.kernel, kernel.QueueOptions{Replica: name, Alive: func() []string { return []string{name} }, Log: r.settings.Log})
	ctx, stop := context.WithCancel(context.Background())
	r.done = make(chan error, 1)
	r.stop = stop
	go func() {
		err := r.channel.Serve(ctx, q)
		q.Close()
		r.done <- err
	}()
	t.Cleanup(func() { _ = r.end() })
	synctest.Wait()
}

// end stops the channel, once, and returns the error of Serve.
func (r *rig) end() (err error) {
	r.stop()
	if r.done != nil {
		err = <-r.done
		r.done = nil
	}
	return err
}

// say writes a message, has it delivered once, and waits until nothing happens any more at this moment.
func (r *rig) say(t *testing.T, m fakefeishu.Said) (event map[string]any, id string) {
	t.Helper()
	event, id = r.fake.Say(m)
	r.post(t, event)
	return event, id
}

// mention is say with a mention of the bot, in the group.
func (r *rig) mention(t *testing.T, m fakefeishu.Said) (id string) {
	t.Helper()
	m.Chat, m.Text, m.Mentions = group, "@_user_1 "+m.Text, fakefeishu.MentionBot()
	if m.From == "" {
		m.From = ann
	}
	_, id = r.say(t, m)
	return id
}

func (r *rig) post(t *testing.T, event map[string]any) {
	t.Helper()
	if p := r.fake.Post(t.Context(), event); p.Status != http.StatusOK || p.Body != "{}\n" {
		t.Errorf("the event was answered with %d %q", p.Status, p.Body)
	}
	synctest.Wait()
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
