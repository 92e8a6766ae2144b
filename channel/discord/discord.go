// Package discord is the channel of a Discord bot: people write to it in direct messages, channels and threads, and an agent answers.
//
// # Guarantees
//   - A message is stored, and runs once, however often it comes. If it cannot be stored, it waits in memory, and those behind it wait, too.
//   - Messages that were written while the server was away are fetched, in conversations that the agent takes part in.
//   - What may have been sent is not sent a second time. Messages have a nonce, by which the platform ignores copies for some minutes.
//   - An answer notifies at most the person who is answered.
//   - The token is in no error and no log.
package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
)

// What is shown of an answer before it is finished.
const (
	PreviewEdit = "edit" // a message that grows
	PreviewOff  = "off"
)

// DefaultAPI is the public REST API. The version of the API is no part of it.
const DefaultAPI = "https://discord.com/api"

// Settings are those of the channel itself; who may talk is for package channel. Only Token is required. Package config checks choices and addresses.
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
	s         Settings
	log       *slog.Logger
	api       *api
	closeIdle func()
	media     *platform.MediaStore
	service   platform.Service
	self      atomic.Pointer[profile]
}

var _ kernel.Channel = (*Channel)(nil)

// profile describes the bot on the platform.
type profile struct {
	ID, Username, Application string
	readsMessages             bool // also those that do not mention it
}

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_=-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// New checks the settings and returns the channel. It makes no call.
func New(s Settings) (*Channel, error) {
	s.Name, s.Preview = cmp.Or(s.Name, "discord"), cmp.Or(s.Preview, PreviewEdit)
	token := strings.TrimPrefix(strings.TrimSpace(string(s.Token)), "Bot ")
	if token == "" {
		return nil, errors.New("discord: token is missing; set it to the one on the page Bot of the application")
	}
	if !tokenForm.MatchString(token) {
		return nil, errors.New("discord: the token is invalid; expected three parts with dots between them, as the page Bot of the application shows it")
	}
	media, err := platform.OpenMedia(s.Media, "discord-", s.MaxMedia)
	if err != nil {
		return nil, fmt.Errorf("discord: %w", err)
	}
	c := &Channel{s: s, log: cmp.Or(s.Log, slog.New(slog.DiscardHandler)).With("channel", s.Name), media: media}
	c.api = &api{base: strings.TrimRight(cmp.Or(s.API, DefaultAPI), "/"), token: token, lost: c.service.Fail}
	c.api.client, c.closeIdle = platform.NewClient(s.Client, s.ProxyEnv)
	c.media.Log = c.log
	c.media.Fetch = func(ctx context.Context, a platform.Attachment, w io.Writer) error { // addresses are signed, so that they need no token
		return platform.Download(ctx, c.api.client, a.Source, w)
	}
	c.self.Store(new(profile)) // until the platform says who the bot is
	return c, nil
}

// Name implements [kernel.Channel].
func (c *Channel) Name() string { return c.s.Name }

// Ready returns why the channel does not work, or nil.
func (c *Channel) Ready() error { return c.service.Ready() }

// Check returns why the channel could not start. It changes nothing on the platform.
func (c *Channel) Check(ctx context.Context) error {
	defer c.closeIdle()
	if err := c.whoAmI(ctx); err != nil {
		return err
	}
	if !c.self.Load().readsMessages {
		return fatal[disallowedIntents]
	}
	_, err := c.gatewayAddress(ctx)
	return err
}

// About describes the bot for people.
func (c *Channel) About() string {
	if me := c.self.Load(); me.Username != "" {
		return "@" + me.Username
	}
	return ""
}

// contentFlags are those of applications that may read messages: large ones and small ones.
const contentFlags = 1<<18 | 1<<19

// whoAmI asks the platform who the bot is.
func (c *Channel) whoAmI(ctx context.Context) error {
	var app struct {
		ID    string         `json:"id"`
		Flags int            `json:"flags"`
		Bot   discordgo.User `json:"bot"`
	}
	if err := c.api.once(ctx, request{what: "ask for the bot", method: http.MethodGet, path: "/applications/@me", out: &app}); err != nil {
		return err
	}
	c.self.Store(&profile{ID: app.Bot.ID, Username: app.Bot.Username, Application: app.ID, readsMessages: app.Flags&contentFlags != 0})
	return nil
}

// copiesIgnored is how long the platform ignores copies of a message with a nonce: some minutes, as it says. Answers to interactions, which have none, are
// not kept by the outbox.
const copiesIgnored = 2 * time.Minute

// Serve implements [kernel.Channel].
func (c *Channel) Serve(ctx context.Context, q *kernel.Queue) error {
	defer c.closeIdle()
	sender := kernel.Sender{
		Send:       func(ctx context.Context, m channel.Outbound) (channel.Receipt, error) { return c.deliver(ctx, m.Block) },
		Repeatable: func(_ channel.Outbound, age time.Duration) bool { return age < copiesIgnored },
	}
	return c.service.Serve(ctx, q, platform.ServiceOptions{
		Handler: kernel.Handler{
			Channel: c.s.Name, Account: c.s.Account, Grace: c.s.Grace, Sender: sender,
		},
		Run: c.run, Agent: c.s.Agent, Media: c.media,
		Connect: func(ctx context.Context) error {
			if err := platform.Persist(ctx, c.log, "cannot ask the platform for the bot; retrying", c.whoAmI, badToken); err != nil {
				return err
			}
			c.log.InfoContext(ctx, "channel is connected", "bot", c.self.Load().Username)
			c.registerCommands(ctx, q.Kernel())
			return nil
		},
		Receive: c.receive, Exclusive: true, Log: c.s.Log,
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

// registerCommands makes the commands of the server those of the application, if anyone may give commands. The channel works without them, so a failure is
// a warning.
func (c *Channel) registerCommands(ctx context.Context, k *kernel.Kernel) {
	q := channel.PolicyQuery{Channel: c.s.Name, Account: c.s.Account, Kind: channel.Direct}
	if len(c.s.Commands) == 0 || k.Settings == nil || k.Settings.Policy(q).CommandMode == channel.CommandsOff {
		return
	}
	var list []discordgo.ApplicationCommand
	for _, command := range c.s.Commands[:min(len(c.s.Commands), maxCommands)] {
		help := append(markup.Cut(command.Help, maxDescription, markup.UTF16), command.Name)[0]
		list = append(list, discordgo.ApplicationCommand{
			Type: discordgo.ChatApplicationCommand, Name: strings.ReplaceAll(command.Name, ".", "_"), Description: help,
			Options: []*discordgo.ApplicationCommandOption{{Type: discordgo.ApplicationCommandOptionString, Name: "arguments", Description: "what follows the command"}},
		})
	}
	path := "/applications/" + c.self.Load().Application + "/commands"
	err := c.api.do(ctx, request{what: "register the commands", method: http.MethodPut, path: path, in: list, out: new(json.RawMessage), harmless: true})
	if err != nil {
		c.log.WarnContext(ctx, "cannot register the commands", "error", err)
	}
}
