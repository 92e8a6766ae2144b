// Package discord is the channel of a Discord bot: people write to it in direct messages, channels and threads, and an agent answers.
//
// # Guarantees
//   - A message is stored before the next one is read from the gateway, and runs once, however often it comes.
//   - Messages that were written while the server was away are fetched, in conversations that the agent takes part in.
//   - What may have been sent is not sent a second time. Messages have a nonce, by which the platform finds a repetition within some minutes.
//   - An answer notifies nobody but the person who is answered.
//   - The token is in no error and no log.
package discord

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/egress"
)

// What is shown of an answer before it is finished.
const (
	PreviewEdit = "edit" // a message that grows
	PreviewOff  = "off"
)

// DefaultAPI is the public REST API. The version of the API is no part of it.
const DefaultAPI = "https://discord.com/api"

// Settings are those of the channel itself; who may talk is for package channel. Only Token is required.
type Settings struct {
	Name     string // of the channel; "" is discord
	Account  string // of several; "" is the only one
	Token    platform.Secret
	API      string // "" is [DefaultAPI]; it also says where the gateway is
	Agent    string // answers if there are no routes
	Preview  string // "" is [PreviewEdit]
	Commands []Command
	MaxMedia int64  // bytes of one file; 0 is 10 MiB
	Media    string // the folder for files; "" loads none
	// State keeps how far each conversation was read; nil forgets it at the end.
	State platform.State

	Grace    time.Duration // how long turns may go on at the end; 0 is that of [kernel.Handler]
	Client   *http.Client  // nil: the channel makes one. The gateway is reached as its [http.Transport] reaches servers.
	ProxyEnv bool          // without a Client: go through the proxy that the environment names
	Log      *slog.Logger  // nil is silent
}

// Channel is one bot.
type Channel struct {
	name, account string
	agent         string
	preview       string
	commands      []Command
	grace         time.Duration
	transport     *http.Transport // that connections to the gateway are like
	log           *slog.Logger
	api           *api
	state         platform.State
	store         platform.MediaStore
	closeIdle     func() // of a client that the channel has made
	me            atomic.Pointer[profile]
	places        *places
	answering     sync.Map // interactions that are being acknowledged: by token, a channel that is closed then
	service       platform.Service
}

var _ kernel.Channel = (*Channel)(nil)

// profile is what the platform says of the bot and its application.
type profile struct {
	ID, Username string
	Application  string
	ReadsContent bool // of messages that do not mention it
}

var (
	tokenForm    = regexp.MustCompile(`^[A-Za-z0-9_=-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)
	errNoAddress = errors.New("discord: api is not an address; expected one such as " + DefaultAPI)
)

// New checks the settings and returns the channel. It makes no call.
func New(s Settings) (*Channel, error) {
	c := &Channel{
		name: cmp.Or(s.Name, "discord"), account: s.Account, agent: s.Agent, preview: cmp.Or(s.Preview, PreviewEdit), commands: s.Commands,
		grace: s.Grace, log: s.Log, state: s.State,
		store: platform.MediaStore{Prefix: "discord-", Limit: cmp.Or(s.MaxMedia, platform.DefaultMaxMedia)},
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	token := strings.TrimPrefix(strings.TrimSpace(string(s.Token)), "Bot ")
	base := strings.TrimRight(cmp.Or(s.API, DefaultAPI), "/")
	u, err := url.Parse(base)
	switch {
	case token == "":
		return nil, errors.New("discord: token is missing; set it to the one on the page Bot of the application")
	case !tokenForm.MatchString(token):
		return nil, errors.New("discord: the token is invalid; expected three parts with dots between them, as the page Bot of the application shows it")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "":
		return nil, errNoAddress
	case c.preview != PreviewEdit && c.preview != PreviewOff:
		return nil, fmt.Errorf("discord: preview is %q; expected %s or %s", c.preview, PreviewEdit, PreviewOff)
	case c.store.Limit < 0:
		return nil, fmt.Errorf("discord: max_media is %d; expected a size", c.store.Limit)
	}
	if s.Media != "" {
		if c.store.Dir, err = filepath.Abs(s.Media); err != nil {
			return nil, fmt.Errorf("discord: the media folder: %w", err)
		}
	}
	client := s.Client
	c.closeIdle, c.transport = func() {}, egress.NewTransport(s.ProxyEnv)
	if client == nil {
		c.transport.MaxIdleConnsPerHost = 16 // calls of as many turns at a time
		client, c.closeIdle = &http.Client{Transport: c.transport}, c.transport.CloseIdleConnections
	} else if t, ok := client.Transport.(*http.Transport); ok {
		c.transport = t
	}
	noRedirects := *client
	noRedirects.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.api = &api{http: &noRedirects, base: base, token: token, lost: c.service.Fail}
	c.places = newPlaces(c.api)
	id, _, _ := strings.Cut(token, ".")
	decoded, _ := base64.RawStdEncoding.DecodeString(strings.TrimRight(id, "="))
	c.me.Store(&profile{ID: string(decoded)}) // until the platform says more
	return c, nil
}

// Name implements [kernel.Channel].
func (c *Channel) Name() string { return c.name }

// Ready returns why the channel does not work, or nil.
func (c *Channel) Ready() error { return c.service.Ready() }

// Check returns why the channel could not start. It changes nothing on the platform.
func (c *Channel) Check(ctx context.Context) error {
	defer c.closeIdle()
	if err := c.whoAmI(ctx); err != nil {
		return err
	}
	if !c.me.Load().ReadsContent {
		return errNoContent
	}
	_, err := c.gatewayAddress(ctx)
	return err
}

// About describes the bot for people.
func (c *Channel) About() string {
	if me := c.me.Load(); me.Username != "" {
		return "@" + me.Username
	}
	return ""
}

// Flags of an application that may read what messages say.
const contentFlags = 1<<18 | 1<<19

// whoAmI asks the platform who the bot is.
func (c *Channel) whoAmI(ctx context.Context) error {
	var user discordgo.User
	var app struct {
		ID    string `json:"id"`
		Flags int    `json:"flags"`
	}
	if err := c.api.once(ctx, &request{what: "ask for the bot", method: http.MethodGet, path: "/users/@me", out: &user}); err != nil {
		return err
	}
	if err := c.api.once(ctx, &request{what: "ask for the application", method: http.MethodGet, path: "/applications/@me", out: &app}); err != nil {
		return err
	}
	c.me.Store(&profile{ID: user.ID, Username: user.Username, Application: app.ID, ReadsContent: app.Flags&contentFlags != 0})
	return nil
}

// Serve implements [kernel.Channel].
func (c *Channel) Serve(ctx context.Context, q *kernel.Queue) error {
	defer c.closeIdle()
	return c.service.Serve(ctx, q, platform.ServiceOptions{
		Handler: kernel.Handler{
			Channel: c.name, Account: c.account, Grace: c.grace,
			Sender: kernel.Sender{
				Send: func(ctx context.Context, m channel.Outbound) (channel.Receipt, error) {
					return c.deliver(ctx, &m.Block)
				},
				Reconcile: c.reconcile,
			},
			Run: func(ctx context.Context, e *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
				a := &adapter{c: c, k: q.Kernel()}
				return kernel.Run(ctx, q.Kernel(), m, e.Raws(), &kernel.Adapter[[][]byte]{
					Ingest: a.ingest, Classify: a.classify, Preflight: a.preflight, Resolve: a.resolve, Finalize: a.finalize,
				})
			},
		},
		Connect: func(ctx context.Context) error {
			if err := c.persist(ctx, "cannot ask the platform for the bot; retrying", c.whoAmI); err != nil {
				return err
			}
			c.log.InfoContext(ctx, "channel is connected", "channel", c.name, "bot", c.me.Load().Username)
			c.registerCommands(ctx, q.Kernel())
			return nil
		},
		Receive: c.receive, Exclusive: true, Log: c.log,
	})
}

// persist makes a call until it works, the channel ends, or the token is invalid.
func (c *Channel) persist(ctx context.Context, warning string, call func(context.Context) error) error {
	return platform.Persist(ctx, call, func(err error) bool { return is(err, badToken) }, judge, func(err error, wait time.Duration) {
		c.log.WarnContext(ctx, warning, "channel", c.name, "error", err, "pause", wait)
	})
}

// Command is a command of the server, which becomes one of the application: people see it when they type a slash.
type Command struct {
	Name string // such as tape.info
	Help string
}

const (
	maxCommands    = 100 // of an application
	maxDescription = 100 // characters
)

// registerCommands makes the commands of the server those of the application, unless nobody may give commands. The channel works without them, so a
// failure is a warning.
func (c *Channel) registerCommands(ctx context.Context, k *kernel.Kernel) {
	if len(c.commands) == 0 || k.Settings == nil ||
		k.Settings.Policy(channel.PolicyQuery{Channel: c.name, Account: c.account, Kind: channel.Direct}).CommandMode == channel.CommandsOff {
		return
	}
	list := []discordgo.ApplicationCommand{}
	for _, command := range c.commands[:min(len(c.commands), maxCommands)] {
		list = append(list, discordgo.ApplicationCommand{
			Type: discordgo.ChatApplicationCommand, Name: strings.ReplaceAll(command.Name, ".", "_"), Description: head(command.Help, maxDescription),
			Options: []*discordgo.ApplicationCommandOption{{Type: discordgo.ApplicationCommandOptionString, Name: "arguments", Description: "what follows the command"}},
		})
	}
	err := c.api.do(ctx, request{
		what: "register commands", method: http.MethodPut, path: "/applications/" + c.me.Load().Application + "/commands", in: list, out: new(json.RawMessage), harmless: true,
	})
	if err != nil {
		c.log.WarnContext(ctx, "cannot register the commands", "channel", c.name, "error", err)
	}
}
