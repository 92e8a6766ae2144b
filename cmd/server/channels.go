package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

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
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
)

// channelMakers make the channels of each type, except the API and the terminal. o is what all channels have beside their settings.
var channelMakers = map[string]func(c config.Channel, o platform.Settings, results webhook.Results) (kernel.Channel, error){
	"telegram": func(c config.Channel, o platform.Settings, _ webhook.Results) (kernel.Channel, error) {
		c.Telegram.Settings, c.Telegram.Commands = inPlace(c, o, c.Telegram.Settings), menu()
		return telegram.New(c.Telegram)
	},
	"webhook": func(c config.Channel, o platform.Settings, results webhook.Results) (kernel.Channel, error) {
		c.Webhook.Settings, c.Webhook.Results = inPlace(c, o, c.Webhook.Settings), results
		return webhook.New(c.Webhook)
	},
	"slack": func(c config.Channel, o platform.Settings, _ webhook.Results) (kernel.Channel, error) {
		c.Slack.Settings = inPlace(c, o, c.Slack.Settings)
		return slack.New(c.Slack)
	},
	"feishu": func(c config.Channel, o platform.Settings, _ webhook.Results) (kernel.Channel, error) {
		c.Feishu.Settings = inPlace(c, o, c.Feishu.Settings)
		return feishu.New(c.Feishu)
	},
	"discord": func(c config.Channel, o platform.Settings, _ webhook.Results) (kernel.Channel, error) {
		c.Discord.Settings, c.Discord.Commands = inPlace(c, o, c.Discord.Settings), menu()
		return discord.New(c.Discord)
	},
}

// inPlace returns what all channels have for one of them, which has these settings in the configuration.
func inPlace(c config.Channel, all, configured platform.Settings) platform.Settings {
	all.Name, all.Account, all.API, all.MaxMedia = c.Name, c.Account, configured.API, configured.MaxMedia
	return all
}

// menu are the commands that can be given by one tap: those that need nothing more.
func menu() (list []platform.Command) {
	for _, c := range commands.New().Commands(tool.Admin) {
		if !slices.ContainsFunc(c.Params, func(p commands.Param) bool { return p.Required }) {
			list = append(list, platform.Command{Name: c.Name, Help: c.Help, Role: c.Role})
		}
	}
	return list
}

// makeChannel makes a configured channel; it returns nil for the API and the terminal.
func makeChannel(c *config.Config, ch config.Channel, o platform.Settings, results webhook.Results) (kernel.Channel, error) {
	newChannel := channelMakers[ch.Type]
	if newChannel == nil {
		return nil, nil
	}
	o.Grace, o.ProxyEnv = c.Grace, c.Upstream.ProxyEnv
	made, err := newChannel(ch, o, results)
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
	tree    *channel.Tree
	of      platform.Settings // what each channel has
	results webhook.Results   // answers, for senders who send a message again
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
		made, err := makeChannel(c, ch, d.of, d.results)
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

// openChannels opens the stored data of channels, and the folder for files of messages. Its error is for the user.
func openChannels(c *config.Config, stored *database, log *slog.Logger) (*channels, error) {
	d := &channels{Manager: platform.NewManager(&kernel.Kernel{Store: stored.Events(), Log: log}, log)}
	media := ""
	if c.Data != "" {
		media = filepath.Join(channelsFolder(c), "media")
	}
	if err := d.OpenMedia(media); err != nil {
		return nil, fmt.Errorf("data (%s): cannot use the folder %s: %w", c.Source("data"), c.Data, err)
	}
	d.of = platform.Settings{Media: d.Media, State: stored.Values(db.Learned, db.ValueOptions{MaxBytes: 16 << 20}), Log: log}
	d.results = stored.Results(webhook.ResultLife)
	windows := stored.Values(db.Windows, db.ValueOptions{Life: channel.WindowLife, MaxRows: 10_000, MaxBytes: 64 << 20})
	d.Kernel.Window = channel.NewWindow(windows, channel.WindowOptions{Media: d.Kernel.Media, Log: log})
	conversations := stored.Values(db.Conversations, db.ValueOptions{MaxRows: 100_000, MaxBytes: 64 << 20})
	d.Kernel.Recorder = &recorder{channel.NewSessions(conversations), d.results}
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
		if channelMakers[ch.Type] != nil && !platform.Admits(c.Access, ch.Name) {
			log.Warn("channel admits no senders; set dm.policy or groups.policy", "channel", ch.Name)
		}
	}
}
