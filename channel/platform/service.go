// Package platform is what every chat platform needs once: how a channel serves, calls of the platform that are repeated while that can help, the files
// of messages, and what was learned of the platform.
package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
)

// Service is how a channel serves: from knowing who the bot is until its end, or until the platform says that its token is invalid. The zero value does
// not serve yet.
type Service struct {
	mu     sync.Mutex
	queue  *kernel.Queue           // while it serves
	stop   context.CancelCauseFunc // ends serving
	broken error
}

// ServiceOptions are for [Service.Serve]. Handler, Run and Connect are required. Run is given events with Kernel, Meta, Agent and Media.
type ServiceOptions struct {
	Handler kernel.Handler // without Run
	Run     func(context.Context, *Event) (channel.Result, error)
	Agent   string // see [Event]
	Media   *MediaStore
	// Connect asks the platform who the bot is, for as long as that takes. No event runs before it returns.
	Connect func(context.Context) error
	// Receive fetches events until its context ends; nil: the platform brings them.
	Receive func(context.Context) error
	// Exclusive says that the platform lets one program at a time receive: of several replicas one does.
	Exclusive bool
	Log       *slog.Logger // nil is silent
}

// Ready returns why the channel does not work, or nil (CH-179).
func (s *Service) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// Fail ends the channel: it cannot work until someone changes its settings.
func (s *Service) Fail(err error) {
	s.mu.Lock()
	stop := s.stop
	s.broken = err
	s.mu.Unlock()
	if stop != nil {
		stop(err)
	}
}

// Queue is where events go; nil while the channel does not serve.
func (s *Service) Queue() *kernel.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue
}

// Serve serves until ctx ends, which is no error, or the channel fails.
func (s *Service) Serve(ctx context.Context, q *kernel.Queue, o ServiceOptions) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.mu.Lock()
	if s.queue != nil {
		s.mu.Unlock()
		return errors.New("the channel serves already")
	}
	s.queue, s.stop, s.broken = q, stop, nil
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.queue, s.stop = nil, nil
	}()
	err := o.Connect(ctx)
	if err == nil {
		var receive func(context.Context) error
		if o.Receive != nil {
			receive = func(ctx context.Context) error { return o.receive(ctx, q) }
		}
		o.Handler.Run = func(ctx context.Context, _ *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
			return o.Run(ctx, &Event{Kernel: q.Kernel(), Meta: m, Agent: o.Agent, Media: o.Media})
		}
		err = q.Serve(ctx, o.Handler, receive)
	}
	if bad := s.Ready(); bad != nil {
		return bad
	}
	if ctx.Err() != nil { // someone wanted its end
		return nil
	}
	return err
}

// receive calls Receive while this replica is the one that may.
func (o *ServiceOptions) receive(ctx context.Context, q *kernel.Queue) error {
	only := q.Exclusive()
	if only == nil || !o.Exclusive {
		return o.Receive(ctx)
	}
	login, log := kernel.Login(o.Handler.Channel, o.Handler.Account), cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	for {
		alone, release, err := only.Only(ctx, login)
		if err != nil {
			return fmt.Errorf("wait for the other replicas: %w", err)
		}
		log.InfoContext(ctx, "this replica polls the platform", "channel", login)
		err = o.Receive(alone)
		taken := alone.Err() != nil && ctx.Err() == nil
		release()
		if !taken {
			return err
		}
		log.WarnContext(ctx, "another replica may poll the platform now", "channel", login)
	}
}
