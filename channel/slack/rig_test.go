package slack_test

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/slack"
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
	eyes  = "eyes"
	ping  = "1700000000.000009" // a thread that others have begun
)

type agentFunc = channeltest.AgentFunc

var (
	says = channeltest.Says
	wait = channeltest.Wait
)

// shows is an agent that shows texts, one every few seconds, and then answers.
func shows(answer string, previews ...string) agentFunc {
	return func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		for _, text := range previews {
			turn.Sink.Preview(channel.Payload{Text: text})
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
				return channel.DispatchResult{}, context.Cause(ctx)
			}
		}
		return says(answer)(ctx, turn)
	}
}

// rig is a channel, its platform, and an agent that answers what is asked of it: "say x" with x, all else with "ok".
type rig struct {
	*channeltest.Recorder
	t        *testing.T
	fake     *fakeslack.Server
	channel  *slack.Channel
	settings slack.Settings
	store    kernel.Store
	tree     *channel.Tree
	window   *channel.Window
	kernel   func(*kernel.Kernel) // changes that of a process; nil
	log      *channeltest.Log

	queue *kernel.Queue
	stop  context.CancelFunc // nil: the channel does not run
	done  chan error
}

// bubble runs a test in virtual time, with a channel that runs.
func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	bubbleWith(t, nil, nil, channel.Place{}, test)
}

func bubbleWith(t *testing.T, change func(*slack.Settings), options *fakeslack.Options, place channel.Place, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, change, options, place)
		r.serve()
		test(t, r)
	})
}

// setup makes a rig whose channel does not run yet. Everybody may talk unless the place says otherwise; in groups, a mention is required.
func setup(t *testing.T, change func(*slack.Settings), options *fakeslack.Options, place channel.Place) *rig {
	t.Helper()
	r := &rig{Recorder: new(channeltest.Recorder), t: t, log: new(channeltest.Log)}
	if options == nil {
		options = &fakeslack.Options{}
	}
	options.Hook = "http://here.test/v1/channels/slack/webhook"
	options.Deliver = &http.Client{Transport: fakeslack.Local(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.channel.Webhook().ServeHTTP(w, req)
	}))}
	r.fake = fakeslack.New(options)
	t.Cleanup(func() { _ = r.fake.Close() })
	r.store, r.tree, r.window = channeltest.Store(t), channeltest.Tree(t, "slack", place), channel.NewWindow(nil, channel.WindowOptions{})
	r.settings = slack.Settings{
		Token: platform.Secret(r.fake.Token()), SigningSecret: platform.Secret(r.fake.Secret()), Settings: platform.Settings{
			API: "http://api.test/api", Client: &http.Client{Transport: r.fake.Transport()}, Media: t.TempDir(), Grace: time.Minute,
			Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		},
	}
	if options.AppToken != "" {
		r.settings.AppToken, r.settings.SigningSecret, r.settings.Client = platform.Secret(options.AppToken), "", r.fake.Client()
	}
	if change != nil {
		change(&r.settings)
	}
	r.newChannel()
	r.fake.AddConversation(fakeslack.Conversation{ID: dm, Kind: fakeslack.IM})
	r.fake.AddConversation(fakeslack.Conversation{ID: room, Kind: fakeslack.Channel})
	r.fake.AddConversation(fakeslack.Conversation{ID: party, Kind: fakeslack.MPIM})
	r.fake.AddPerson(ann, "ann", "Ann Lee")
	r.fake.AddPerson(bob, "bob", "Bob")
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return r
}

func (r *rig) newChannel() {
	r.t.Helper()
	var err error
	if r.channel, err = slack.New(r.settings); err != nil {
		r.t.Fatal(err)
	}
}

// serve runs the channel until the test or end ends it.
func (r *rig) serve() {
	r.t.Helper()
	k := &kernel.Kernel{Store: r.store, Settings: r.tree, Window: r.window, Observer: r, Agent: r}
	if r.kernel != nil {
		r.kernel(k)
	}
	r.queue = kernel.NewQueue(k, kernel.QueueOptions{Replica: "test"})
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.done = stop, make(chan error, 1)
	go func() { r.done <- r.channel.Serve(ctx, r.queue) }()
	synctest.Wait()
}

// end stops the channel, as a shutdown does, and returns the error of Serve.
func (r *rig) end() error {
	if r.stop == nil {
		return nil
	}
	r.stop()
	err := <-r.done
	r.queue.Close()
	r.stop = nil
	return err
}

// restart ends the process and starts another one, which knows only what was stored.
func (r *rig) restart() {
	r.t.Helper()
	if err := r.end(); err != nil {
		r.t.Error(err)
	}
	r.newChannel()
	r.serve()
}

// wantOutcomes fails the test unless these are the outcomes so far.
func (r *rig) wantOutcomes(want ...string) {
	r.t.Helper()
	if got := r.Outcomes(); !slices.Equal(got, want) {
		r.t.Errorf("got the outcomes %q, expected %q", got, want)
	}
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

// texts are those of the bot's messages in a conversation, as they are now.
func (r *rig) texts(conversation string) []string {
	var list []string
	for _, m := range r.fake.Shown(conversation) {
		list = append(list, m.Text)
	}
	return list
}

// wantTexts fails the test unless these are the texts of the bot's messages in a conversation.
func (r *rig) wantTexts(conversation string, want ...string) {
	r.t.Helper()
	if got := r.texts(conversation); !slices.Equal(got, want) {
		r.t.Errorf("people see %q, expected %q", got, want)
	}
}

// methods are those of the calls so far that change messages.
func (r *rig) methods() (list []string) {
	for _, c := range r.fake.Writes() {
		if method, ok := strings.CutPrefix(c.Method, "chat."); ok {
			list = append(list, method)
		}
	}
	return list
}
