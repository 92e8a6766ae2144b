package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	commands "github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/agent/team"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/feishu"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/manager"
	"github.com/lingserve/lingserve/channel/outbox"
	"github.com/lingserve/lingserve/channel/secret"
	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/channel/state"
	"github.com/lingserve/lingserve/channel/telegram"
	"github.com/lingserve/lingserve/channel/turns"
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// channelMakers make the channels of each type that has a door of its own in a server; config has their settings.
var channelMakers = map[string]func(config.Channel, channelParts) (channel.Channel, error){
	"telegram": newTelegram,
	"webhook":  newWebhook,
	"slack":    newSlack,
	"feishu":   newFeishu,
}

// channelParts are what a channel is given beside its settings.
type channelParts struct {
	learned state.Store     // what was learned of platforms; nil keeps nothing
	results webhook.Results // answers, for senders who send a message again; nil keeps nothing
	shared  bool            // other replicas keep their answers there, too
	media   string          // the folder for files of messages
	grace   time.Duration   // how long turns may go on at the end
	proxy   bool            // go through the proxy that the environment names
	log     *slog.Logger
}

func newTelegram(c config.Channel, p channelParts) (channel.Channel, error) {
	s := telegram.Settings{
		Name: c.Name, Account: c.Account, Token: secret.Text(c.Telegram.Token.Reveal()), API: c.Telegram.API, Mode: c.Telegram.Mode,
		PublicURL: c.Telegram.PublicURL, Secret: secret.Text(c.Telegram.Secret.Reveal()), Preview: c.Telegram.Preview,
		ParseMode: c.Telegram.ParseMode, MaxMedia: int64(c.Telegram.MaxMedia), Files: c.Telegram.Files,
		State: p.learned, Media: p.media, Grace: p.grace, ProxyEnv: p.proxy, Log: p.log,
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

func newWebhook(c config.Channel, p channelParts) (channel.Channel, error) {
	return webhook.New(webhook.Settings{
		Name: c.Name, Account: c.Account, Secret: c.Webhook.Secret.Reveal(), Ack: c.Webhook.Ack, MaxBody: int64(c.Webhook.MaxBody),
		Callback: c.Webhook.Callback, CallbackSecret: c.Webhook.CallbackSecret.Reveal(), CallbackHosts: c.Webhook.CallbackHosts,
		AllowInsecure: c.Webhook.AllowInsecure, AllowPrivate: c.Webhook.AllowPrivate,
		Results: p.results, Shared: p.shared, Media: p.media, Grace: p.grace, Log: p.log,
	})
}

func newSlack(c config.Channel, p channelParts) (channel.Channel, error) {
	return slack.New(slack.Settings{
		Name: c.Name, Account: c.Account, Token: secret.Text(c.Slack.Token.Reveal()), SigningSecret: secret.Text(c.Slack.SigningSecret.Reveal()),
		API: c.Slack.API, Replies: c.Slack.Replies, Preview: c.Slack.Preview, MaxMedia: int64(c.Slack.MaxMedia),
		State: p.learned, Media: p.media, Grace: p.grace, ProxyEnv: p.proxy, Log: p.log,
	})
}

func newFeishu(c config.Channel, p channelParts) (channel.Channel, error) {
	return feishu.New(feishu.Settings{
		Name: c.Name, Account: c.Account, AppID: c.Feishu.AppID, AppSecret: secret.Text(c.Feishu.AppSecret.Reveal()),
		EncryptKey: secret.Text(c.Feishu.EncryptKey.Reveal()), VerificationToken: secret.Text(c.Feishu.VerificationToken.Reveal()),
		API: c.Feishu.API, Preview: c.Feishu.Preview, Format: c.Feishu.Format, MaxMedia: int64(c.Feishu.MaxMedia),
		Media: p.media, Grace: p.grace, ProxyEnv: p.proxy, Log: p.log,
	})
}

// makeChannel makes a channel that is configured; nil for one that has its door elsewhere. Of its parts it is given those that are not in
// the settings.
func makeChannel(c *config.Config, ch config.Channel, p channelParts) (channel.Channel, error) {
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
		// The channel's own name stands before it already.
		return nil, fmt.Errorf("%s: %s", where, strings.TrimPrefix(err.Error(), ch.Type+": "))
	}
	return made, nil
}

// channelsFolder is where all that channels keep is.
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
	*manager.Manager
	tree  *channel.Tree
	parts channelParts // for each channel
}

// newChannels makes the channels that are configured and those that plugins bring, and what their turns need. They do not serve yet. Its
// error is for the user.
func newChannels(
	ctx context.Context, c *config.Config, shared *replicas, stored *database, tables store.Engine, f *turn.Framework, agents *team.Team, ledger *adapter.Ledger,
	log *slog.Logger,
) (_ *channels, err error) {
	tree, err := newTree(c)
	if err != nil {
		return nil, err
	}
	k := &channel.Kernel{Routes: tree, Settings: tree, Observer: channel.NewSlogObserver(log), Log: log, Hold: ledger.Hold}
	d := &channels{Manager: manager.New(k, log), tree: tree}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.CloseStores())
		}
	}()
	k.Pairing = stored.pairs()
	if err := d.open(ctx, c, shared, stored, tables, log); err != nil {
		return nil, err
	}
	k.Agent, err = turns.New(f, &turns.Options{
		Answer: agents.Answer, KeepCutOff: agents.Agent("").KeepCutOff, Read: d.ReadMedia, Timezone: zone(c), Log: log,
	})
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
	theirs, err := turns.Channels(f)
	wrong = append(wrong, err)
	for _, ch := range theirs {
		wrong = append(wrong, d.Add(ch, ""))
	}
	return d, errors.Join(wrong...)
}

func dataError(c *config.Config, err error) error {
	return fmt.Errorf("data (%s): cannot use the folder %s: %w", c.Source("data"), c.Data, err)
}

// open opens what channels keep in tables, and the folder for files of messages. Its error is for the user.
func (d *channels) open(ctx context.Context, c *config.Config, shared *replicas, stored *database, tables store.Engine, log *slog.Logger) error {
	media := ""
	if c.Data != "" {
		media = filepath.Join(channelsFolder(c), "media")
	}
	if err := d.OpenMedia(media); err != nil {
		return dataError(c, err)
	}
	d.Use(stored.channelStores())
	var err error
	if shared != nil {
		err = d.share(ctx, shared, tables, log)
	} else {
		err = d.Keep(ctx, tables, inbox.Options{Shown: true, Log: log}, outbox.Options{Log: log})
	}
	if err != nil {
		return databaseError(c, err)
	}
	d.parts = channelParts{media: d.Media, learned: d.Learned, results: d.Results, log: log, shared: shared != nil}
	return nil
}

// errChannelsInUse says that a server has what channels keep.
var errChannelsInUse = errors.New("a server uses the data folder: what its channels keep of the session goes within a day of its last answer, or at once if an operator has the server erase the session (DELETE /v1/sessions/{id})")

// eraseFromChannels removes what channels keep of a session, while no server does anything with it. waited reports whether messages waited in the
// window of its conversation.
func eraseFromChannels(ctx context.Context, c *config.Config, shared *replicas, session string, log *slog.Logger) (waited bool, err error) {
	if _, err := os.Stat(channelsFolder(c)); shared == nil && (c.Data == "" || errors.Is(err, fs.ErrNotExist)) {
		return false, nil
	}
	tables, err := openTables(c, log)
	if err != nil {
		if errors.Is(err, store.ErrInUse) {
			return false, errChannelsInUse
		}
		return false, err
	}
	stored, err := openDatabase(c, log)
	if err != nil {
		return false, errors.Join(err, tables.Close())
	}
	d := &channels{Manager: manager.New(&channel.Kernel{Log: log}, log)}
	defer func() {
		err = errors.Join(err, d.CloseStores(), stored.close(), tables.Close())
	}()
	if err := d.open(ctx, c, shared, stored, tables, log); err != nil {
		return false, err
	}
	return d.Kernel.Keeps(ctx, session), d.Kernel.Erase(ctx, session)
}

// look warns of channels on which nobody may talk, since that is how they come, and of those on which tools ask for an approval that nobody
// can give.
func (d *channels) look(c *config.Config, agents *team.Team, log *slog.Logger) {
	for _, ch := range c.Channels {
		if channelMakers[ch.Type] == nil {
			continue
		}
		place := c.Access.Channels[ch.Name]
		if !manager.Admits(place) {
			log.Warn("channel admits no senders; set dm.policy or groups.policy", "channel", ch.Name)
			continue
		}
		if manager.Approves(place) {
			continue
		}
		for _, name := range agents.Names() {
			if manager.Answers(place, name) && asks(agents, c, name) {
				log.Warn("tools ask for approval, but the channel has no operators; set commands.operators, or ask_never of the agent",
					"channel", ch.Name, "agent", name)
			}
		}
	}
}
