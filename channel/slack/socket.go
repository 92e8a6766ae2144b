package slack

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/slack-go/slack/socketmode"

	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/backoff"
)

const (
	maxEnvelope  = 2 * maxEvent
	writeTimeout = 10 * time.Second
	linkDisabled = "link_disabled" // why the platform disconnects
)

var (
	errAppToken = errors.New("slack: Socket Mode refuses the app_token; make one with the scope connections:write on the app's page Basic Information, " +
		"and turn Socket Mode on")
	errSocketMode = errors.New("slack: Socket Mode was turned off; turn it on on the app's page Socket Mode and restart the server, or remove the setting app_token")
)

// receiveSocket reads the events of Socket Mode until ctx ends. When the platform announces the end of a connection, the next one opens while events still
// come by the last: a slash command or a button press that finds no connection is lost.
func (c *Channel) receiveSocket(ctx context.Context) error {
	var readers sync.WaitGroup
	defer readers.Wait()
	dialer := platform.NewDialer(ctx, c.HTTP, c.s.ProxyEnv)
	for pauses := backoff.New(platform.FirstPause, platform.MaxPause); ctx.Err() == nil; {
		conn, err := c.openSocket(ctx, dialer)
		if err == nil {
			pauses.Reset()
			replace := make(chan struct{})
			readers.Go(func() { c.readSocket(ctx, conn, sync.OnceFunc(func() { close(replace) })) })
			<-replace // at the latest when ctx ends
		}
		pause := max(pauses.NextBackOff(), platform.RetryAfter(err))
		if err != nil && ctx.Err() == nil {
			c.Log.WarnContext(ctx, "cannot connect to Socket Mode; retrying", "error", err, "pause", pause)
		}
		_ = backoff.Sleep(ctx, pause)
	}
	return context.Cause(ctx)
}

// socketAddress asks for the address of a connection, which is for one use.
func (c *Channel) socketAddress(ctx context.Context) (string, error) {
	_, address, err := c.api.StartSocketModeContext(ctx)
	if err == nil {
		return address, nil
	}
	err = readError(err)
	if platform.Is(err, badToken, noScope) {
		c.Fail(errAppToken)
		return "", errAppToken
	}
	return "", fmt.Errorf("slack: apps.connections.open: %w", err)
}

func (c *Channel) openSocket(ctx context.Context, dialer *websocket.Dialer) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	address, err := c.socketAddress(ctx)
	if err != nil {
		return nil, err
	}
	conn, _, err := dialer.DialContext(ctx, address, nil)
	if err != nil {
		return nil, fmt.Errorf("slack: open a WebSocket: %w", platform.Bare(ctx, err))
	}
	conn.SetReadLimit(maxEnvelope)
	var hello socketmode.Request
	if conn.ReadJSON(&hello) != nil || hello.Type != socketmode.RequestTypeHello {
		conn.Close()
		return nil, errors.New("slack: Socket Mode closed the connection before it was ready; an app may have ten at a time")
	}
	return conn, nil
}

// readSocket stores the events of a connection and acknowledges them, until the connection ends. It calls replace when the next one is to be opened.
func (c *Channel) readSocket(ctx context.Context, conn *websocket.Conn, replace func()) {
	defer replace()
	defer conn.Close()
	for {
		var e socketmode.Request
		if conn.ReadJSON(&e) != nil {
			return
		}
		switch {
		case e.Type == socketmode.RequestTypeDisconnect && e.Reason == linkDisabled:
			c.Fail(errSocketMode)
			return
		case e.Type == socketmode.RequestTypeDisconnect:
			replace()
		case e.EnvelopeID == "":
		case c.acceptPayload(ctx, e.Payload) == nil:
			_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
			if conn.WriteJSON(socketmode.Response{EnvelopeID: e.EnvelopeID}) != nil {
				return // the platform sends the event again
			}
		}
	}
}

// acceptPayload stores the event of an envelope. What is not stored is not acknowledged, so that the platform sends it again. What cannot be read never can.
func (c *Channel) acceptPayload(ctx context.Context, payload []byte) error {
	e, err := parseEvent(payload)
	if err != nil {
		c.Log.WarnContext(ctx, "ignored an event of an unknown form")
		return nil
	}
	return c.accept(ctx, e, payload)
}
