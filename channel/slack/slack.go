// Package slack is the channel of Slack: the Events API tells what people write, over HTTP or over the WebSockets of Socket Mode, and the Web API takes the
// answers.
//
// # Guarantees
//   - An event is stored before Slack gets its acknowledgement, which is within the 3 s that Slack waits. It runs once, though Slack repeats it, and
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
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// Where the answer to a message of a channel goes that is in no thread.
const (
	ReplyInThread  = "thread"  // a thread of the message
	ReplyInChannel = "channel" // the channel
)

// DefaultAPI is where the Web API is.
const DefaultAPI = "https://slack.com/api"

// Settings are for [New]. Token is required, and AppToken or SigningSecret. State stores the threads that the bot writes in.
type Settings struct {
	Token         platform.Secret `key:"token" help:"token of the app's bot, xoxb-…, from its page OAuth & Permissions"`
	SigningSecret platform.Secret `key:"signing_secret" help:"signing secret of events that come over HTTP, from the app's page Basic Information; set this or app_token"`
	AppToken      platform.Secret `key:"app_token" help:"app-level token for Socket Mode, xapp-…, from the same page: events come over WebSockets, and Slack need not reach the server"`
	Replies       string          `key:"replies" default:"thread" oneof:"thread channel" help:"where a message in a channel is answered: in its thread, or in the channel"`
	Preview       string          `key:"preview" default:"edit" oneof:"edit off" help:"what people see of an unfinished answer: a growing message, or nothing"`

	platform.Settings `key:"" api.default:"https://slack.com/api" api.help:"address of the Web API"`
}

// Channel is one app in one workspace.
type Channel struct {
	platform.Service
	s       Settings // with all defaults
	api     *slackgo.Client
	refused *lru.Cache[string, struct{}] // what the platform refuses and is not asked for any more, such as "stream C123"
	people  *lru.Cache[string, person]   // by id
	me      atomic.Pointer[slackgo.AuthTestResponse]
}

// maxKnown bounds how many conversations, and how many people, are remembered.
const maxKnown = 1000

var _ kernel.Channel = (*Channel)(nil)

// tokenForm is that of tokens of bots. Those that are renewed begin with xoxe.
var tokenForm = regexp.MustCompile(`^xox[be][.-][A-Za-z0-9.-]+$`)

// appTokenForm is that of tokens for Socket Mode.
var appTokenForm = regexp.MustCompile(`^xapp-[A-Za-z0-9-]+$`)

// check returns what is wrong with the settings.
func (s *Settings) check() error {
	switch {
	case s.Token == "":
		return errors.New("token is missing; set it to the app's bot token, xoxb-…")
	case !tokenForm.MatchString(string(s.Token)):
		return errors.New("the token is not a bot token; expected xoxb-… from the app's page OAuth & Permissions")
	case s.AppToken != "":
		if !appTokenForm.MatchString(string(s.AppToken)) {
			return errors.New("the app_token is not an app-level token; expected xapp-… from the app's page Basic Information")
		}
	case s.SigningSecret == "":
		return errors.New("signing_secret is missing; set it to the one on the app's page Basic Information, or set app_token for Socket Mode")
	case len(s.SigningSecret) < platform.MinSecret:
		return fmt.Errorf("the signing_secret has fewer than %d characters; expected the one on the app's page Basic Information", platform.MinSecret)
	}
	return nil
}

// New checks the settings and returns the channel. It calls no one yet.
func New(s Settings) (*Channel, error) {
	s.Token = platform.Secret(strings.TrimSpace(string(s.Token)))
	s.SigningSecret = platform.Secret(strings.TrimSpace(string(s.SigningSecret)))
	s.AppToken = platform.Secret(strings.TrimSpace(string(s.AppToken)))
	s.Replies = cmp.Or(s.Replies, ReplyInThread)
	c := &Channel{s: s}
	c.refused, _ = lru.New[string, struct{}](maxKnown) // fails only for a size below 1
	c.people, _ = lru.New[string, person](maxKnown)
	c.Init(&c.s.Settings, "slack", DefaultAPI)
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("slack: %w", err)
	}
	c.Files.Fetch, c.HTTP.Timeout = c.fetch, callTimeout
	c.api = slackgo.New(string(s.Token), slackgo.OptionAPIURL(c.s.API+"/"), slackgo.OptionHTTPClient(client{c.HTTP}),
		slackgo.OptionAppLevelToken(string(s.AppToken)))
	c.me.Store(&slackgo.AuthTestResponse{}) // until the platform says more
	return c, nil
}

// self is who the bot is, as auth.test says.
func (c *Channel) self() *slackgo.AuthTestResponse { return c.me.Load() }

// Check returns why the channel could not start, or nil. It changes nothing on the platform.
func (c *Channel) Check(ctx context.Context) error {
	defer c.CloseIdle()
	if err := c.identify(ctx); err != nil {
		return err
	}
	if c.lacks("chat:write") {
		return errors.New("slack: the app may not write; add the scope chat:write and install the app again")
	}
	if c.s.AppToken != "" { // it is asked for the address of a connection
		if _, _, err := c.api.StartSocketModeContext(ctx); err != nil {
			return c.socketError(ctx, err)
		}
	}
	return nil
}

// lacks reports whether the token is known to have not got a scope.
func (c *Channel) lacks(scope string) bool {
	scopes := c.self().Header.Get("X-Oauth-Scopes")
	return scopes != "" && !slices.Contains(strings.Split(strings.ReplaceAll(scopes, " ", ""), ","), scope)
}

// About describes the bot for people: its name, its workspace, and the scopes that it lacks.
func (c *Channel) About() string {
	me := c.self()
	if me.UserID == "" {
		return ""
	}
	about := "@" + me.User + " in the workspace " + cmp.Or(me.Team, me.TeamID)
	missing := []string{"app_mentions:read", "im:history", "channels:history", "files:read", "files:write", "reactions:write", "users:read"}
	if missing = slices.DeleteFunc(missing, func(scope string) bool { return !c.lacks(scope) }); len(missing) > 0 {
		about += ", without the scopes " + strings.Join(missing, ", ")
	}
	return about
}

// identify asks the platform for the bot's ids.
func (c *Channel) identify(ctx context.Context) error {
	var me *slackgo.AuthTestResponse
	err := c.call(ctx, "auth.test", func(ctx context.Context) (err error) {
		me, err = c.api.AuthTestContext(ctx)
		return err
	})
	switch {
	case err != nil:
		return err
	case me.UserID == "" || me.TeamID == "":
		return errors.New("slack: auth.test: the answer does not say who the bot is; check the setting api")
	}
	c.me.Store(me)
	return nil
}

// Serve implements [kernel.Channel].
func (c *Channel) Serve(ctx context.Context, q *kernel.Queue) error {
	var receive func(context.Context) error
	if c.s.AppToken != "" {
		receive = c.receiveSocket
	}
	return c.Service.Serve(ctx, q, platform.ServiceOptions{
		Run: c.run, Sender: kernel.Sender{Send: c.send, Repeatable: onlyEdits},
		Identify: c.identify, Lasting: []*platform.Kind{badToken}, Bot: c.About, Receive: receive,
	})
}
