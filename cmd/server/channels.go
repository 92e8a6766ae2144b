package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	commands "github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/discord"
	"github.com/lingserve/lingserve/channel/feishu"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/channel/telegram"
	"github.com/lingserve/lingserve/channel/turns"
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
)

// channelMakers make the channels of each type, except the API and the terminal; package config has their settings.
var channelMakers = map[string]func(config.Channel, channelParts) (kernel.Channel, error){
	"telegram": newTelegram,
	"webhook":  newWebhook,
	"slack":    newSlack,
	"feishu":   newFeishu,
	"discord":  newDiscord,
}

// channelParts are what a channel gets in addition to its settings.
type channelParts struct {
	learned channel.Texts   // what was learned of platforms; nil keeps nothing
	results webhook.Results // answers, for senders who send a message again; nil keeps nothing
	media   string          // the folder for files of messages
	grace   time.Duration   // how long turns may go on at the end
	proxy   bool            // go through the proxy that the environment names
	log     *slog.Logger
}

// settings returns what all channels have.
func (p channelParts) settings(c config.Channel, api string, maxMedia int64) platform.Settings {
	return platform.Settings{
		Name: c.Name, Account: c.Account, API: api, MaxMedia: maxMedia,
		State: p.learned, Media: p.media, Grace: p.grace, ProxyEnv: p.proxy, Log: p.log,
	}
}

func newTelegram(c config.Channel, p channelParts) (kernel.Channel, error) {
	s := telegram.Settings{
		Settings: p.settings(c, c.Telegram.API, int64(c.Telegram.MaxMedia)), Token: platform.Secret(c.Telegram.Token.Reveal()), Mode: c.Telegram.Mode,
		PublicURL: c.Telegram.PublicURL, Preview: c.Telegram.Preview,
		Files: c.Telegram.Files,
	}
	if c.Telegram.Menu == "commands" {
		s.Commands = menu()
	}
	return telegram.New(s)
}

// menu are the commands that can be given by one tap: those that need nothing more.
func menu() (list []telegram.Command) {
	for _, c := range commands.New().Commands(tool.Admin) {
		if !slices.ContainsFunc(c.Params, func(p commands.Param) bool { return p.Required }) {
			list = append(list, telegram.Command{Name: c.Name, Help: c.Help, Role: c.Role})
		}
	}
	return list
}

func newWebhook(c config.Channel, p channelParts) (kernel.Channel, error) {
	return webhook.New(webhook.Settings{
		Settings: p.settings(c, "", 0), Secret: c.Webhook.Secret.Reveal(), Ack: c.Webhook.Ack, MaxBody: int64(c.Webhook.MaxBody),
		Callback: c.Webhook.Callback, CallbackSecret: c.Webhook.CallbackSecret.Reveal(),
		AllowInsecure: c.Webhook.AllowInsecure, AllowPrivate: c.Webhook.AllowPrivate, Results: p.results,
	})
}

func newSlack(c config.Channel, p channelParts) (kernel.Channel, error) {
	return slack.New(slack.Settings{
		Settings: p.settings(c, c.Slack.API, int64(c.Slack.MaxMedia)), Token: platform.Secret(c.Slack.Token.Reveal()),
		SigningSecret: platform.Secret(c.Slack.SigningSecret.Reveal()), AppToken: platform.Secret(c.Slack.AppToken.Reveal()),
		Replies: c.Slack.Replies, Preview: c.Slack.Preview,
	})
}

func newFeishu(c config.Channel, p channelParts) (kernel.Channel, error) {
	return feishu.New(feishu.Settings{
		Settings: p.settings(c, c.Feishu.API, int64(c.Feishu.MaxMedia)), AppID: c.Feishu.AppID, AppSecret: platform.Secret(c.Feishu.AppSecret.Reveal()),
		EncryptKey: platform.Secret(c.Feishu.EncryptKey.Reveal()), Preview: c.Feishu.Preview,
	})
}

func newDiscord(c config.Channel, p channelParts) (kernel.Channel, error) {
	s := discord.Settings{
		Settings: p.settings(c, c.Discord.API, int64(c.Discord.MaxMedia)), Token: platform.Secret(c.Discord.Token.Reveal()), Preview: c.Discord.Preview,
	}
	if c.Discord.Menu == "commands" {
		for _, m := range menu() {
			s.Commands = append(s.Commands, discord.Command{Name: m.Name, Help: m.Help})
		}
	}
	return discord.New(s)
}

// makeChannel makes a configured channel; it returns nil for the API and the terminal. p has the parts that are not in the settings.
func makeChannel(c *config.Config, ch config.Channel, p channelParts) (kernel.Channel, error) {
	newChannel := channelMakers[ch.Type]
	if newChannel == nil {
		return nil, nil
	}
	p.grace, p.proxy = c.Grace, c.Upstream.ProxyEnv
	made, err := newChannel(ch, p)
	if err != nil {
		where := ch.Where()
		if ch.At != "" {
			where = ch.At + ": " + where
		}
		// The error begins with the name of the type, which where has.
		return nil, fmt.Errorf("%s: %s", where, strings.TrimPrefix(err.Error(), ch.Type+": "))
	}
	return made, nil
}

// channelsFolder is the folder for files of channels.
func channelsFolder(c *config.Config) string { return filepath.Join(c.Data, "channels") }

// newTree returns the settings of channels. Every agent has the same commands.
func newTree(c *config.Config) (*channel.Tree, error) {
	tree, err := channel.NewTree(c.Access)
	if err == nil {
		tree.Commands = commands.New().Has
	}
	return tree, err
}

// channels are the channels of a server.
type channels struct {
	*platform.Manager
	tree  *channel.Tree
	parts channelParts // for each channel
}

// newChannels makes the configured channels and those of plugins. They do not serve yet. Its error is for the user.
func newChannels(s *core) (_ *channels, err error) {
	c, log := s.c, s.log
	tree, err := newTree(c)
	if err != nil {
		return nil, err
	}
	d, err := openChannels(c, s.database, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	k := d.Kernel
	d.tree, k.Settings, k.Observer = tree, tree, channel.NewSlogObserver(log)
	k.Pairing = s.database.pairs()
	find := func(ctx context.Context, session string) (*tape.Tape, error) {
		return tape.Lookup(ctx, s.tapes, c.Workspace, session)
	}
	k.Agent, err = turns.New(s.turns, &turns.Options{Answer: s.agents.Answer, Tape: find, Read: d.ReadMedia, Timezone: zone(c), Log: log})
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, ch := range c.Channels {
		made, err := makeChannel(c, ch, d.parts)
		if err == nil && made != nil {
			err = d.Add(made, ch.Account)
		}
		wrong = append(wrong, err)
	}
	for _, ch := range turns.Channels(s.turns) {
		wrong = append(wrong, d.Add(ch, ""))
	}
	return d, errors.Join(wrong...)
}

func dataError(c *config.Config, err error) error {
	return fmt.Errorf("data (%s): cannot use the folder %s: %w", c.Source("data"), c.Data, err)
}

// openChannels opens the stored data of channels, and the folder for files of messages. Its error is for the user.
func openChannels(c *config.Config, stored *database, log *slog.Logger) (*channels, error) {
	d := &channels{Manager: platform.NewManager(&kernel.Kernel{Store: stored.Events(), Log: log}, log)}
	media := ""
	if c.Data != "" {
		media = filepath.Join(channelsFolder(c), "media")
	}
	if err := d.OpenMedia(media); err != nil {
		return nil, dataError(c, err)
	}
	d.parts = channelParts{media: d.Media, learned: stored.learned(), results: stored.Results(webhook.ResultLife), log: log}
	d.Kernel.Window = channel.NewWindow(stored.windows(), channel.WindowOptions{Media: d.Kernel.Media, Log: log})
	d.Kernel.Recorder = &recorder{channel.NewSessions(stored.conversations()), d.parts.results}
	return d, nil
}

// recorder records where the messages of sessions came from. It also erases the answers of webhooks.
type recorder struct {
	*channel.Sessions
	results webhook.Results
}

// Forget implements [kernel.Recorder].
func (r *recorder) Forget(ctx context.Context, session string) error {
	return errors.Join(r.results.Erase(ctx, session), r.Sessions.Forget(ctx, session))
}

// eraseFromChannels deletes what channels store of a session. waited reports whether messages waited in the window of its conversation.
func eraseFromChannels(ctx context.Context, c *config.Config, stored *database, session string, log *slog.Logger) (waited bool, err error) {
	d, err := openChannels(c, stored, log)
	if err != nil {
		return false, err
	}
	waited = d.Kernel.Keeps(ctx, session)
	return waited, errors.Join(d.Kernel.Erase(ctx, session), d.Close())
}

// warn warns of channels that admit no senders, which is their default.
func (d *channels) warn(c *config.Config, log *slog.Logger) {
	for _, ch := range c.Channels {
		if channelMakers[ch.Type] != nil && !platform.Admits(c.Access.Channels[ch.Name]) {
			log.Warn("channel admits no senders; set dm.policy or groups.policy", "channel", ch.Name)
		}
	}
}
