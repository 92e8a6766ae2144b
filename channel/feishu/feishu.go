// Package feishu is the channel of Feishu and Lark: event subscriptions over HTTP tell what people write, the server API takes the
// answers, as cards that grow while they are written.
//
// # What it promises
//   - An event is in the journal before the platform is told that it has come, which is within the 3 s that it waits, however long
//     the agent takes; it runs once, whatever is delivered again.
//   - Who knows neither the encrypt key nor the verification token learns nothing but that, however a body is wrong.
//   - What may have been accepted is sent again only with the uuid of the first attempt and within the hour in which the platform
//     honours it; what certainly was not accepted is.
//   - What a model writes mentions nobody, is no markup that it does not look like, and links to nothing but http and https.
//   - The app's secret is in no error, no log and no address.
//
// There is no library for this in the build: the calls that are needed are a dozen.
package feishu

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
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/attempt"
	"github.com/lingserve/lingserve/channel/media"
	"github.com/lingserve/lingserve/channel/secret"
	"github.com/lingserve/lingserve/channel/service"
	"github.com/lingserve/lingserve/internal/egress"
)

// What is shown of an answer before it is finished.
const (
	PreviewEdit = "edit" // a card that grows
	PreviewOff  = "off"
)

// How answers are written.
const (
	FormatCard = "card" // with markup
	FormatText = "text" // plain; it cannot grow
)

// The addresses of the two platforms.
const (
	DefaultAPI = "https://open.feishu.cn"
	LarkAPI    = "https://open.larksuite.com"
)

// Settings are what the channel itself is told; who may talk is for package channel. AppID, AppSecret and one of EncryptKey and
// VerificationToken are required.
type Settings struct {
	Name    string // of the channel; "" is feishu
	Account string // of several; "" is the only one

	AppID             string // cli_…
	AppSecret         secret.Text
	EncryptKey        secret.Text // of events; "" where they are not encrypted
	VerificationToken secret.Text // of events; "" checks none
	API               string      // the base of addresses; "" is [DefaultAPI]
	Agent             string      // answers where no routes are

	Preview string // "" is [PreviewEdit]
	Format  string // "" is [FormatCard]

	MaxMedia int64  // bytes of one file; 0 is 10 MiB
	Media    string // the folder for files; "" loads none

	Grace    time.Duration // how long turns may go on at the end; 0 is that of [channel.Door]
	Client   *http.Client  // nil is one of its own
	ProxyEnv bool          // with a client of its own: go through the proxy that the environment names
	Log      *slog.Logger  // nil is silent
}

// Channel is one app in one organization.
type Channel struct {
	name, account string
	agent         string
	seal          *seal  // nil where events are not encrypted
	verification  string // "" checks none
	preview       string
	format        string
	grace         time.Duration
	log           *slog.Logger
	api           *api
	store         media.Store
	threads       *lru.Cache[string, string]    // of messages: their topics. What recalls a message does not say in which it was
	looked        *lru.Cache[string, *found]    // messages that were asked for
	first         *lru.Cache[string, time.Time] // when the first attempt to send a block began
	presses       presses                       // that wait for their answers
	me            atomic.Pointer[identity]
	refused       atomic.Int64 // when the log last said that a request was, in seconds
	closeIdle     func()       // of a client of its own
	service       service.Service
}

// identity is who the bot is.
type identity struct {
	OpenID string `json:"open_id"`
	Name   string `json:"app_name"`
	Status int    `json:"activate_status"` // 2 is active
}

var _ channel.Channel = (*Channel)(nil)

var appForm = regexp.MustCompile(`^cli_[A-Za-z0-9]+$`)

// Bounds of what is remembered.
const (
	maxThreads = 10_000
	maxLooked  = 1_000
	maxFirst   = 10_000
)

// New checks the settings and returns the channel. It asks nobody yet.
func New(s Settings) (*Channel, error) {
	c := &Channel{
		name: cmp.Or(s.Name, "feishu"), account: s.Account, agent: s.Agent, verification: strings.TrimSpace(string(s.VerificationToken)),
		preview: cmp.Or(s.Preview, PreviewEdit), format: cmp.Or(s.Format, FormatCard), grace: s.Grace, log: s.Log,
		store:   media.Store{Prefix: "feishu-", Limit: cmp.Or(s.MaxMedia, media.DefaultLimit)},
		threads: newCache[string](maxThreads), looked: newCache[*found](maxLooked), first: newCache[time.Time](maxFirst),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	app, appSecret := strings.TrimSpace(s.AppID), strings.TrimSpace(string(s.AppSecret))
	switch {
	case app == "":
		return nil, errors.New("feishu: app_id is missing; set it to the App ID of the app's page Credentials & Basic Info")
	case !appForm.MatchString(app):
		return nil, errors.New("feishu: app_id is invalid; expected cli_ and letters, as the app's page Credentials & Basic Info shows it")
	case appSecret == "":
		return nil, errors.New("feishu: app_secret is missing; set it to the App Secret of the app's page Credentials & Basic Info")
	case strings.ContainsAny(appSecret, " \t\r\n"):
		return nil, errors.New("feishu: the app_secret contains white space; expected only the App Secret")
	}
	key := strings.TrimSpace(string(s.EncryptKey))
	switch {
	case key != "" && len(key) < secret.MinLength:
		return nil, fmt.Errorf("feishu: the encrypt_key has fewer than %d characters and is easy to guess; create another on the app's page Events & Callbacks, Encryption Strategy", secret.MinLength)
	case c.verification != "" && len(c.verification) < secret.MinLength:
		return nil, fmt.Errorf("feishu: the verification_token has fewer than %d characters; expected the one that the app's page Events & Callbacks, Encryption Strategy shows", secret.MinLength)
	case key != "":
		c.seal = newSeal(key)
	}
	if c.seal == nil && c.verification == "" {
		return nil, errors.New("feishu: encrypt_key or verification_token is required to check that events are genuine; set the one from the app's page Events & Callbacks, Encryption Strategy")
	}
	base := strings.TrimRight(cmp.Or(s.API, DefaultAPI), "/")
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("feishu: api is not an address; expected " + DefaultAPI + " or " + LarkAPI)
	}
	switch c.preview {
	case PreviewEdit, PreviewOff:
	default:
		return nil, fmt.Errorf("feishu: preview is %q; expected %s or %s", c.preview, PreviewEdit, PreviewOff)
	}
	switch c.format {
	case FormatCard:
	case FormatText:
		c.preview = PreviewOff // a text can be changed a few times only
	default:
		return nil, fmt.Errorf("feishu: format is %q; expected %s or %s", c.format, FormatCard, FormatText)
	}
	if c.store.Limit < 0 || c.store.Limit > platformMaxMedia {
		return nil, fmt.Errorf("feishu: max_media is %d; expected at most %d bytes, the platform's limit", c.store.Limit, platformMaxMedia)
	}
	var err error
	if s.Media != "" {
		if c.store.Dir, err = filepath.Abs(s.Media); err != nil {
			return nil, fmt.Errorf("feishu: the media folder: %w", err)
		}
	}
	client := s.Client
	c.closeIdle = func() {}
	if client == nil {
		own := egress.NewTransport(s.ProxyEnv)
		own.MaxIdleConnsPerHost = 16 // calls of as many turns at a time
		client, c.closeIdle = &http.Client{Transport: own}, own.CloseIdleConnections
	}
	once := *client // its redirects are not ours to change
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.api = &api{http: &once, base: base, app: app, secret: appSecret, lost: c.service.Fail, one: make(chan struct{}, 1)}
	return c, nil
}

// Name implements [channel.Channel].
func (c *Channel) Name() string { return c.name }

// self is what is known of the bot.
func (c *Channel) self() identity {
	if me := c.me.Load(); me != nil {
		return *me
	}
	return identity{}
}

// Ready says why the channel does not work, nil where it does, for whoever asks whether the server is ready (CH-179).
func (c *Channel) Ready() error { return c.service.Ready() }

// Check says whether the channel could start. It changes nothing on the platform. Whether the platform knows this server's address
// cannot be asked for.
func (c *Channel) Check(ctx context.Context) error {
	defer c.closeIdle()
	return c.whoAmI(ctx)
}

// About is what the platform says of the bot, for people.
func (c *Channel) About() string { return c.self().Name }

// whoAmI asks the platform for the bot's id.
func (c *Channel) whoAmI(ctx context.Context) error {
	var got struct {
		Bot identity `json:"bot"`
	}
	err := c.api.call(ctx, request{what: "get the bot's id", method: http.MethodGet, path: "bot/v3/info", out: &got})
	if err != nil {
		return err
	}
	if got.Bot.OpenID == "" {
		return &Error{What: "get the bot's id", Status: http.StatusOK, kind: noBot}
	}
	c.me.Store(&got.Bot)
	return nil
}

// delivery is how the reply to a message goes out.
func (c *Channel) delivery(m *message) channel.Delivery {
	d := &delivery{c: c, chat: m.Chat, answers: m}
	if c.preview == PreviewOff {
		return d
	}
	return streaming{d}
}

// Serve implements [channel.Channel].
func (c *Channel) Serve(ctx context.Context, k *channel.Kernel) error {
	defer c.closeIdle()
	return c.service.Serve(ctx, k, service.Options{
		Door: channel.DoorOptions{
			Channel: c.name, Account: c.account, Grace: c.grace, Log: c.log, Together: true,
			Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
				return channel.Run(ctx, k, c.event(k, accepted(e), m))
			},
			Incomplete: c.incomplete, Clear: c.clear,
		},
		Name: c.sender(), Sender: c,
		Connect: func(ctx context.Context) error {
			if err := c.persist(ctx); err != nil {
				return err
			}
			c.log.InfoContext(ctx, "channel is connected", "channel", c.name, "bot", c.self().Name)
			return nil
		},
	})
}

// accepted is an event of the journal. What nobody can read is settled, too.
func accepted(entry channel.JournalEntry) *Event {
	e, err := Raw(entry.Raw)
	if err != nil {
		return &Event{ID: entry.Key.ID}
	}
	e.edit = strings.HasPrefix(entry.Key.ID, "edit:")
	return e
}

// persist asks for the bot's id until it is known, or until the channel ends or the platform says that there is none.
func (c *Channel) persist(ctx context.Context) error {
	return attempt.Persist(ctx, c.whoAmI, func(err error) bool { return is(err, badApp, wrongPlace) }, judge, func(err error, pause time.Duration) {
		c.log.WarnContext(ctx, "platform answers wrongly; retrying", "channel", c.name, "error", err, "pause", pause)
	})
}

// incomplete tells a conversation that a crash has cut off an answer (CH-74).
func (c *Channel) incomplete(ctx context.Context, entry channel.JournalEntry) error {
	e := accepted(entry)
	if kind, _ := e.kind(); kind != channel.EventMessage {
		return nil
	}
	t := target{chat: e.message.Chat}
	if e.message.Thread != "" || e.message.chatKind() == channel.Group {
		t.reply, t.topic = e.message.ID, e.message.Thread != ""
	}
	t.uuid = uuid("incomplete:"+e.message.ID, 0)
	_, err := c.post(ctx, &t, body{text: channel.IncompleteNotice})
	return err
}

// newCache remembers what was noted last, and nothing else. Looking up with Peek keeps nothing alive.
func newCache[V any](size int) *lru.Cache[string, V] {
	c, _ := lru.New[string, V](size) // it fails for a size below 1 only
	return c
}
