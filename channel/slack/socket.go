package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/lingserve/lingserve/channel/platform"
)

const (
	maxEnvelope = 2 * maxEvent
	maxSilence  = 90 * time.Second // the platform sends a ping at least every 30 s
)

var errAppToken = errors.New("slack: Socket Mode refuses the app_token; make one with the scope connections:write on the app's page Basic Information, " +
	"and turn Socket Mode on")

// receiveSocket reads the events of Socket Mode until ctx ends. The library connects again when a connection ends.
func (c *Channel) receiveSocket(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	socket := socketmode.New(c.api, socketmode.OptionDialer(platform.NewDialer(ctx, c.HTTP, c.s.ProxyEnv)),
		socketmode.OptionReadLimit(maxEnvelope), socketmode.OptionPingInterval(maxSilence))
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		stop(platform.Persist(ctx, c.Log, "Socket Mode has ended; retrying", func(ctx context.Context) error {
			return c.socketError(ctx, socket.RunContext(ctx)) // the library gives up after some answers, such as status 404
		}))
	})
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e := <-socket.Events:
			c.readSocket(ctx, socket, e)
		}
	}
}

// readSocket stores the event of an envelope and acknowledges it. What is not stored is not acknowledged, so that the platform sends it again. What cannot
// be read never can.
func (c *Channel) readSocket(ctx context.Context, socket *socketmode.Client, e socketmode.Event) {
	r := e.Request
	switch data := e.Data.(type) {
	case *slackgo.ConnectionErrorEvent:
		c.Log.WarnContext(ctx, "cannot connect to Socket Mode; retrying", "error", c.socketError(ctx, data.ErrorObj), "pause", data.Backoff)
	case *socketmode.ErrorBadMessage: // of a kind that the library does not know
		r = new(socketmode.Request)
		_ = json.Unmarshal(data.Message, r)
	}
	if r == nil || r.EnvelopeID == "" {
		return
	}
	parsed, err := parseEvent(r.Payload)
	if err != nil {
		c.Log.WarnContext(ctx, "ignored an event of an unknown form")
	} else if c.accept(ctx, parsed, r.Payload) != nil {
		return
	}
	_ = socket.AckCtx(ctx, r.EnvelopeID, nil)
}

// socketError returns what an error of Socket Mode means. It stops the channel if the token is invalid.
func (c *Channel) socketError(ctx context.Context, err error) error {
	refusal, ok := errors.AsType[*platform.Refusal](readError(ctx, err))
	switch {
	case !ok:
		return platform.Bare(ctx, err) // without the address, which has the ticket of a connection in it
	case platform.Is(refusal, badToken, noScope):
		c.Fail(errAppToken)
		return errAppToken
	}
	return fmt.Errorf("slack: apps.connections.open: %w", refusal)
}
