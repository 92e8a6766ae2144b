package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
)

// Manager runs the channels of a server: it lets them serve, reports those that have stopped, and ends them.
type Manager struct {
	Kernel *kernel.Kernel
	Media  string // the folder for files of messages; [Manager.OpenMedia] sets it

	log      *slog.Logger
	root     *channel.MediaRoot
	queue    *kernel.Queue // nil before Start
	services []*service
	closeAll []func() error // in the order of opening
	stop     context.CancelFunc
	wg       sync.WaitGroup

	mu sync.Mutex // of the errors of services
}

// service is a channel, or one account of it.
type service struct {
	kernel.Channel
	account string
	err     error // why it does not serve any more
}

func (s *service) login() string { return kernel.Login(s.Name(), s.account) }

// webhook returns the handler for events that the platform sends, or nil.
func (s *service) webhook() http.Handler {
	if w, ok := s.Channel.(interface{ Webhook() http.Handler }); ok {
		return w.Webhook()
	}
	return nil
}

// MaxMedia bounds the files of messages, in bytes: the limit of the public Telegram server. Channels may set lower limits.
const MaxMedia = 20 << 20

// NewManager returns a manager without channels.
func NewManager(k *kernel.Kernel, log *slog.Logger) *Manager {
	return &Manager{Kernel: k, log: log, stop: func() {}}
}

// OpenMedia opens the folder for files of messages. For "" it makes one that Close removes.
func (m *Manager) OpenMedia(folder string) (err error) {
	if folder == "" {
		if folder, err = os.MkdirTemp("", "lingserve-media-"); err != nil {
			return err
		}
		m.closeAll = append(m.closeAll, func() error { return os.RemoveAll(folder) })
	}
	root, err := channel.OpenMediaRoot(folder, MaxMedia)
	if err != nil {
		return err
	}
	m.closeAll = append(m.closeAll, root.Close)
	m.Media, m.root, m.Kernel.Media = folder, root, root
	return nil
}

// ReadMedia reads a file of a message. It reads no other files.
func (m *Manager) ReadMedia(_ context.Context, name string) ([]byte, error) {
	return readMedia(m.root, name)
}

// Add adds a channel, or one account of it, whose name is unique.
func (m *Manager) Add(c kernel.Channel, account string) error {
	added := &service{Channel: c, account: account}
	if c.Name() == "" {
		return errors.New("a plugin has a channel without a name")
	}
	for _, other := range m.services {
		switch {
		case other.login() == added.login():
			return fmt.Errorf("two channels have the name %s; give each its own name", added.login())
		case other.Name() == c.Name() && other.webhook() != nil && added.webhook() != nil:
			return fmt.Errorf("channels.%s: the accounts %s and %s would receive events at the same address; "+
				"configure a separate channel for each account", c.Name(), other.account, account)
		}
	}
	m.services = append(m.services, added)
	return nil
}

// Start starts all channels.
func (m *Manager) Start(o kernel.QueueOptions) {
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.queue = kernel.NewQueue(m.Kernel, o)
	for _, s := range m.services {
		m.wg.Go(func() {
			err := m.serve(ctx, s)
			if err == nil && ctx.Err() == nil {
				err = errors.New("the channel has stopped by itself")
			}
			if err != nil {
				m.log.ErrorContext(ctx, "channel failed; it stays down until a restart", "channel", s.Name(), "account", s.account, "error", err)
				m.mu.Lock()
				defer m.mu.Unlock()
				s.err = err
			}
		})
	}
}

// serve serves one channel until ctx ends. A channel that stops earlier is not started again: the same cause would stop it until an operator acts.
func (m *Manager) serve(ctx context.Context, s *service) (err error) {
	defer func() {
		if v := recover(); v != nil {
			m.log.ErrorContext(ctx, "panic in a channel", "channel", s.Name(), "panic", v)
			err = errors.New("the channel failed; see the server's log")
		}
	}()
	return s.Serve(ctx, m.queue)
}

// Webhook returns the handler for the events of a channel, or nil.
func (m *Manager) Webhook(name string) http.Handler {
	for _, s := range m.services {
		if h := s.webhook(); h != nil && s.Name() == name {
			return h
		}
	}
	return nil
}

// Broken returns why channels do not work, by their names.
func (m *Manager) Broken() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := map[string]string{}
	for _, s := range m.services {
		err := s.err
		if r, ok := s.Channel.(interface{ Ready() error }); ok {
			err = cmp.Or(err, r.Ready())
		}
		if err != nil {
			list[s.login()] = err.Error()
		}
	}
	return list
}

// Channels returns the names of the channels, without accounts.
func (m *Manager) Channels() (names []string) {
	for _, s := range m.services {
		names = append(names, s.Name())
	}
	return names
}

// Names returns the names of the channels with their accounts, in order.
func (m *Manager) Names() []string {
	names := []string{}
	for _, s := range m.services {
		names = append(names, s.login())
	}
	return names
}

// Drain ends the channels: they take nothing more, and leave running turns to another process after the grace period. It returns when all have ended.
func (m *Manager) Drain() {
	m.stop()
	m.wg.Wait()
}

// Close ends the channels. Replies that are not sent by then are sent after the next start.
func (m *Manager) Close() error {
	m.Drain()
	if m.queue != nil {
		m.queue.Close()
	}
	var errs []error
	for _, f := range slices.Backward(m.closeAll) {
		errs = append(errs, f())
	}
	m.closeAll = nil
	return errors.Join(errs...)
}

// Admits reports whether a channel admits any sender.
func Admits(c channel.Configuration, name string) bool {
	for n, p := range c {
		dm, group := cmp.Or(p.DMPolicy, channel.PolicyDisabled), cmp.Or(p.GroupPolicy, channel.PolicyDisabled)
		if n.Channel == name && (dm != channel.PolicyDisabled || group != channel.PolicyDisabled) {
			return true
		}
	}
	return false
}
