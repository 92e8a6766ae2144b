// Package telegram is the channel of the Bot API: people write to a bot, and an agent answers.
//
// # What it promises
//   - An update is in the journal before the platform is told that it has come, and runs once, whatever is delivered again.
//   - The updates of one conversation and topic start in the order in which they came.
//   - What may have been accepted is not sent a second time; what certainly was not is.
//   - The token is in no error, no log and no address that anybody sees.
//
// # What the library does, and what it does not
//
// Types of updates and parameters of calls are those of github.com/go-telegram/bot. Its poll loop, handlers and calls are not used:
// it moves the offset before anybody has stored an update, drops those that are in its channel when it stops, decodes them away from
// the bytes that the journal keeps, has answers of any size in its errors and memory, and tells a refused connection from an answer
// that never came by nothing. Here that is one call function and one loop.
package telegram

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/attempt"
	"github.com/lingserve/lingserve/channel/media"
	"github.com/lingserve/lingserve/channel/secret"
	"github.com/lingserve/lingserve/channel/service"
	"github.com/lingserve/lingserve/channel/state"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/egress"
)

// How updates come.
const (
	ModePoll    = "poll"
	ModeWebhook = "webhook"
)

// What is shown of an answer before it is finished.
const (
	PreviewEdit  = "edit"  // a message that grows
	PreviewDraft = "draft" // in private chats, a draft that nobody is notified of
	PreviewOff   = "off"
)

// The markup of answers.
const (
	ParseHTML     = "html"
	ParseMarkdown = "markdownv2"
)

// DefaultAPI is the public Bot API server.
const DefaultAPI = "https://api.telegram.org"

// Settings are what the channel itself is told; who may talk is for package channel. Only Token is required.
type Settings struct {
	Name    string // of the channel; "" is telegram
	Account string // of several; "" is the only one
	Token   secret.Text
	API     string // the base of addresses; "" is [DefaultAPI]
	Agent   string // answers where no routes are
	Mode    string // "" is [ModePoll]

	PublicURL string      // of this server, for webhooks: https://…
	Secret    secret.Text // of the webhook; "" is one made from Token, so that all who have it expect the same

	Preview   string // "" is [PreviewEdit]
	ParseMode string // "" is [ParseHTML]

	Commands []Command // of the menu; without them, the platform's is left as it is

	MaxMedia int64  // bytes of one file; 0 is 10 MiB
	Media    string // the folder for files; "" loads none
	Files    string // the folder in which a local Bot API server keeps its files; "" is none
	// State keeps what is known of groups, under the channel's name and account; nil forgets it at the end.
	State state.Store

	Grace    time.Duration // how long turns may go on at the end; 0 is that of [channel.Door]
	Client   *http.Client  // nil is one of its own
	ProxyEnv bool          // with a client of its own: go through the proxy that the environment names
	Log      *slog.Logger  // nil is silent
}

// Channel is one bot.
type Channel struct {
	name, account string
	agent         string
	mode          string
	publicURL     string
	secret        string // of the webhook
	preview       string
	commands      []Command
	parseMode     models.ParseMode
	grace         time.Duration
	log           *slog.Logger
	api           *api
	chats         *chats
	store         media.Store
	files         string // the folder of a local Bot API server, below which its paths are read; "" for none
	closeIdle     func() // of a client of its own
	me            atomic.Pointer[models.User]
	service       service.Service
}

var _ channel.Channel = (*Channel)(nil)

var (
	tokenForm  = regexp.MustCompile(`^[0-9]+:[A-Za-z0-9_-]+$`)
	secretForm = regexp.MustCompile(`^[A-Za-z0-9_-]{16,256}$`)
)

// New checks the settings and returns the channel. It asks nobody yet.
func New(s Settings) (*Channel, error) {
	c := &Channel{
		name: cmp.Or(s.Name, "telegram"), account: s.Account, agent: s.Agent, mode: cmp.Or(s.Mode, ModePoll),
		publicURL: strings.TrimRight(s.PublicURL, "/"), secret: string(s.Secret), preview: cmp.Or(s.Preview, PreviewEdit),
		commands: s.Commands, grace: s.Grace, log: s.Log, files: s.Files,
		store: media.Store{Prefix: "telegram-", Limit: cmp.Or(s.MaxMedia, media.DefaultLimit)},
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	token := strings.TrimSpace(string(s.Token))
	switch {
	case token == "":
		return nil, errors.New("telegram: token is missing; set it to the one that @BotFather shows")
	case !tokenForm.MatchString(token):
		return nil, errors.New("telegram: the token is invalid; expected a number, a colon and letters, as @BotFather shows it")
	}
	base := strings.TrimRight(cmp.Or(s.API, DefaultAPI), "/")
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("telegram: api is not an address; expected one such as " + DefaultAPI)
	}
	switch c.mode {
	case ModePoll:
	case ModeWebhook:
		if u, err := url.Parse(c.publicURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, errors.New("telegram: mode webhook needs public_url; set it to this server's public https address")
		}
		if c.secret == "" {
			c.secret = madeSecret(token)
		}
		if !secretForm.MatchString(c.secret) {
			return nil, errors.New("telegram: the secret of the webhook must have 16 to 256 characters of A-Z, a-z, 0-9, _ and -; use \"openssl rand -hex 32\", or remove the setting to derive one from the token")
		}
	default:
		return nil, fmt.Errorf("telegram: mode is %q; expected %s or %s", c.mode, ModePoll, ModeWebhook)
	}
	switch c.preview {
	case PreviewEdit, PreviewDraft, PreviewOff:
	default:
		return nil, fmt.Errorf("telegram: preview is %q; expected %s, %s or %s", c.preview, PreviewEdit, PreviewDraft, PreviewOff)
	}
	switch cmp.Or(strings.ToLower(s.ParseMode), ParseHTML) {
	case ParseHTML:
		c.parseMode = models.ParseModeHTML
	case ParseMarkdown:
		c.parseMode = models.ParseModeMarkdown
	default:
		return nil, fmt.Errorf("telegram: parse_mode is %q; expected %s or %s", s.ParseMode, ParseHTML, ParseMarkdown)
	}
	if c.store.Limit < 0 || base == DefaultAPI && c.store.Limit > publicMaxMedia {
		return nil, fmt.Errorf("telegram: max_media is %d; expected at most %d bytes, the public server's limit", c.store.Limit, publicMaxMedia)
	}
	var err error
	if s.Media != "" {
		if c.store.Dir, err = filepath.Abs(s.Media); err != nil {
			return nil, fmt.Errorf("telegram: the media folder: %w", err)
		}
	}
	if s.Files != "" && !filepath.IsAbs(s.Files) {
		return nil, errors.New("telegram: files is not an absolute path; expected the folder of the Bot API server's files")
	}
	if c.chats, err = openChats(s.State, c.sender()); err != nil {
		return nil, err
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
	c.api = &api{http: &once, base: base, token: token, lost: c.service.Fail}
	id, _, _ := strings.Cut(token, ":")
	me := &models.User{IsBot: true} // until the platform says more
	_, _ = fmt.Sscan(id, &me.ID)
	c.me.Store(me)
	return c, nil
}

// madeSecret is what nobody knows who has not got the token, and what all replicas of a server expect.
func madeSecret(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("lingserve: the secret of the webhook"))
	return hex.EncodeToString(mac.Sum(nil))
}

// Name implements [channel.Channel].
func (c *Channel) Name() string { return c.name }

// self is what is known of the bot.
func (c *Channel) self() *models.User { return c.me.Load() }

// Ready says why the channel does not work, nil where it does, for whoever asks whether the server is ready (CH-179).
func (c *Channel) Ready() error { return c.service.Ready() }

// Check says whether the channel could start. It changes nothing on the platform.
func (c *Channel) Check(ctx context.Context) error {
	defer c.closeIdle()
	if err := c.whoAmI(ctx); err != nil {
		return err
	}
	var info models.WebhookInfo
	if err := c.api.call(ctx, callTimeout, "getWebhookInfo", nil, &info); err != nil {
		return err
	}
	if c.mode == ModePoll && info.URL != "" {
		return errors.New("telegram: this bot has a webhook, which receives its updates; the server removes it when it starts with mode poll")
	}
	if c.mode == ModeWebhook && info.URL != "" && info.URL != c.webhookURL() {
		return errors.New("telegram: this bot's webhook has another address; the server changes it when it starts with mode webhook")
	}
	return nil
}

// About is what the platform says of the bot, for people: its name, and whether it sees what is not for it in groups (CH-174).
func (c *Channel) About() string {
	me := c.self()
	if me.Username == "" {
		return ""
	}
	if me.CanReadAllGroupMessages {
		return "@" + me.Username + ", sees all messages of its groups"
	}
	return "@" + me.Username + ", in privacy mode: in groups, it sees only commands, mentions and replies to it"
}

// whoAmI asks the platform for the bot's name.
func (c *Channel) whoAmI(ctx context.Context) error {
	me := new(models.User)
	if err := c.api.call(ctx, callTimeout, "getMe", nil, me); err != nil {
		return err
	}
	c.me.Store(me)
	return nil
}

// delivery is how the reply of one turn goes out.
func (c *Channel) delivery(chat, thread string, kind channel.ChatType) channel.Delivery {
	d := &delivery{c: c, chat: chat, thread: thread, kind: kind}
	if c.preview == PreviewOff {
		return d
	}
	return streaming{d}
}

// Serve implements [channel.Channel].
func (c *Channel) Serve(ctx context.Context, k *channel.Kernel) error {
	defer c.closeIdle()
	receive := c.poll
	if c.mode == ModeWebhook {
		receive = func(ctx context.Context, _ *channel.Door) error { return c.listen(ctx) }
	}
	return c.service.Serve(ctx, k, service.Options{
		Door: channel.DoorOptions{
			Channel: c.name, Account: c.account, Grace: c.grace, Log: c.log, Together: true,
			Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
				u, err := Raw(e.Raw)
				if err != nil {
					u = new(Update) // what nobody can read is settled, too
				}
				return channel.Run(ctx, k, c.event(k, u, m))
			},
			Incomplete: c.incomplete,
		},
		Name: c.sender(), Sender: c,
		Receive: receive, Exclusive: c.mode != ModeWebhook,
		Connect: func(ctx context.Context) error {
			if err := c.persist(ctx, "getMe", c.whoAmI); err != nil {
				return err
			}
			c.log.InfoContext(ctx, "channel is connected", "channel", c.name, "bot", c.self().Username, "mode", c.mode)
			c.setMenus(ctx, k)
			return nil
		},
	})
}

// persist makes a call until it works, or until the channel ends or the platform says that it never will.
func (c *Channel) persist(ctx context.Context, what string, call func(context.Context) error) error {
	trouble := &told{log: c.log}
	return attempt.Persist(ctx, call, func(err error) bool { return is(err, badToken, badWebhook) }, judge, func(err error, _ time.Duration) {
		trouble.warn(ctx, "platform answers wrongly; retrying", "channel", c.name, "method", what, "error", err)
	})
}

// incomplete tells a conversation that a crash has cut off an answer (CH-74).
func (c *Channel) incomplete(ctx context.Context, e channel.JournalEntry) error {
	u, err := Raw(e.Raw)
	if err != nil {
		return err
	}
	m, kind, _ := message(u)
	if m == nil || kind != channel.EventMessage {
		return nil
	}
	t := target{chat: c.chats.now(m.Chat.ID)}
	if thread(m) != "" {
		t.thread = m.MessageThreadID
	}
	if chatKind(&m.Chat) == channel.Group {
		t.reply = m.ID
	}
	_, err = c.send(ctx, &t, chunk{marked: channel.IncompleteNotice})
	return err
}

// poll asks for updates until ctx ends. The offset, which tells the platform that it may forget an update, is moved when the update
// is in the journal (CH-170).
func (c *Channel) poll(ctx context.Context, door *channel.Door) error {
	err := c.persist(ctx, "deleteWebhook", func(ctx context.Context) error { // what is pending stays
		return c.api.call(ctx, callTimeout, "deleteWebhook", &bot.DeleteWebhookParams{}, nil)
	})
	if err != nil {
		return err
	}
	var offset, asked int64 // what is next, and what the platform was told of that
	pauses := backoff.New(attempt.FirstPause, attempt.MaxPause)
	trouble := &told{log: c.log}
	for ctx.Err() == nil {
		var updates []rawUpdate
		asked = offset
		begin := time.Now()
		err := c.api.call(ctx, pollTimeout+15*time.Second, "getUpdates", &getUpdates{
			Offset: offset, Timeout: int(pollTimeout / time.Second), AllowedUpdates: allowed,
		}, &updates)
		come := err == nil
		if come {
			offset, err = c.accept(ctx, door, updates, offset)
		}
		wait := pauses.NextBackOff()
		switch {
		case ctx.Err() != nil:
		case err == nil:
			pauses.Reset()
			wait = attempt.FirstPause
			trouble.over(ctx, "updates come again", "channel", c.name)
			if len(updates) == 0 {
				// All before the offset is forgotten by now. After a quiet week ids begin anywhere, also below it.
				offset, asked = 0, 0
			}
			if len(updates) > 0 || time.Since(begin) > attempt.FirstPause {
				continue
			} // else the server does not wait for updates, as it was asked to
		case come: // there is no room, or no disk; it may be over in a moment
			trouble.warn(ctx, "cannot store updates; asking again", "channel", c.name, "error", err)
			wait = min(wait, 2*time.Second)
		case is(err, badToken):
			return err
		case is(err, otherWebhook): // somebody has set one since
			if err := c.api.call(ctx, callTimeout, "deleteWebhook", &bot.DeleteWebhookParams{}, nil); err == nil {
				c.log.WarnContext(ctx, "removed this bot's webhook", "channel", c.name)
			}
		case is(err, conflict):
			trouble.warn(ctx, "another program reads this bot's updates; stop it, or use another bot", "channel", c.name)
			wait = max(wait, 2*time.Second)
		default:
			trouble.warn(ctx, "cannot read updates; retrying", "channel", c.name, "error", err)
		}
		if e, ok := errors.AsType[*Error](err); ok {
			wait = max(wait, e.RetryAfter)
		}
		if backoff.Sleep(ctx, wait) != nil {
			break
		}
	}
	if offset != asked {
		// What is in the journal need not come once more at the next start.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = c.api.call(last, 5*time.Second, "getUpdates", &getUpdates{Offset: offset, Limit: 1, AllowedUpdates: allowed}, nil)
	}
	return context.Cause(ctx)
}

// pollTimeout is how long the platform waits for an update before it says that there is none (CH-170).
const pollTimeout = 50 * time.Second

// troubleEvery is how seldom the log says that something still does not work.
const troubleEvery = 10 * time.Minute

// told says in the log that something does not work, now and then, and when it works again.
type told struct {
	log *slog.Logger
	at  time.Time // when it was said; zero while all is well
}

func (t *told) warn(ctx context.Context, what string, attrs ...any) {
	if now := time.Now(); t.at.IsZero() || now.Sub(t.at) >= troubleEvery {
		t.at = now
		t.log.WarnContext(ctx, what, attrs...)
	}
}

func (t *told) over(ctx context.Context, what string, attrs ...any) {
	if !t.at.IsZero() {
		t.at = time.Time{}
		t.log.InfoContext(ctx, what, attrs...)
	}
}

// getUpdates is the call. (The library keeps its own to itself.)
type getUpdates struct {
	Offset         int64    `json:"offset,omitempty"`
	Limit          int      `json:"limit,omitempty"`
	Timeout        int      `json:"timeout,omitempty"`
	AllowedUpdates []string `json:"allowed_updates"`
}
