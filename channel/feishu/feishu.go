// Package feishu is the channel of Feishu and Lark. The platform posts events to a webhook. Answers go through its server API, as cards
// that are edited while the answer is written.
//
// # Guarantees
//   - An event is stored before the platform gets its confirmation. It runs once, however often it is delivered.
//   - Only requests that are encrypted and signed with the Encrypt Key are accepted. All others get the same response.
//   - A message is sent again only if the first attempt is proven to have failed, or while the platform still recognizes its uuid.
//   - The text of a model mentions no one, and links to nothing but http and https.
//   - The secrets of the app are in no error, log or address.
//
// There is no client library in this build: a dozen calls are needed.
package feishu

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// DefaultAPI is the address of Feishu. Lark has https://open.larksuite.com.
const DefaultAPI = "https://open.feishu.cn"

// Settings are for [New]. AppID, AppSecret and EncryptKey are required. State is not used.
type Settings struct {
	AppID      string          `key:"app_id" help:"id of the app, cli_…, from its page Credentials & Basic Info"`
	AppSecret  platform.Secret `key:"app_secret" help:"secret of the app, from the same page"`
	EncryptKey platform.Secret `key:"encrypt_key" help:"key that encrypts and signs events, from Events & Callbacks, Encryption Strategy"`
	Preview    string          `key:"preview" default:"edit" oneof:"edit off" help:"what people see of an unfinished answer: a growing card, or nothing"`

	platform.Settings `key:"" api.default:"https://open.feishu.cn" api.help:"address of the server API; https://open.larksuite.com for Lark" max_media.help:"maximum size of a file; the platform allows 100MB"`
}

// Channel is one app in one organization.
type Channel struct {
	platform.Service
	s       Settings // checked, with defaults
	api     platform.API
	token   accessToken
	known   *lru.Cache[string, knownMessage] // messages that were sent or read, by id; the zero value: deleted
	threads *lru.Cache[string, string]       // thread of a message, which the event of its deletion does not have
	presses sync.Map                         // chan channel.Pressed of requests that wait for an answer, by the id of the event
	bot     atomic.Pointer[identity]
	refused sync.Once // the log has a request that was refused
}

// identity is who the bot is.
type identity struct {
	OpenID string `json:"open_id"`
	Name   string `json:"app_name"`
}

// New returns a channel. It checks the settings, and makes no calls.
func New(s Settings) (*Channel, error) {
	c := &Channel{s: s}
	c.Init(&c.s.Settings, "feishu", DefaultAPI)
	if err := c.s.check(); err != nil {
		return nil, fmt.Errorf("feishu: %w", err)
	}
	c.Files.Fetch = c.fetch
	c.api = platform.API{Platform: "feishu", Client: c.HTTP, Base: c.s.API + "/open-apis/", Read: readAnswer, Fatal: badApp, Fail: c.Fail}
	c.bot.Store(&identity{})
	c.known, _ = lru.New[string, knownMessage](1000) // fails only for a size below 1
	c.threads, _ = lru.New[string, string](10_000)
	c.token.lock = make(chan struct{}, 1)
	return c, nil
}

// check sets defaults and reports what is wrong.
func (s *Settings) check() error {
	s.AppID = strings.TrimSpace(s.AppID)
	for _, secret := range []*platform.Secret{&s.AppSecret, &s.EncryptKey} {
		*secret = platform.Secret(strings.TrimSpace(string(*secret)))
	}
	const page = "the app's page Events & Callbacks, Encryption Strategy"
	switch {
	case s.AppID == "":
		return errors.New("app_id is missing; set it to the App ID of the app's page Credentials & Basic Info")
	case s.AppSecret == "":
		return errors.New("app_secret is missing; set it to the App Secret of the app's page Credentials & Basic Info")
	case s.EncryptKey == "":
		return errors.New("encrypt_key is missing; create one on " + page + ", which encrypts and signs events")
	case len(s.EncryptKey) < platform.MinSecret:
		return fmt.Errorf("the encrypt_key has fewer than %d characters and is easy to guess; create another on %s", platform.MinSecret, page)
	case s.MaxMedia > maxDownload:
		return fmt.Errorf("max_media is %d; expected at most %d bytes, the platform's limit", s.MaxMedia, maxDownload)
	}
	return nil
}

// Check reports whether the channel could start. It changes nothing on the platform. The platform does not say whether it knows the
// address of the webhook.
func (c *Channel) Check(ctx context.Context) error {
	defer c.CloseIdle()
	return c.readIdentity(ctx)
}

// About returns the name of the bot, after [Channel.Check] or while the channel serves.
func (c *Channel) About() string { return c.self().Name }

// self returns what is known of the bot.
func (c *Channel) self() identity { return *c.bot.Load() }

// readIdentity asks the platform for the bot's id.
func (c *Channel) readIdentity(ctx context.Context) error {
	r := platform.Request{Name: "get the bot's id", Method: http.MethodGet, Path: "bot/v3/info"}
	got, err := c.call(ctx, r)
	if err == nil && got.Bot.OpenID == "" {
		err = fmt.Errorf("feishu: %s: %w", r.Name, &platform.Refusal{Kind: noBot, Code: "no open_id"})
	}
	if err == nil {
		c.bot.Store(&got.Bot)
	}
	return err
}

// Serve implements [kernel.Channel].
func (c *Channel) Serve(ctx context.Context, q *kernel.Queue) error {
	return c.Service.Serve(ctx, q, platform.ServiceOptions{
		Run: c.run, Identify: c.readIdentity, Lasting: []*platform.Kind{badApp, wrongServer}, Bot: c.About,
		Sender: kernel.Sender{Send: c.poster(nil).Send, Repeatable: func(_ channel.Outbound, age time.Duration) bool { return age < uuidLife }},
	})
}
