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
	"context"
	"encoding/json"
	"errors"
	"io"
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

// DefaultAPI is the public REST API. The version of the API is no part of it.
const DefaultAPI = "https://discord.com/api"

// Settings are for [New]. Only Token is required. API also says where the gateway is, and Client how it is reached. State keeps how far each conversation
// was read.
type Settings struct {
	Token    platform.Secret `key:"token" help:"token of the bot, from the page Bot of the application"`
	Preview  string          `key:"preview" default:"edit" oneof:"edit off" help:"what people see of an unfinished answer: a growing message, or nothing"`
	Menu     string          `key:"menu" default:"commands" oneof:"commands off" help:"application commands behind the slash: the server's commands, or those that the application has"`
	Commands []platform.Command

	platform.Settings `key:"" api.default:"https://discord.com/api" api.help:"address of the REST API, without its version; the API says where the gateway is"`
}

// Channel is one bot.
type Channel struct {
	platform.Service
	s    Settings
	api  platform.API
	self atomic.Pointer[profile]
}

var _ kernel.Channel = (*Channel)(nil)

// profile is the application of the bot.
type profile struct {
	ID    string         `json:"id"`
	Flags int            `json:"flags"`
	Bot   discordgo.User `json:"bot"`
}

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_=-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// New checks the settings and returns the channel. It makes no call.
func New(s Settings) (*Channel, error) {
	token := strings.TrimPrefix(strings.TrimSpace(string(s.Token)), "Bot ")
	if token == "" {
		return nil, errors.New("discord: token is missing; set it to the one on the page Bot of the application")
	}
	if !tokenForm.MatchString(token) {
		return nil, errors.New("discord: the token is invalid; expected three parts with dots between them, as the page Bot of the application shows it")
	}
	c := &Channel{s: s}
	c.Init(&c.s.Settings, "discord", DefaultAPI)
	c.s.Token = platform.Secret(token)
	// The library's calls are not used: they wait for rate limits where nothing can cancel them, and their errors repeat what was sent. The
	// platform asks for this form of the User-Agent.
	c.api = platform.API{
		Platform: "discord", Client: c.HTTP, Base: c.s.API + "/v10", Read: readAnswer, Fatal: badToken, Fail: c.Fail,
		Header: http.Header{"Authorization": {"Bot " + token}, "User-Agent": {"DiscordBot (https://github.com/lingserve/lingserve, 1)"}},
	}
	c.Files.Fetch = func(ctx context.Context, a platform.Attachment, w io.Writer) error { // addresses are signed, so that they need no token
		return platform.Download(ctx, c.HTTP, a.Source, w)
	}
	c.self.Store(new(profile)) // until the platform says who the bot is
	return c, nil
}

// Check returns why the channel could not start. It changes nothing on the platform.
func (c *Channel) Check(ctx context.Context) error {
	defer c.CloseIdle()
	if err := c.whoAmI(ctx); err != nil {
		return err
	}
	if c.self.Load().Flags&contentFlags == 0 {
		return errors.New("discord: " + noIntent.Text)
	}
	return nil
}

// About describes the bot for people.
func (c *Channel) About() string {
	if me := c.self.Load(); me.ID != "" {
		return "@" + me.Bot.Username
	}
	return ""
}

// contentFlags are those of applications that may read messages: large ones and small ones.
const contentFlags = 1<<18 | 1<<19

// whoAmI asks the platform who the bot is.
func (c *Channel) whoAmI(ctx context.Context) error {
	me := new(profile)
	err := c.api.Attempt(ctx, platform.Request{Name: "ask for the bot", Method: http.MethodGet, Path: "/applications/@me", Out: me})
	if err == nil {
		c.self.Store(me)
	}
	return err
}

// copiesIgnored is how long the platform ignores copies of a message with a nonce: some minutes, as it says. Answers to interactions, which have none, are
// not kept by the outbox.
const copiesIgnored = 2 * time.Minute

// Serve implements [kernel.Channel].
func (c *Channel) Serve(ctx context.Context, q *kernel.Queue) error {
	return c.Service.Serve(ctx, q, platform.ServiceOptions{
		Run:      c.run,
		Sender:   kernel.Sender{Send: c.poster().Send, Repeatable: func(_ channel.Outbound, age time.Duration) bool { return age < copiesIgnored }},
		Identify: c.whoAmI, Lasting: []*platform.Kind{badToken}, Bot: c.About, Started: c.registerCommands,
		Receive: c.receive, Exclusive: true,
	})
}

const (
	maxCommands    = 100 // of an application
	maxDescription = 100 // characters
)

// registerCommands makes the commands of the server those of the application, if anyone may give commands. The channel works without them, so a failure is
// a warning.
func (c *Channel) registerCommands(ctx context.Context, k *kernel.Kernel) {
	if _, ok := c.CommandPolicy(k); !ok || len(c.s.Commands) == 0 || c.s.Menu == "off" {
		return
	}
	var list []discordgo.ApplicationCommand
	for _, command := range c.s.Commands[:min(len(c.s.Commands), maxCommands)] {
		help := append(markup.Cut(command.Help, maxDescription, markup.UTF16), command.Name)[0]
		list = append(list, discordgo.ApplicationCommand{
			Type: discordgo.ChatApplicationCommand, Name: command.SlashName(), Description: help,
			Options: []*discordgo.ApplicationCommandOption{{Type: discordgo.ApplicationCommandOptionString, Name: "arguments", Description: "what follows the command"}},
		})
	}
	path := "/applications/" + c.self.Load().ID + "/commands"
	err := c.api.Do(ctx, platform.Request{Name: "register the commands", Method: http.MethodPut, Path: path, In: list, Out: new(json.RawMessage), Harmless: true})
	if err != nil {
		c.Log.WarnContext(ctx, "cannot register the commands", "error", err)
	}
}
