// Package slack is the channel of Slack: the Events API over HTTP tells what people write, the Web API takes the answers.
//
// # Guarantees
//   - An event is stored before Slack gets its confirmation, which is within the 3 s that Slack waits. It runs once, though Slack repeats it, and
//     tells of a mention twice: as a message and as a mention.
//   - A request with a bad signature gets an empty 401.
//   - A message that may have been accepted is not sent a second time; a message that certainly was not accepted is.
//   - What a model writes mentions no one, and is no markup that it does not look like.
//   - The token is in no error, no log and no address, and goes to no host but Slack's.
package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// Where the answer to a message of a channel goes that is in no thread.
const (
	ReplyInThread  = "thread"  // a thread of the message
	ReplyInChannel = "channel" // the channel
)

// What is shown of an answer before it is finished.
const (
	PreviewEdit = "edit" // a message that grows: streamed where Slack can do that, else edited
	PreviewOff  = "off"
)

// DefaultAPI is where the Web API is.
const DefaultAPI = "https://slack.com/api"

// Settings are those of the channel itself; who may talk is for package channel. Token and SigningSecret are required.
type Settings struct {
	Name          string          // of the channel; "" is slack
	Account       string          // one of several; "" is the only one
	Token         platform.Secret // of the bot: xoxb-…
	SigningSecret platform.Secret // of the app
	API           string          // the base of addresses; "" is [DefaultAPI]
	Agent         string          // answers where there are no routes

	Replies string // in channels; "" is [ReplyInThread]
	Preview string // "" is [PreviewEdit]

	MaxMedia int64          // bytes of one file; 0 is 10 MiB
	Media    string         // the folder for files; "" loads none
	State    platform.State // stores the threads that the bot writes in; nil keeps them in memory

	Grace    time.Duration // how long turns may go on at the end; 0 is that of [kernel.Handler]
	Client   *http.Client  // nil makes one
	ProxyEnv bool          // for a client that is made here: use the proxy that the environment names
	Log      *slog.Logger  // nil is silent
}

// Channel is one app in one workspace.
type Channel struct {
	name, account string
	agent         string
	secret        string // for signatures
	replies       string
	preview       string
	grace         time.Duration
	log           *slog.Logger
	api           *slackgo.Client
	refusedAt     *lru.Cache[string, time.Time] // when the platform has refused something; see wasRefused
	store         *platform.MediaStore
	threads       *threads
	people        *lru.Cache[string, person] // by id
	me            atomic.Pointer[identity]
	closeIdle     func()
	service       platform.Service
}

// maxKnown bounds how many conversations, and how many people, are remembered.
const maxKnown = 1000

func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	c, _ := lru.New[K, V](size) // it fails for a size below 1 only
	return c
}

// identity is who the bot is, as auth.test says.
type identity struct {
	slackgo.AuthTestResponse
	scopes []string // of the token; nil: unknown
}

var _ kernel.Channel = (*Channel)(nil)

// tokenForm is that of tokens of bots. Those that are renewed begin with xoxe.
var tokenForm = regexp.MustCompile(`^xox[be][.-][A-Za-z0-9.-]+$`)

// check returns what is wrong with the settings.
func (s *Settings) check() error {
	switch {
	case s.Token == "":
		return errors.New("token is missing; set it to the app's bot token, xoxb-…")
	case !tokenForm.MatchString(string(s.Token)):
		return errors.New("the token is not a bot token; expected xoxb-… from the app's page OAuth & Permissions")
	case s.SigningSecret == "":
		return errors.New("signing_secret is missing; set it to the one on the app's page Basic Information")
	case len(s.SigningSecret) < platform.MinSecret:
		return fmt.Errorf("the signing_secret has fewer than %d characters; expected the one on the app's page Basic Information", platform.MinSecret)
	case s.MaxMedia < 0:
		return fmt.Errorf("max_media is %d; expected a number of bytes", s.MaxMedia)
	}
	return cmp.Or(
		platform.CheckChoice("replies", s.Replies, ReplyInThread, ReplyInChannel), platform.CheckChoice("preview", s.Preview, PreviewEdit, PreviewOff),
	)
}

// New checks the settings and returns the channel. It calls no one yet.
func New(s Settings) (*Channel, error) {
	s.Token = platform.Secret(strings.TrimSpace(string(s.Token)))
	s.SigningSecret = platform.Secret(strings.TrimSpace(string(s.SigningSecret)))
	s.Replies, s.Preview = cmp.Or(s.Replies, ReplyInThread), cmp.Or(s.Preview, PreviewEdit)
	c := &Channel{
		name: cmp.Or(s.Name, "slack"), account: s.Account, agent: s.Agent, secret: string(s.SigningSecret), replies: s.Replies, preview: s.Preview,
		grace: s.Grace, log: cmp.Or(s.Log, slog.New(slog.DiscardHandler)), refusedAt: newCache[string, time.Time](maxKnown), people: newCache[string, person](maxKnown),
	}
	base, baseErr := platform.CheckBase(cmp.Or(s.API, DefaultAPI), DefaultAPI)
	var mediaErr, threadsErr error
	c.store, mediaErr = platform.OpenMedia(s.Media, "slack-", s.MaxMedia)
	c.threads, threadsErr = openThreads(s.State, kernel.Login(c.name, c.account))
	if err := cmp.Or(s.check(), baseErr, mediaErr, threadsErr); err != nil {
		return nil, fmt.Errorf("slack: %w", err)
	}
	var h client
	h.http, c.closeIdle = platform.NewClient(s.Client, s.ProxyEnv)
	c.api = slackgo.New(string(s.Token), slackgo.OptionAPIURL(base+"/"), slackgo.OptionHTTPClient(h))
	c.me.Store(&identity{}) // until the platform says more
	return c, nil
}

// Name implements [kernel.Channel].
func (c *Channel) Name() string { return c.name }

// self is what is known of the bot.
func (c *Channel) self() *identity { return c.me.Load() }

// Ready returns why the channel does not work, or nil.
func (c *Channel) Ready() error { return c.service.Ready() }

// Check returns why the channel could not start, or nil. It changes nothing on the platform.
func (c *Channel) Check(ctx context.Context) error {
	defer c.closeIdle()
	if err := c.identify(ctx); err != nil {
		return err
	}
	if me := c.self(); me.scopes != nil && !slices.Contains(me.scopes, "chat:write") {
		return errors.New("slack: the app may not write; add the scope chat:write and install the app again")
	}
	return nil
}

// About describes the bot for people: its name, its workspace, and the scopes that it lacks.
func (c *Channel) About() string {
	me := c.self()
	if me.UserID == "" {
		return ""
	}
	about := "@" + me.User + " in the workspace " + cmp.Or(me.Team, me.TeamID)
	if me.scopes == nil {
		return about
	}
	lacks := slices.DeleteFunc(
		[]string{"app_mentions:read", "im:history", "channels:history", "files:read", "files:write", "reactions:write", "users:read"},
		func(scope string) bool { return slices.Contains(me.scopes, scope) },
	)
	if len(lacks) > 0 {
		about += ", without the scopes " + strings.Join(lacks, ", ")
	}
	return about
}

// identify asks the platform for the bot's ids.
func (c *Channel) identify(ctx context.Context) error {
	var me identity
	err := c.call(ctx, "auth.test", func(ctx context.Context) error {
		answer, err := c.api.AuthTestContext(ctx)
		if err == nil {
			me.AuthTestResponse = *answer
		}
		return err
	})
	if err != nil {
		return err
	}
	if me.UserID == "" || me.TeamID == "" {
		return errors.New("slack: auth.test: the answer does not say who the bot is; check the setting api")
	}
	if scopes := me.Header.Get("X-Oauth-Scopes"); scopes != "" {
		me.scopes = strings.FieldsFunc(scopes, func(r rune) bool { return r == ',' || r == ' ' })
	}
	c.me.Store(&me)
	return nil
}

// Serve implements [kernel.Channel].
func (c *Channel) Serve(ctx context.Context, q *kernel.Queue) error {
	defer c.closeIdle()
	return c.service.Serve(ctx, q, platform.ServiceOptions{
		Handler: kernel.Handler{
			Channel: c.name, Account: c.account, Grace: c.grace,
			Run: func(ctx context.Context, e *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
				a := &adapter{c: c, k: q.Kernel(), meta: m}
				return kernel.Run(ctx, a.k, m, e.Raws(), a.hooks())
			},
			Sender: kernel.Sender{Send: c.send, Repeatable: onlyEdits},
		},
		Connect: c.connect, Log: c.log,
	})
}

// connect asks who the bot is until the platform says it, the channel ends, or the token turns out to be invalid.
func (c *Channel) connect(ctx context.Context) error {
	invalid := func(err error) bool { return is(err, badToken) }
	err := platform.Persist(ctx, c.identify, invalid, judge, func(err error, pause time.Duration) {
		c.log.WarnContext(ctx, "platform answers wrongly; retrying", "channel", c.name, "error", err, "pause", pause)
	})
	if err == nil {
		c.log.InfoContext(ctx, "channel is connected", "channel", c.name, "bot", c.self().User, "workspace", c.self().Team)
	}
	return err
}
