// Package service is how a channel with one door serves: from knowing who the bot is until its end, or until the platform says that
// its token is none. The channels of all platforms that have to be asked for something first share it.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/lingserve/lingserve/channel"
)

// Service is one channel's. The zero value is one that does not serve yet; it is safe for concurrent use.
type Service struct {
	mu     sync.Mutex
	door   *channel.Door           // while it serves
	stop   context.CancelCauseFunc // of what serves
	broken error
}

// Options of serving. Door.Run and Connect are required.
type Options struct {
	Door channel.DoorOptions
	// Name is what the outbox knows Sender by.
	Name   string
	Sender channel.Sender
	// Connect asks the platform who the bot is, for as long as that takes. Nothing runs before it is known, also of what was left
	// from before.
	Connect func(context.Context) error
	// Receive fetches events until its context ends; nil where the platform brings them.
	Receive func(context.Context, *channel.Door) error
	// Exclusive says that the platform lets one program at a time receive: of several processes with the kernel's Only, one does, and
	// the others stand by.
	Exclusive bool
}

// Ready says why the channel does not work, nil where it does (CH-179).
func (s *Service) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// Fail ends the channel: nothing can work until somebody changes its settings.
func (s *Service) Fail(err error) {
	s.mu.Lock()
	stop := s.stop
	s.broken = err
	s.mu.Unlock()
	if stop != nil {
		stop(err)
	}
}

// Door is where events go; nil while the channel does not serve.
func (s *Service) Door() *channel.Door {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.door
}

// Open lets events in to a door, until close is called. It is an error where there is one already.
func (s *Service) Open(door *channel.Door, stop context.CancelCauseFunc) (close func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.door != nil {
		return nil, errors.New("the channel serves already")
	}
	s.door, s.stop, s.broken = door, stop, nil
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.door, s.stop = nil, nil
	}, nil
}

// Serve serves until ctx ends, which is no error, or the channel fails.
func (s *Service) Serve(ctx context.Context, k *channel.Kernel, o Options) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	o.Door.Parks = true // an answer goes to the conversation, whenever it comes
	door := channel.NewDoor(k, o.Door)
	shut, err := s.Open(door, stop)
	if err != nil {
		return err
	}
	defer shut()
	if k.Outbox != nil {
		k.Outbox.Register(o.Name, o.Sender)
		defer k.Outbox.Register(o.Name, nil)
	}
	if err = o.Connect(ctx); err == nil {
		var receive func(context.Context) error
		if o.Receive != nil {
			receive = func(ctx context.Context) error { return o.receive(ctx, k.Only, door) }
		}
		err = door.Serve(ctx, receive)
	}
	if bad := s.Ready(); bad != nil {
		return bad
	}
	if ctx.Err() != nil { // somebody wanted its end
		return nil
	}
	return err
}

// receive calls Receive, when this process is the one that may, and again when it has become it again.
func (o *Options) receive(ctx context.Context, only channel.Exclusive, door *channel.Door) error {
	if only == nil || !o.Exclusive {
		return o.Receive(ctx, door)
	}
	log := cmp.Or(o.Door.Log, slog.New(slog.DiscardHandler))
	for {
		alone, release, err := only.Only(ctx, o.Name)
		if err != nil {
			return fmt.Errorf("wait for the other replicas: %w", err)
		}
		log.InfoContext(ctx, "this replica polls the platform", "channel", o.Name)
		err = o.Receive(alone, door)
		taken := alone.Err() != nil && ctx.Err() == nil
		release()
		if !taken {
			return err
		}
		log.WarnContext(ctx, "another replica may poll the platform now", "channel", o.Name)
	}
}
