// Package manager runs the channels of a server: it opens what they keep, lets them serve, reports those that have stopped, and closes
// them.
package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/outbox"
	"github.com/lingserve/lingserve/channel/state"
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/store"
)

// Manager runs the channels of a server. A command may use it only to open their stores.
type Manager struct {
	Kernel *channel.Kernel
	// What the channels are given; OpenMedia and Use set them.
	Media   string          // the folder for files of messages
	Learned state.Store     // what was learned of platforms
	Results webhook.Results // answers, for senders who send a message again

	log   *slog.Logger
	root  *channel.MediaRoot
	all   []*login
	close []func() error // in the order of opening
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

// login is a channel, or one account of it.
type login struct {
	channel.Channel
	account string

	mu  sync.Mutex
	err error // why it does not serve any more
}

// MaxMedia bounds the files of messages, in bytes: the limit of the public Telegram server. Channels may set lower limits.
const MaxMedia = 20 << 20

// New makes a manager without channels.
func New(k *channel.Kernel, log *slog.Logger) *Manager {
	return &Manager{Kernel: k, log: log, stop: func() {}}
}

// Login returns how people write a channel and its account.
func Login(name, account string) string {
	if account == "" {
		return name
	}
	return name + "@" + account
}

// OpenMedia opens the folder for files of messages. For "" it makes one that Close removes.
func (m *Manager) OpenMedia(folder string) (err error) {
	if folder == "" {
		if folder, err = os.MkdirTemp("", "lingserve-media-"); err != nil {
			return err
		}
		m.close = append(m.close, func() error { return os.RemoveAll(folder) })
	}
	root, err := channel.OpenMediaRoot(folder, MaxMedia)
	if err != nil {
		return err
	}
	m.close = append(m.close, root.Close)
	m.Media, m.root, m.Kernel.Media = folder, root, root
	return nil
}

// ReadMedia reads a file of a message. It reads no other files.
func (m *Manager) ReadMedia(_ context.Context, name string) ([]byte, error) {
	f, err := m.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxMedia))
}

// Stores are what channels remember beside messages.
type Stores struct {
	Windows       channel.Texts // unanswered messages of groups
	Conversations channel.Texts // where the messages of a session came from
	Learned       channel.Texts // what platforms have said
	Results       webhook.Results
}

// Use sets the stores, after OpenMedia.
func (m *Manager) Use(s Stores) {
	m.Learned, m.Results = s.Learned, s.Results
	m.Kernel.Window = channel.NewWindow(s.Windows, channel.WindowOptions{Media: m.root, Log: m.log})
	m.Kernel.Recorder = &recorder{channel.NewSessions(s.Conversations, m.log), m}
}

// Keep opens the inbox and the outbox.
func (m *Manager) Keep(ctx context.Context, tables store.Engine, events inbox.Options, replies outbox.Options) error {
	j, err := inbox.Open(ctx, tables, events)
	if err != nil {
		return err
	}
	m.close = append(m.close, j.Close)
	m.Kernel.Journal = j
	blocks, err := outbox.Open(ctx, tables, replies)
	if err != nil {
		return err
	}
	k := m.Kernel
	if k.Outbox, err = channel.OpenOutbox(&channel.OutboxOptions{Store: blocks, Log: replies.Log}); err != nil {
		return err
	}
	m.close = append(m.close, func() error { // Close has closed it before
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return k.Outbox.Close(ctx)
	})
	return nil
}

// recorder records sessions. It also erases them from the channels.
type recorder struct {
	*channel.Sessions
	m *Manager
}

// Forget implements [channel.SessionEraser].
func (r *recorder) Forget(ctx context.Context, session string) error {
	var errs []error
	for _, one := range r.m.all {
		if e, ok := one.Channel.(interface{ EraseSession(string) error }); ok {
			errs = append(errs, e.EraseSession(session))
		}
	}
	// The table also has answers of channels that are not configured or not running, as in "lingserve tape delete".
	errs = append(errs, r.m.Results.Erase(ctx, session))
	return errors.Join(append(errs, r.Sessions.Forget(ctx, session))...)
}

// Add adds a channel, or one account of it, whose name is unique.
func (m *Manager) Add(c channel.Channel, account string) error {
	for _, other := range m.all {
		if other.Name() != c.Name() {
			continue
		}
		if other.account == account {
			return fmt.Errorf("two channels have the name %s; give each its own name", Login(c.Name(), account))
		}
		if webhookOf(other.Channel) != nil && webhookOf(c) != nil {
			return fmt.Errorf("channels.%s: the accounts %s and %s would receive events at the same address; "+
				"configure a separate channel for each account",
				c.Name(), other.account, account)
		}
	}
	m.all = append(m.all, &login{Channel: c, account: account})
	return nil
}

func webhookOf(c channel.Channel) http.Handler {
	if w, ok := c.(interface{ Webhook() http.Handler }); ok {
		return w.Webhook()
	}
	return nil
}

// Start starts all channels.
func (m *Manager) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.Kernel.Init()
	m.Kernel.Outbox.Start()
	for _, one := range m.all {
		m.wg.Go(func() { one.serve(ctx, m.Kernel, m.log) })
	}
}

// serve serves one channel until ctx ends. A channel that stops earlier is not restarted: the same cause would stop it again until an
// operator acts.
func (o *login) serve(ctx context.Context, k *channel.Kernel, log *slog.Logger) {
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

// broken returns why a channel does not work, or nil.
func (o *login) broken() error {
	o.mu.Lock()
	err := o.err
	o.mu.Unlock()
	if r, ok := o.Channel.(interface{ Ready() error }); ok && err == nil {
		err = r.Ready()
	}
	return err
}

// Webhook returns the handler for the events of a channel, or nil.
func (m *Manager) Webhook(name string) http.Handler {
	for _, one := range m.all {
		if one.Name() == name {
			if h := webhookOf(one.Channel); h != nil {
				return h
			}
		}
	}
	return nil
}

// Broken returns why channels do not work, by their names.
func (m *Manager) Broken() map[string]string {
	var list map[string]string
	for _, one := range m.all {
		if err := one.broken(); err != nil {
			if list == nil {
				list = map[string]string{}
			}
			list[Login(one.Name(), one.account)] = err.Error()
		}
	}
	return list
}

// Channels returns the names of the channels, without accounts.
func (m *Manager) Channels() (names []string) {
	for _, one := range m.all {
		names = append(names, one.Name())
	}
	return names
}

// Names returns the names of the channels with their accounts, in order.
func (m *Manager) Names() []string {
	names := []string{}
	for _, one := range m.all {
		names = append(names, Login(one.Name(), one.account))
	}
	return names
}

// Drain stops the channels: they admit nothing more, and cancel running turns after the grace period. It returns when all have stopped.
func (m *Manager) Drain() {
	m.stop()
	m.wg.Wait()
}

// Close stops the channels and closes their stores. It waits for running deliveries until ctx ends; the others continue at the next start.
func (m *Manager) Close(ctx context.Context) error {
	m.Drain()
	err := m.Kernel.Outbox.Close(ctx)
	return errors.Join(err, m.CloseStores())
}

// CloseStores closes the stores of channels that were not started.
func (m *Manager) CloseStores() error {
	var errs []error
	for _, f := range slices.Backward(m.close) {
		errs = append(errs, f())
	}
	m.close = nil
	return errors.Join(errs...)
}
