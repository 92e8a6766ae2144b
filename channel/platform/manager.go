package platform

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
	close    []func() error // in the order of opening
	stop     context.CancelFunc
	wg       sync.WaitGroup
}

// service is a channel, or one account of it.
type service struct {
	kernel.Channel
	account string

	mu  sync.Mutex
	err error // why it does not serve any more
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

// Add adds a channel, or one account of it, whose name is unique.
func (m *Manager) Add(c kernel.Channel, account string) error {
	if c.Name() == "" {
		return errors.New("a plugin has a channel without a name")
	}
	for _, other := range m.services {
		if other.Name() != c.Name() {
			continue
		}
		if other.account == account {
			return fmt.Errorf("two channels have the name %s; give each its own name", kernel.Login(c.Name(), account))
		}
		if webhookOf(other.Channel) != nil && webhookOf(c) != nil {
			return fmt.Errorf("channels.%s: the accounts %s and %s would receive events at the same address; "+
				"configure a separate channel for each account", c.Name(), other.account, account)
		}
	}
	m.services = append(m.services, &service{Channel: c, account: account})
	return nil
}

func webhookOf(c kernel.Channel) http.Handler {
	if w, ok := c.(interface{ Webhook() http.Handler }); ok {
		return w.Webhook()
	}
	return nil
}

// Start starts all channels.
func (m *Manager) Start(o kernel.QueueOptions) {
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.queue = kernel.NewQueue(m.Kernel, o)
	for _, s := range m.services {
		m.wg.Go(func() { s.serve(ctx, m.queue, m.log) })
	}
}

// serve serves one channel until ctx ends. A channel that stops earlier is not started again: the same cause would stop it until an operator acts.
func (s *service) serve(ctx context.Context, q *kernel.Queue, log *slog.Logger) {
	err := func() (err error) {
		defer func() {
			if v := recover(); v != nil {
				log.ErrorContext(ctx, "panic in a channel", "channel", s.Name(), "panic", v)
				err = errors.New("the channel failed; see the server's log")
			}
		}()
		return s.Serve(ctx, q)
	}()
	if err == nil && ctx.Err() == nil {
		err = errors.New("the channel has stopped by itself")
	}
	if err == nil {
		return
	}
	log.ErrorContext(ctx, "channel failed; it stays down until a restart", "channel", s.Name(), "account", s.account, "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// broken returns why a channel does not work, or nil.
func (s *service) broken() error {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if r, ok := s.Channel.(interface{ Ready() error }); ok && err == nil {
		err = r.Ready()
	}
	return err
}

// Webhook returns the handler for the events of a channel, or nil.
func (m *Manager) Webhook(name string) http.Handler {
	for _, s := range m.services {
		if h := webhookOf(s.Channel); h != nil && s.Name() == name {
			return h
		}
	}
	return nil
}

// Broken returns why channels do not work, by their names.
func (m *Manager) Broken() map[string]string {
	list := map[string]string{}
	for _, s := range m.services {
		if err := s.broken(); err != nil {
			list[kernel.Login(s.Name(), s.account)] = err.Error()
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
		names = append(names, kernel.Login(s.Name(), s.account))
	}
	return names
}

// Pending counts the events that have not ended and the replies that are to be sent, by channel.
func (m *Manager) Pending(ctx context.Context) (events, replies map[string]int, err error) {
	return m.Kernel.Store.Pending(ctx)
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
	for _, f := range slices.Backward(m.close) {
		errs = append(errs, f())
	}
	m.close = nil
	return errors.Join(errs...)
}
