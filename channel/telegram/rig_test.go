package telegram_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/telegram"
	"github.com/lingserve/lingserve/internal/faketelegram"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
)

func TestMain(m *testing.M) { longtest.Main(m) }

var (
	ann     = &faketelegram.User{ID: 7, FirstName: "Ann", LastName: "Lee", Username: "ann"}
	bob     = &faketelegram.User{ID: 8, FirstName: "Bob"}
	private = faketelegram.Chat{ID: 7, Type: "private", FirstName: "Ann"}
	group   = faketelegram.Chat{ID: -5, Type: "group", Title: "Team"}
	forum   = faketelegram.Chat{ID: -1007, Type: "supergroup", Title: "Forum", IsForum: true}
	posts   = faketelegram.Chat{ID: -1008, Type: "channel", Title: "News"}
)

// secret is that of the webhook of the bot "42:fake".
const secret = "82b17c191fa5126afd86343b17b04808b003e88313003b70d22cab7022ab4d9a"

// webhook makes the mode of a channel a webhook.
func webhook(s *telegram.Settings) {
	s.Mode, s.PublicURL = telegram.ModeWebhook, "https://here.test"
}

type agentFunc = channeltest.AgentFunc

// options say what a rig is like. Without a place, everybody may talk; in groups, a mention is required.
type options struct {
	settings func(*telegram.Settings)
	fake     *faketelegram.Options
	place    channel.Place
	agent    channel.Agent // nil: the rig
	after    *rig          // has ended; the rig shares its platform, database and media
}

// rig is a channel with its platform, in a bubble. Its agent answers "say x" with x, and all else with "ok".
type rig struct {
	*channeltest.Recorder
	t       *testing.T
	fake    *faketelegram.Server
	channel *telegram.Channel
	kernel  *kernel.Kernel
	tree    *channel.Tree
	store   *fragileStore
	db      *db.DB
	media   string
	log     *channeltest.Log

	queue *kernel.Queue
	stop  context.CancelFunc
	done  chan error
}

// setup makes a rig whose channel does not serve yet.
func setup(t *testing.T, o options) *rig {
	t.Helper()
	r := &rig{Recorder: new(channeltest.Recorder), t: t, log: new(channeltest.Log)}
	if o.after != nil {
		r.fake, r.db, r.media = o.after.fake, o.after.db, o.after.media
	} else {
		r.open(o.fake)
	}
	s := telegram.Settings{
		Token: platform.Secret(r.fake.Token()), Settings: platform.Settings{
			API: "http://api.test", Client: &http.Client{Transport: r.fake.Transport()},
			Media: r.media, Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		},
	}
	if o.settings != nil {
		o.settings(&s)
	}
	var err error
	if r.channel, err = telegram.New(s); err != nil {
		t.Fatal(err)
	}
	media, err := channel.OpenMediaRoot(r.media, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = media.Close() })
	r.tree = channeltest.Tree(t, "telegram", o.place)
	r.store = &fragileStore{Store: r.db.Events()}
	r.kernel = newKernel(r.tree, o.agent)
	r.kernel.Store, r.kernel.Observer, r.kernel.Media, r.kernel.Log = r.store, r, media, s.Log
	r.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{Media: media})
	if o.agent == nil {
		r.kernel.Agent = r.Recorder
	}
	return r
}

// open makes what rigs share.
func (r *rig) open(o *faketelegram.Options) {
	r.fake, r.media = faketelegram.New(o), r.t.TempDir()
	var err error
	if r.db, err = db.Open(r.t.Context(), "memory", &db.Options{Log: slog.New(slog.DiscardHandler), Beside: true}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := errors.Join(r.fake.Close(), r.db.Close()); err != nil {
			r.t.Error(err)
		}
	})
	for _, c := range []faketelegram.Chat{private, group, posts} {
		r.fake.AddChat(c)
	}
	r.fake.AddChat(forum, 3, 4)
}

func newKernel(tree *channel.Tree, agent channel.Agent) *kernel.Kernel {
	return &kernel.Kernel{Agent: agent, Settings: tree}
}

// fragileStore takes no events while it is broken.
type fragileStore struct {
	kernel.Store
	broken atomic.Bool
}

func (s *fragileStore) Accept(ctx context.Context, events []store.Event) ([]bool, error) {
	if s.broken.Load() {
		return nil, errors.New("the disk is full")
	}
	return s.Store.Accept(ctx, events)
}

// one is the context of the only turn.
func (r *rig) one() *channel.TurnContext {
	r.t.Helper()
	told := r.Told()
	if len(told) != 1 {
		r.t.Fatalf("%d turns, %v; expected one", len(told), r.Outcomes())
	}
	return told[0]
}

// serve runs the channel until end, or the end of the test.
func (r *rig) serve() *rig {
	r.t.Helper()
	r.queue = kernel.NewQueue(r.kernel, kernel.QueueOptions{Replica: "test", Log: r.kernel.Log})
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.done = stop, make(chan error, 1)
	go func() { r.done <- r.channel.Serve(ctx, r.queue) }()
	r.t.Cleanup(func() {
		if r.done != nil {
			_ = r.end()
		}
	})
	synctest.Wait()
	return r
}

// end stops the channel and returns the error of Serve.
func (r *rig) end() error {
	r.stop()
	err := <-r.done
	r.done = nil
	r.queue.Close()
	return err
}

// ours are the texts of the bot's messages in a chat, as they stand now.
func (r *rig) ours(chat int64) (texts []string) {
	of := r.fake.Me().ID
	if chat == posts.ID {
		of = chat
	}
	for _, m := range r.fake.Messages(chat, of) {
		texts = append(texts, m.Text)
	}
	return texts
}

// say has somebody write, and waits until nothing more happens at this moment.
func (r *rig) say(m faketelegram.Message) faketelegram.Message {
	m = r.fake.Say(m)
	synctest.Wait()
	return m
}

// bubble runs a subtest in virtual time; without a name, the test itself.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	if name == "" {
		synctest.Test(t, f)
		return
	}
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}
