// Package platform is what every chat platform needs once: the settings of a channel, how it serves, calls of the platform that are repeated while that
// can help, the files of messages, and what was learned of the platform.
package platform

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/tool"
)

// Settings are those that the channel of every chat platform has. Who may talk is for package channel. Package config checks choices and addresses.
type Settings struct {
	Name    string // of the channel; "" is that of the platform
	Account string // of several; "" is the only one
	Agent   string // answers if there are no routes
	API     string `key:"api" check:"url"` // the base of addresses; "" is that of the platform

	MaxMedia int64         `key:"max_media" default:"10MiB" help:"maximum size of a file"` // in bytes; 0 is 10 MiB
	Media    string        // the folder for files; "" loads none
	State    channel.Texts // keeps what was learned, a text for each fact; nil forgets it at the end

	Grace    time.Duration // how long turns may go on at the end; 0 is that of [kernel.Handler]
	Client   *http.Client  // nil: the channel makes one
	ProxyEnv bool          // without a Client: go through the proxy that the environment names
	Log      *slog.Logger  // nil is silent
}

// What is shown of an answer before it is finished.
const (
	PreviewEdit = "edit" // a message that grows
	PreviewOff  = "off"
)

// Command is a command of the server, which people see when they type a slash.
type Command struct {
	Name string // such as tape.info
	Help string
	Role tool.Role // that it needs
}

// SlashName is the name of the command on platforms that take no points.
func (c *Command) SlashName() string { return strings.ReplaceAll(c.Name, ".", "_") }

// Service is how a channel serves: from knowing who the bot is until its end, or until the platform says that its token is invalid. Call Init first.
type Service struct {
	Log   *slog.Logger // names the channel
	Files *MediaStore
	HTTP  *http.Client // of calls; [Service.CloseIdle] closes its connections

	settings  *Settings
	closeIdle func()
	queue     atomic.Pointer[kernel.Queue] // while it serves
	failed    context.Context              // ends when Fail is called
	fail      context.CancelCauseFunc
}

// Init fills in the settings that are missing. name is that of the platform, and api the base of its addresses. The settings are not copied.
func (s *Service) Init(o *Settings, name, api string) {
	o.Name, o.API = cmp.Or(o.Name, name), strings.TrimRight(cmp.Or(o.API, api), "/")
	if o.State == nil {
		o.State = channel.NewTexts()
	}
	s.settings = o
	s.failed, s.fail = context.WithCancelCause(context.Background())
	s.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("channel", o.Name)
	s.HTTP, s.closeIdle = NewClient(o.Client, o.ProxyEnv)
	s.Files = &MediaStore{Prefix: name + "-", Limit: cmp.Or(o.MaxMedia, defaultMaxMedia), Log: s.Log}
	if o.Media != "" {
		s.Files.Dir, _ = filepath.Abs(o.Media) // "" if this process has no folder
	}
}

// ServiceOptions are for [Service.Serve]. Run is required. It is given events with Kernel, Meta, Agent and Media.
type ServiceOptions struct {
	Run    func(context.Context, *Event) (channel.Result, error)
	Sender kernel.Sender
	// Identify asks the platform who the bot is. It is called until it works, or is refused for one of the reasons Lasting. No event runs before. nil: the
	// platform is not asked.
	Identify func(context.Context) error
	Lasting  []*Kind
	Bot      func() string                         // the name of the bot after that, for the log
	Started  func(context.Context, *kernel.Kernel) // is called after that; nil
	// Receive fetches events until its context ends; nil: the platform brings them.
	Receive func(context.Context) error
	// Exclusive says that the platform lets one program at a time receive: of several replicas one does.
	Exclusive bool
}

// Name implements [kernel.Channel].
func (s *Service) Name() string { return s.settings.Name }

// Login is the name that the channel's events and state are stored under.
func (s *Service) Login() string { return kernel.Login(s.settings.Name, s.settings.Account) }

// CloseIdle closes the connections that no call uses.
func (s *Service) CloseIdle() { s.closeIdle() }

// Ready returns why the channel does not work, or nil (CH-179).
func (s *Service) Ready() error { return context.Cause(s.failed) }

// Fail ends the channel: it cannot work until someone changes its settings.
func (s *Service) Fail(err error) { s.fail(err) }

// Queue is where events go; nil while the channel does not serve.
func (s *Service) Queue() *kernel.Queue { return s.queue.Load() }

// Arrival returns an event for the queue. A message can be a part of a bundle; other events are none.
func (s *Service) Arrival(k *kernel.Kernel, in *channel.Input, kind channel.EventKind, raw []byte) kernel.Arrival {
	o := s.settings
	a := kernel.Arrival{Raw: raw, Key: channel.EventKey{
		Channel: o.Name, Account: o.Account, Conversation: in.ConversationID, Thread: in.ThreadID, ID: in.ID,
	}}
	if kind == channel.EventMessage {
		a.Bundle, a.Wait = k.Bundle(o.Name, o.Account, in)
	}
	return a
}

// CommandPolicy returns who may give commands in direct conversations. ok is false if no one may.
func (s *Service) CommandPolicy(k *kernel.Kernel) (p channel.Policy, ok bool) {
	if k.Settings == nil {
		return p, false
	}
	p = k.Settings.Policy(channel.PolicyQuery{Channel: s.settings.Name, Account: s.settings.Account, Kind: channel.Direct})
	return p, p.CommandMode != channel.CommandsOff
}

// Serve serves until ctx ends, which is no error, or the channel fails. It is called once.
func (s *Service) Serve(ctx context.Context, q *kernel.Queue, o ServiceOptions) error {
	defer s.CloseIdle()
	s.queue.Store(q)
	defer s.queue.Store(nil)
	serving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.failed, func() { stop(s.Ready()) })()
	err := s.connect(serving, q, &o)
	if failed := s.Ready(); failed != nil {
		return failed
	}
	if ctx.Err() != nil { // someone wanted its end
		return nil
	}
	return err
}

// connect asks who the bot is, and then runs events.
func (s *Service) connect(ctx context.Context, q *kernel.Queue, o *ServiceOptions) error {
	if o.Identify != nil {
		if err := Persist(ctx, s.Log, "cannot ask the platform for the bot; retrying", o.Identify, o.Lasting...); err != nil {
			return err
		}
		s.Log.InfoContext(ctx, "channel is connected", "bot", o.Bot())
	}
	if o.Started != nil {
		o.Started(ctx, q.Kernel())
	}
	receive := o.Receive
	if only := q.Exclusive(); receive != nil && o.Exclusive && only != nil {
		receive = func(ctx context.Context) error { return s.receiveAlone(ctx, only, o.Receive) }
	}
	h := kernel.Handler{Channel: s.settings.Name, Account: s.settings.Account, Grace: s.settings.Grace, Sender: o.Sender}
	h.Run = func(ctx context.Context, _ *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
		return o.Run(ctx, &Event{Kernel: q.Kernel(), Meta: m, Agent: s.settings.Agent, Media: s.Files})
	}
	return q.Serve(ctx, h, receive)
}

// receiveAlone calls receive while this replica is the one that may.
func (s *Service) receiveAlone(ctx context.Context, only channel.Exclusive, receive func(context.Context) error) error {
	for {
		alone, release, err := only.Only(ctx, s.Login())
		if err != nil {
			return fmt.Errorf("wait for the other replicas: %w", err)
		}
		s.Log.InfoContext(ctx, "this replica polls the platform", "account", s.settings.Account)
		err = receive(alone)
		taken := alone.Err() != nil && ctx.Err() == nil
		release()
		if !taken {
			return err
		}
		s.Log.WarnContext(ctx, "another replica may poll the platform now", "account", s.settings.Account)
	}
}
