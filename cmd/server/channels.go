package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/adapter"
	commands "github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/feishu"
	"github.com/lingserve/lingserve/channel/inbox"
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
	"github.com/lingserve/lingserve/web"
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

// login is how a channel and its account are written.
func login(name, account string) string {
	if account == "" {
		return name
	}
	return name + "@" + account
}

// channelsFolder is where all that channels keep is.
func channelsFolder(c *config.Config) string { return filepath.Join(c.Data, "channels") }

// openPairs opens the pairs; the command that approves them has them, too. Its error is for the user.
func openPairs(ctx context.Context, c *config.Config, tables store.Engine) (*channel.Pairs, error) {
	texts, err := channel.OpenTexts(ctx, tables, channel.PairTable, nil)
	if err != nil {
		return nil, tablesError(c, err)
	}
	return channel.NewPairs(texts), nil
}

// newTree returns the settings of channels. Every agent has the same commands.
func newTree(c *config.Config) (*channel.Tree, error) {
	tree, err := channel.NewTree(c.Access)
	if err == nil {
		tree.Commands = commands.New().Has
	}
	return tree, err
}

// doors are the channels of a server.
type doors struct {
	kernel *channel.Kernel
	tree   *channel.Tree
	log    *slog.Logger
	all    []*door
	parts  channelParts   // for each channel
	close  []func() error // in the order of opening

	stop context.CancelFunc // of what serves
	wg   sync.WaitGroup
}

// door is one channel, or one login of it.
type door struct {
	channel.Channel
	account string

	mu  sync.Mutex
	err error // why it does not serve any more
}

// maxChannelMedia is the size of a file of a message, in bytes: what the public server of Telegram gives at most. Channels have
// limits of their own below it.
const maxChannelMedia = 20 << 20

// newDoors makes the channels that are configured and those that plugins bring, and what their turns need. They do not serve yet. Its
// error is for the user.
func newDoors(ctx context.Context, c *config.Config, shared *engine, tables store.Engine, f *turn.Framework, crew *crew, ledger *adapter.Ledger, log *slog.Logger) (_ *doors, err error) {
	d := &doors{log: log, stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.closeStores())
		}
	}()
	if d.tree, err = newTree(c); err != nil {
		return nil, err
	}
	k := &channel.Kernel{Routes: d.tree, Settings: d.tree, Observer: channel.NewSlogObserver(log), Log: log, Hold: ledger.Hold}
	d.kernel = k
	if k.Pairing, err = openPairs(ctx, c, tables); err != nil {
		return nil, err
	}
	if err := d.open(ctx, c, shared, tables, log); err != nil {
		return nil, err
	}
	media, _ := k.Media.(*channel.MediaRoot)
	k.Agent, err = turns.New(f, &turns.Options{
		Answer: crew.Answer, KeepCutOff: crew.of(nil).KeepCutOff, Read: reader(media), Timezone: zone(c), Log: log,
	})
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, ch := range c.Channels {
		made, err := makeChannel(c, ch, d.parts)
		if err == nil && made != nil {
			err = d.add(&door{Channel: made, account: ch.Account})
		}
		wrong = append(wrong, err)
	}
	theirs, err := turns.Channels(f)
	wrong = append(wrong, err)
	for _, ch := range theirs {
		wrong = append(wrong, d.add(&door{Channel: ch}))
	}
	return d, errors.Join(wrong...)
}

func dataError(c *config.Config, err error) error {
	return fmt.Errorf("data (%s): cannot use the folder %s: %w", c.Source("data"), c.Data, err)
}

// open opens what channels keep in tables, and the folder for files of messages. Its error is for the user.
func (d *doors) open(ctx context.Context, c *config.Config, shared *engine, tables store.Engine, log *slog.Logger) error {
	media, root, err := d.openMedia(c)
	if err != nil {
		return dataError(c, err)
	}
	d.kernel.Media = root
	d.parts = channelParts{media: media, log: log, shared: shared != nil}
	if err := d.openTables(ctx, tables, channel.WindowOptions{Media: root, Log: log}, log); err != nil {
		return tablesError(c, err)
	}
	if shared != nil {
		err = d.share(ctx, c, shared, tables, log)
	} else {
		err = d.keep(ctx, tables, inbox.Options{Shown: true, Log: log}, outbox.Options{Log: log})
	}
	if err != nil {
		return tablesError(c, err)
	}
	return nil
}

// keep opens the inbox and the outbox.
func (d *doors) keep(ctx context.Context, tables store.Engine, events inbox.Options, replies outbox.Options) error {
	j, err := inbox.Open(ctx, tables, events)
	if err != nil {
		return err
	}
	d.close = append(d.close, j.Close)
	d.kernel.Journal = j
	blocks, err := outbox.Open(ctx, tables, replies)
	if err != nil {
		return err
	}
	k := d.kernel
	if k.Outbox, err = channel.OpenOutbox(&channel.OutboxOptions{Store: blocks, Log: replies.Log}); err != nil {
		return err
	}
	d.close = append(d.close, func() error { // closed before, where the server ends as it should
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return k.Outbox.Close(ctx)
	})
	return nil
}

// openTables opens windows, sessions, what was learned of platforms, and answers.
func (d *doors) openTables(ctx context.Context, tables store.Engine, windows channel.WindowOptions, log *slog.Logger) error {
	texts := map[string]channel.Texts{}
	for _, o := range []channel.TextTable{channel.WindowTable, channel.SessionTable, channel.LearnedTable} {
		var err error
		if texts[o.Name], err = channel.OpenTexts(ctx, tables, o, log); err != nil {
			return err
		}
	}
	results, err := webhook.OpenResults(ctx, tables)
	if err != nil {
		return err
	}
	d.parts.learned, d.parts.results = texts[channel.LearnedTable.Name], results
	d.kernel.Window = channel.NewWindow(texts[channel.WindowTable.Name], windows)
	d.kernel.Recorder = &recorder{channel.NewSessions(texts[channel.SessionTable.Name], log), d}
	return nil
}

// openMedia opens the folder for files of messages, which goes with the process where there is no data folder.
func (d *doors) openMedia(c *config.Config) (media string, root *channel.MediaRoot, err error) {
	if c.Data == "" {
		if media, err = os.MkdirTemp("", "lingserve-media-"); err != nil {
			return "", nil, err
		}
		d.close = append(d.close, func() error { return os.RemoveAll(media) })
	} else {
		media = filepath.Join(channelsFolder(c), "media")
	}
	if root, err = channel.OpenMediaRoot(media, maxChannelMedia); err != nil {
		return "", nil, err
	}
	d.close = append(d.close, root.Close)
	return media, root, nil
}

// recorder is what is known of sessions. A session that is forgotten is forgotten by the channels, too.
type recorder struct {
	*channel.Sessions
	d *doors
}

// Forget implements [channel.SessionEraser].
func (r *recorder) Forget(ctx context.Context, session string) error {
	var errs []error
	for _, one := range r.d.all {
		if e, ok := one.Channel.(interface{ EraseSession(string) error }); ok {
			errs = append(errs, e.EraseSession(session))
		}
	}
	// Also of channels that are not configured any more, or not running, as under the command that erases a tape.
	errs = append(errs, r.d.parts.results.Erase(ctx, session))
	return errors.Join(append(errs, r.Sessions.Forget(ctx, session))...)
}

// reader reads files of messages where they may lie, and nowhere else.
func reader(media *channel.MediaRoot) func(context.Context, string) ([]byte, error) {
	return func(_ context.Context, name string) ([]byte, error) {
		f, err := media.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, maxChannelMedia))
	}
}

// add takes a channel, whose name nobody else may have.
func (d *doors) add(one *door) error {
	for _, other := range d.all {
		if other.Name() != one.Name() {
			continue
		}
		if other.account == one.account {
			return fmt.Errorf("two channels have the name %s; give each its own name", login(one.Name(), one.account))
		}
		if webhookOf(other.Channel) != nil && webhookOf(one.Channel) != nil {
			return fmt.Errorf("channels.%s: the accounts %s and %s would receive events at the same address; configure a separate channel for each account",
				one.Name(), other.account, one.account)
		}
	}
	d.all = append(d.all, one)
	return nil
}

func webhookOf(c channel.Channel) http.Handler {
	if w, ok := c.(web.Webhook); ok {
		return w.Webhook()
	}
	return nil
}

// start lets the channels serve.
func (d *doors) start() {
	ctx, cancel := context.WithCancel(context.Background())
	d.stop = cancel
	d.kernel.Init()
	d.kernel.Outbox.Start()
	for _, one := range d.all {
		d.wg.Go(func() { one.serve(ctx, d.kernel, d.log) })
	}
}

// serve lets one channel serve until ctx ends. One that stops by itself is not started again: what has stopped it would stop it again,
// until somebody does something about it.
func (o *door) serve(ctx context.Context, k *channel.Kernel, log *slog.Logger) {
	err := func() (err error) {
		defer func() {
			if v := recover(); v != nil {
				log.ErrorContext(ctx, "panic in a channel", "channel", o.Name(), "panic", v)
				err = errors.New("the channel failed; see the server's log")
			}
		}()
		return o.Serve(ctx, k)
	}()
	if err == nil && ctx.Err() == nil {
		err = errors.New("the channel has stopped by itself")
	}
	if err == nil {
		return
	}
	log.ErrorContext(ctx, "channel failed; it stays down until a restart", "channel", o.Name(), "account", o.account, "error", err)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

// readier is a channel that knows whether it works.
type readier interface{ Ready() error }

// broken says why a channel does not work; nil is one that does.
func (o *door) broken() error {
	o.mu.Lock()
	err := o.err
	o.mu.Unlock()
	if r, ok := o.Channel.(readier); ok && err == nil {
		err = r.Ready()
	}
	return err
}

// Webhook implements [web.Channels].
func (d *doors) Webhook(name string) http.Handler {
	for _, one := range d.all {
		if one.Name() == name {
			if h := webhookOf(one.Channel); h != nil {
				return h
			}
		}
	}
	return nil
}

// Broken implements [web.Channels].
func (d *doors) Broken() map[string]string {
	var list map[string]string
	for _, one := range d.all {
		if err := one.broken(); err != nil {
			if list == nil {
				list = map[string]string{}
			}
			list[login(one.Name(), one.account)] = err.Error()
		}
	}
	return list
}

// names are those of the channels, in order.
func (d *doors) names() []string {
	names := []string{}
	for _, one := range d.all {
		names = append(names, login(one.Name(), one.account))
	}
	return names
}

// set takes what a configuration says of who may talk. What channels are and how they log in stays as it was at the start.
func (d *doors) set(c *config.Config) error { return d.tree.Set(c.Access) }

// drain ends the channels: nothing more is let in, and what runs has the grace period, after which they cancel it. It returns when
// they have ended.
func (d *doors) drain() {
	d.stop()
	d.wg.Wait()
}

// closeAll frees what the channels hold. Replies that are on their way are waited for until ctx ends; the rest waits for the next start.
func (d *doors) closeAll(ctx context.Context) error {
	d.drain()
	err := d.kernel.Outbox.Close(ctx)
	return errors.Join(err, d.closeStores())
}

func (d *doors) closeStores() error {
	var errs []error
	for _, f := range slices.Backward(d.close) {
		errs = append(errs, f())
	}
	d.close = nil
	return errors.Join(errs...)
}

// errChannelsInUse says that a server has what channels keep.
var errChannelsInUse = errors.New("a server uses the data folder: what its channels keep of the session goes within a day of its last answer, or at once if an operator has the server erase the session (DELETE /v1/sessions/{id})")

// eraseFromChannels removes what channels keep of a session, while no server does anything with it.
func eraseFromChannels(ctx context.Context, c *config.Config, shared *engine, session string, log *slog.Logger) (err error) {
	if _, err := os.Stat(channelsFolder(c)); shared == nil && (c.Data == "" || errors.Is(err, fs.ErrNotExist)) {
		return nil
	}
	tables, err := openTables(ctx, c, shared, log)
	if err != nil {
		if errors.Is(err, errDataInUse) {
			return errChannelsInUse
		}
		return err
	}
	d := &doors{kernel: &channel.Kernel{Log: log}, log: log, stop: func() {}}
	defer func() { err = errors.Join(err, d.closeStores(), tables.Close()) }()
	if err := d.open(ctx, c, shared, tables, log); err != nil {
		return err
	}
	return d.kernel.Erase(ctx, session)
}

// look warns of channels on which nobody may talk, since that is how they come, and of those on which tools ask for an approval that nobody
// can give.
func (d *doors) look(c *config.Config, crew *crew) {
	for _, ch := range c.Channels {
		if channelMakers[ch.Type] == nil {
			continue
		}
		place := c.Access.Channels[ch.Name]
		if !admits(place) {
			d.log.Warn("channel admits no senders; set dm.policy or groups.policy", "channel", ch.Name)
			continue
		}
		if slices.ContainsFunc(placesOf(place), approves) {
			continue
		}
		for _, name := range crew.names {
			if answers(place, name) && crew.asks(c, name) {
				d.log.Warn("tools ask for approval, but the channel has no operators; set commands.operators, or ask_never of the agent",
					"channel", ch.Name, "agent", name)
			}
		}
	}
}

// placesOf are all places of a channel, its defaults last.
func placesOf(ch channel.ChannelPlace) (all []channel.Place) {
	of := func(a channel.AccountPlace) {
		all = append(all, a.Place)
		for _, p := range a.Directs {
			all = append(all, p)
		}
		for _, g := range a.Groups {
			all = append(all, g.Place)
			for _, t := range g.Threads {
				all = append(all, t)
			}
		}
	}
	of(ch.AccountPlace)
	for _, a := range ch.Accounts {
		of(a)
	}
	return append(all, ch.Shipped)
}

// admits reports whether somebody may talk on a channel.
func admits(ch channel.ChannelPlace) bool {
	return slices.ContainsFunc(placesOf(ch), func(p channel.Place) bool {
		return p.DMPolicy != "" && p.DMPolicy != channel.PolicyDisabled || p.GroupPolicy != "" && p.GroupPolicy != channel.PolicyDisabled
	})
}

// approves reports whether a place lets somebody answer questions for approval.
func approves(p channel.Place) bool {
	return p.CommandMode == channel.CommandsSenders || len(p.Users)+len(p.Operators)+len(p.Admins) > 0
}

// answers reports whether an agent answers somewhere on a channel.
func answers(ch channel.ChannelPlace, agent string) bool {
	main := cmp.Or(ch.Agent, ch.Shipped.Agent)
	return main == agent || slices.ContainsFunc(placesOf(ch), func(p channel.Place) bool { return p.Agent == agent && p.Agent != ch.Shipped.Agent })
}
