// Package slack is the channel of Slack: the Events API over HTTP tells what people write, the Web API takes the answers.
//
// # What it promises
//   - An event is in the journal before Slack is told that it has come, which is within the 3 s that Slack waits, however long the
//     agent takes; it runs once, though Slack repeats it, and tells of a mention twice: as a message and as a mention.
//   - Who does not know the signing secret learns nothing but that.
//   - What may have been accepted is not sent a second time; what certainly was not is.
//   - What a model writes mentions nobody and is no markup that it does not look like.
//   - The token is in no error, no log and no address, and goes to no host but Slack's.
//
// # What the library does, and what it does not
//
// github.com/slack-go/slack is not used here, but by the tests of the platform that this channel is tested with. Its client hides
// whether a request was written before a connection broke, on which it depends whether a message may be sent again; its errors hold
// what was answered; and its events refuse the whole of what has one member of another kind. The calls that are needed are seven.
package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/attempt"
	"github.com/lingserve/lingserve/channel/media"
	"github.com/lingserve/lingserve/channel/secret"
	"github.com/lingserve/lingserve/channel/service"
	"github.com/lingserve/lingserve/channel/state"
	"github.com/lingserve/lingserve/internal/egress"
)

// Where the answer to a message goes that stands in a channel and in no thread.
const (
	ReplyInThread  = "thread"  // a thread of the message
	ReplyInChannel = "channel" // beside it
)

// What is shown of an answer before it is finished.
const (
	PreviewEdit = "edit" // a message that grows
	PreviewOff  = "off"
)

// DefaultAPI is where the Web API is.
const DefaultAPI = "https://slack.com/api"

// Settings are what the channel itself is told; who may talk is for package channel. Token and SigningSecret are required.
type Settings struct {
	Name          string      // of the channel; "" is slack
	Account       string      // of several; "" is the only one
	Token         secret.Text // of the bot: xoxb-…
	SigningSecret secret.Text // of the app
	API           string      // the base of addresses; "" is [DefaultAPI]
	Agent         string      // answers where no routes are

	Replies string // in channels; "" is [ReplyInThread]
	Preview string // "" is [PreviewEdit]

	MaxMedia int64  // bytes of one file; 0 is 10 MiB
	Media    string // the folder for files; "" loads none
	// State keeps the threads that the bot writes in, under the channel's name and account; nil forgets them at the end.
	State state.Store

	Grace    time.Duration // how long turns may go on at the end; 0 is that of [channel.Door]
	Client   *http.Client  // nil is one of its own
	ProxyEnv bool          // with a client of its own: go through the proxy that the environment names
	Log      *slog.Logger  // nil is silent
}

// Channel is one app in one workspace.
type Channel struct {
	name, account string
	agent         string
	secret        []byte // for signatures
	replies       string
	preview       string
	previewEvery  time.Duration // the least time between two edits in one conversation; another in tests
	postEvery     time.Duration // the time between two messages to one conversation in the long run
	grace         time.Duration
	log           *slog.Logger
	api           *api
	pace          *pace
	store         media.Store
	threads       *threads
	people        people
	me            atomic.Pointer[identity]
	closeIdle     func() // of a client of its own
	service       service.Service
}

// identity is who the bot is, as auth.test says.
type identity struct {
	TeamID string   `json:"team_id"`
	Team   string   `json:"team"`
	User   string   `json:"user"`
	UserID string   `json:"user_id"`
	BotID  string   `json:"bot_id"`
	scopes []string // that the token has; nil where the platform does not say
}

var _ channel.Channel = (*Channel)(nil)

// tokenForm is that of tokens of bots; those that are renewed begin with xoxe.
var tokenForm = regexp.MustCompile(`^xox[be][.-][A-Za-z0-9.-]+$`)

// New checks the settings and returns the channel. It asks nobody yet.
func New(s Settings) (*Channel, error) {
	c := &Channel{
		name: cmp.Or(s.Name, "slack"), account: s.Account, agent: s.Agent, secret: []byte(strings.TrimSpace(string(s.SigningSecret))),
		replies: cmp.Or(s.Replies, ReplyInThread), preview: cmp.Or(s.Preview, PreviewEdit), grace: s.Grace, log: s.Log,
		pace: newPace(), previewEvery: callEvery, postEvery: callEvery,
		store: media.Store{Prefix: "slack-", Limit: cmp.Or(s.MaxMedia, media.DefaultLimit)},
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	token := strings.TrimSpace(string(s.Token))
	switch {
	case token == "":
		return nil, errors.New("slack: token is missing; set it to the app's bot token, xoxb-…")
	case !tokenForm.MatchString(token):
		return nil, errors.New("slack: the token is not a bot token; expected xoxb-… from the app's page OAuth & Permissions")
	case len(c.secret) == 0:
		return nil, errors.New("slack: signing_secret is missing; set it to the one on the app's page Basic Information")
	case len(c.secret) < secret.MinLength:
		return nil, fmt.Errorf("slack: the signing_secret has fewer than %d characters; expected the one on the app's page Basic Information", secret.MinLength)
	}
	base := strings.TrimRight(cmp.Or(s.API, DefaultAPI), "/")
	at, err := url.Parse(base)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || at.RawQuery != "" || at.Fragment != "" {
		return nil, errors.New("slack: api is not an address; expected one such as " + DefaultAPI)
	}
	if c.replies != ReplyInThread && c.replies != ReplyInChannel {
		return nil, fmt.Errorf("slack: replies is %q; expected %s or %s", c.replies, ReplyInThread, ReplyInChannel)
	}
	if c.preview != PreviewEdit && c.preview != PreviewOff {
		return nil, fmt.Errorf("slack: preview is %q; expected %s or %s", c.preview, PreviewEdit, PreviewOff)
	}
	if c.store.Limit < 0 {
		return nil, fmt.Errorf("slack: max_media is %d; expected a number of bytes", c.store.Limit)
	}
	if s.Media != "" {
		if c.store.Dir, err = filepath.Abs(s.Media); err != nil {
			return nil, fmt.Errorf("slack: the media folder: %w", err)
		}
	}
	if c.threads, err = openThreads(s.State, c.sender()); err != nil {
		return nil, err
	}
	client := s.Client
	c.closeIdle = func() {}
	if client == nil {
		own := egress.NewTransport(s.ProxyEnv)
		own.MaxIdleConnsPerHost = 16 // calls of as many turns at a time
		client, c.closeIdle = &http.Client{Transport: own}, own.CloseIdleConnections
	}
	once := *client // its redirects are not ours to change; one would take the token elsewhere
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.api = &api{http: &once, base: base, at: at, token: token, lost: c.service.Fail}
	c.me.Store(&identity{}) // until the platform says more
	return c, nil
}

// Name implements [channel.Channel].
func (c *Channel) Name() string { return c.name }

// self is what is known of the bot.
func (c *Channel) self() *identity { return c.me.Load() }

// Ready says why the channel does not work, nil where it does, for whoever asks whether the server is ready.
func (c *Channel) Ready() error { return c.service.Ready() }

// Check says whether the channel could start. It changes nothing on the platform.
func (c *Channel) Check(ctx context.Context) error {
	defer c.closeIdle()
	if err := c.whoAmI(ctx); err != nil {
		return err
	}
	if me := c.self(); me.scopes != nil && !slices.Contains(me.scopes, "chat:write") {
		return errors.New("slack: the app may not write; add the scope chat:write and install the app again")
	}
	return nil
}

// About is what the platform says of the bot, for people: its name, its workspace, and what it is not allowed to see there.
func (c *Channel) About() string {
	me := c.self()
	if me.UserID == "" {
		return ""
	}
	about := "@" + me.User + " in the workspace " + cmp.Or(me.Team, me.TeamID)
	if me.scopes == nil {
		return about
	}
	var lacks []string
	for _, s := range []string{"app_mentions:read", "im:history", "channels:history", "files:read", "files:write", "reactions:write", "users:read"} {
		if !slices.Contains(me.scopes, s) {
			lacks = append(lacks, s)
		}
	}
	if len(lacks) > 0 {
		about += ", without the scopes " + strings.Join(lacks, ", ")
	}
	return about
}

// whoAmI asks the platform for the bot's ids.
func (c *Channel) whoAmI(ctx context.Context) error {
	me := new(identity)
	header, err := c.api.call(ctx, request{method: "auth.test", out: me})
	if err != nil {
		return err
	}
	if me.UserID == "" || me.TeamID == "" {
		return errors.New("slack: auth.test: the answer does not say who the bot is; check the setting api")
	}
	if scopes := header.Get("X-Oauth-Scopes"); scopes != "" {
		me.scopes = strings.FieldsFunc(scopes, func(r rune) bool { return r == ',' || r == ' ' })
	}
	c.me.Store(me)
	return nil
}

// Serve implements [channel.Channel].
func (c *Channel) Serve(ctx context.Context, k *channel.Kernel) error {
	defer c.closeIdle()
	return c.service.Serve(ctx, k, service.Options{
		Door: channel.DoorOptions{
			Channel: c.name, Account: c.account, Grace: c.grace, Log: c.log, Together: true,
			Run: func(ctx context.Context, entry channel.JournalEntry, m channel.Meta) (channel.Result, error) {
				e, err := Raw(entry.Raw)
				if err != nil {
					e = new(Event) // what nobody can read is settled, too
				}
				return channel.Run(ctx, k, c.event(k, e, m))
			},
			Incomplete: c.incomplete, Clear: c.clear,
		},
		Name: c.sender(), Sender: c,
		Connect: func(ctx context.Context) error {
			if err := c.persist(ctx); err != nil {
				return err
			}
			c.log.InfoContext(ctx, "channel is connected", "channel", c.name, "bot", c.self().User, "workspace", c.self().Team)
			return nil
		},
	})
}

// persist asks who the bot is until the platform says it, or until the channel ends or the token turns out to be none.
func (c *Channel) persist(ctx context.Context) error {
	return attempt.Persist(ctx, c.whoAmI, func(err error) bool { return is(err, badToken) }, judge, func(err error, pause time.Duration) {
		c.log.WarnContext(ctx, "platform answers wrongly; retrying", "channel", c.name, "error", err, "pause", pause)
	})
}

// incomplete tells a conversation that a crash has cut off an answer (CH-74).
func (c *Channel) incomplete(ctx context.Context, entry channel.JournalEntry) error {
	e, err := Raw(entry.Raw)
	if err != nil {
		return err
	}
	m := e.message
	if m == nil || m.kind != channel.EventMessage {
		return nil
	}
	_, err = c.post(ctx, target{conversation: m.conversation, thread: c.root(m)}, channel.IncompleteNotice)
	return err
}

// sender is the name that the outbox knows the channel by.
func (c *Channel) sender() string {
	if c.account == "" {
		return c.name
	}
	return c.name + "@" + c.account
}
