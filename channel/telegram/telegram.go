// Package telegram is the channel of the Bot API: people write to a bot, and an agent answers.
//
// # Guarantees
//   - An update is stored before the platform gets its confirmation, and runs once, however often it is delivered.
//   - The updates of one conversation and topic start in the order in which they came.
//   - What may have been accepted is not sent a second time; what certainly was not is.
//   - The token is in no error, no log and no address that people see.
//
// # The library
//
// The types of updates are those of github.com/go-telegram/bot. Its client is not used: its poll loop moves the offset before an update is stored and drops
// updates when it stops, its calls put answers of any size into memory and errors, and their errors do not tell a refused connection from a lost answer. Its
// call of getUpdates is private, and it writes drafts and buttons as the platform does not take them, so there is a call function in any case.
package telegram

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// How updates come.
const (
	ModePoll    = "poll"
	ModeWebhook = "webhook"
)

// PreviewDraft shows an unfinished answer in a private chat as a draft, without notifications.
const PreviewDraft = "draft"

// DefaultAPI is the public Bot API server.
const DefaultAPI = "https://api.telegram.org"

// Settings are for [New]. Only Token is required. State keeps what is known of groups.
type Settings struct {
	Token     platform.Secret `key:"token" help:"token of the bot, from @BotFather"`
	Mode      string          `key:"mode" default:"poll" oneof:"poll webhook" help:"how updates come: by polling, or sent to public_url"`
	PublicURL string          `key:"public_url" check:"url" help:"public https address of this server, for mode webhook"`
	Preview   string          `key:"preview" default:"edit" oneof:"edit draft off" help:"what people see of an unfinished answer: a growing message, a draft in private chats, or nothing"`
	Menu      string          `key:"menu" default:"commands" oneof:"commands off" help:"menu behind the slash: the commands that a person may give, or the menu of @BotFather"`
	Commands  []platform.Command

	platform.Settings `key:"" api.default:"https://api.telegram.org" api.help:"address of the Bot API server; set it for a local server" max_media.help:"maximum size of a file; the public server allows 20MiB"`
}

// Channel is one bot.
type Channel struct {
	platform.Service
	s      Settings        // with all defaults
	secret platform.Secret // of the webhook, made from the token, so that all replicas expect the same
	api    platform.API
	me     atomic.Pointer[models.User]
}

var _ kernel.Channel = (*Channel)(nil)

var tokenForm = regexp.MustCompile(`^[0-9]+:[A-Za-z0-9_-]+$`)

// New checks the settings and returns the channel. It makes no call.
func New(s Settings) (*Channel, error) {
	s.Mode = cmp.Or(s.Mode, ModePoll)
	s.Token, s.PublicURL = platform.Secret(strings.TrimSpace(string(s.Token))), strings.TrimRight(s.PublicURL, "/")
	c := &Channel{s: s}
	c.Init(&c.s.Settings, "telegram", DefaultAPI)
	if err := c.s.check(); err != nil {
		return nil, fmt.Errorf("telegram: %w", err)
	}
	mac := hmac.New(sha256.New, []byte(s.Token))
	mac.Write([]byte("lingserve: the secret of the webhook"))
	c.secret = platform.Secret(hex.EncodeToString(mac.Sum(nil)))
	c.Files.Fetch = c.fetch
	base := c.s.API + "/bot" + string(s.Token)
	c.api = platform.API{Platform: "telegram", Client: c.HTTP, Base: base, Read: readAnswer, Fatal: badToken, Fail: c.Fail}
	me := &models.User{IsBot: true} // until the platform says more
	_, _ = fmt.Sscan(string(s.Token), &me.ID)
	c.me.Store(me)
	return c, nil
}

// check checks settings with their defaults.
func (s *Settings) check() error {
	switch {
	case s.Token == "":
		return errors.New("token is missing; set it to the one that @BotFather shows")
	case !tokenForm.MatchString(string(s.Token)):
		return errors.New("the token is invalid; expected a number, a colon and letters, as @BotFather shows it")
	case s.Mode == ModeWebhook && s.PublicURL == "":
		return errors.New("mode webhook needs public_url; set it to this server's public https address")
	case s.API == DefaultAPI && s.MaxMedia > publicMaxMedia:
		return fmt.Errorf("max_media is %d; expected at most %d bytes, the public server's limit", s.MaxMedia, publicMaxMedia)
	}
	return nil
}

// self is what is known of the bot.
func (c *Channel) self() *models.User { return c.me.Load() }

// Check reports whether the channel could start. It changes nothing on the platform.
func (c *Channel) Check(ctx context.Context) error {
	defer c.CloseIdle()
	return c.getMe(ctx)
}

// About says for people who the bot is, and whether it sees all messages of its groups (CH-174).
func (c *Channel) About() string {
	me := c.self()
	switch {
	case me.Username == "":
		return ""
	case me.CanReadAllGroupMessages:
		return "@" + me.Username + ", sees all messages of its groups"
	}
	return "@" + me.Username + ", in privacy mode: in groups, it sees only commands, mentions and replies to it"
}

// getMe asks the platform who the bot is.
func (c *Channel) getMe(ctx context.Context) error {
	me := new(models.User)
	err := c.api.Attempt(ctx, platform.Request{Name: "getMe", In: params{}, Out: me})
	if err == nil {
		c.me.Store(me)
	}
	return err
}

// Serve implements [kernel.Channel].
func (c *Channel) Serve(ctx context.Context, q *kernel.Queue) error {
	receive := c.listen
	if c.s.Mode == ModePoll {
		receive = func(ctx context.Context) error { return c.poll(ctx, q) }
	}
	return c.Service.Serve(ctx, q, platform.ServiceOptions{
		Run: c.run, Sender: kernel.Sender{Send: c.poster().Send},
		Identify: c.getMe, Lasting: []*platform.Kind{badToken}, Bot: c.About, Started: c.setMenus,
		Receive: receive, Exclusive: c.s.Mode == ModePoll,
	})
}

// persist makes a call until it works, the channel ends, or the platform says that it never will.
func (c *Channel) persist(ctx context.Context, method string, call func(context.Context) error) error {
	return platform.Persist(ctx, c.Log.With("method", method), "platform answers wrongly; retrying", call, badToken, badWebhook)
}
