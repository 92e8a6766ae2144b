package discord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"

	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/backoff"
)

const (
	intents = discordgo.IntentGuilds | discordgo.IntentGuildMessages | discordgo.IntentDirectMessages | discordgo.IntentMessageContent

	// maxSilence is longer than the platform's heartbeats, which are answered every 41 s.
	maxSilence = 2 * time.Minute
	// maxWaiting is how many events wait in memory while they cannot be stored. Then the gateway is not read until they are.
	maxWaiting = 1000
)

var errNoContent = errors.New("discord: the bot may not read messages; turn on \"Message Content Intent\" on the page Bot of the application")

// fatal has the codes of connections that end because a setting is wrong.
var fatal = map[int]error{
	4004: errors.New("discord: " + string(badToken)),
	4010: errors.New("discord: the gateway refuses the shard"),
	4011: errors.New("discord: the bot is in too many servers for one connection; leave some, because this channel has no shards"),
	4012: errors.New("discord: the gateway does not know this version of its protocol"),
	4013: errors.New("discord: the gateway does not know the intents"),
	4014: errNoContent,
}

// receive reads the events of the gateway until ctx ends. The library's session identifies, resumes and sends heartbeats. That it connects again is
// left to this loop, because the library would go on after errors that last, and tells of none.
func (c *Channel) receive(ctx context.Context) error {
	events, ended := make(chan *discordgo.Event, maxWaiting), make(chan struct{}, 1)
	s, err := c.session(ctx, events, ended)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.consume(ctx, events) })
	pauses := backoff.New(platform.FirstPause, platform.MaxPause)
	for ctx.Err() == nil {
		select {
		case <-ended: // of an earlier connection
		default:
		}
		err := c.open(ctx, s)
		if err == nil {
			pauses.Reset()
			<-ended // connections end with ctx
			c.log.InfoContext(ctx, "the connection to the gateway has ended", "channel", c.name)
			continue
		}
		if code, ok := errors.AsType[*websocket.CloseError](err); ok && fatal[code.Code] != nil {
			c.service.Fail(fatal[code.Code])
			return fatal[code.Code]
		}
		if is(err, badToken) || ctx.Err() != nil {
			break
		}
		wait := pauses.NextBackOff()
		if limit, ok := errors.AsType[*startLimit](err); ok {
			wait = max(wait, limit.wait)
		}
		c.log.WarnContext(ctx, "cannot connect to the gateway; retrying", "channel", c.name, "error", err, "pause", wait)
		_ = backoff.Sleep(ctx, wait)
	}
	return context.Cause(ctx)
}

// session returns a session of the library that is not open. Its events go to events, in order; ended is sent to when a connection has ended.
func (c *Channel) session(ctx context.Context, events chan<- *discordgo.Event, ended chan<- struct{}) (*discordgo.Session, error) {
	s, err := discordgo.New("Bot " + c.api.token)
	if err != nil {
		return nil, err
	}
	s.LogLevel = -1 // its log has no attributes, and repeats what people write
	s.StateEnabled, s.SyncEvents = false, true
	s.ShouldReconnectOnError, s.ShouldReconnectVoiceOnSessionError = false, false
	s.Identify.Intents = intents
	t := c.transport
	s.Dialer = &websocket.Dialer{HandshakeTimeout: callTimeout, Proxy: t.Proxy, TLSClientConfig: t.TLSClientConfig, NetDialContext: func(_ context.Context, network, address string) (net.Conn, error) {
		conn, err := t.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &connection{Conn: conn, forget: context.AfterFunc(ctx, func() { conn.Close() })}, nil
	}}
	s.AddHandler(func(_ *discordgo.Session, e *discordgo.Event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	})
	s.AddHandler(func(*discordgo.Session, *discordgo.Disconnect) {
		select {
		case ended <- struct{}{}:
		default: // the last one was not read yet
		}
	})
	return s, nil
}

// connection is one to the gateway. It ends with the context of the channel, and if nothing comes for too long: the library has no time limits.
type connection struct {
	net.Conn
	forget func() bool
}

func (c *connection) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(maxSilence))
	return c.Conn.Read(p)
}

func (c *connection) Close() error {
	c.forget()
	return c.Conn.Close()
}

// open connects and identifies, or resumes.
func (c *Channel) open(ctx context.Context, s *discordgo.Session) error {
	address, err := c.gatewayAddress(ctx)
	if err != nil {
		return err
	}
	s.Client = &http.Client{Transport: answer(`{"url":` + strconv.Quote(address+"/") + `}`)}
	err = s.Open()
	if _, ok := errors.AsType[*websocket.CloseError](err); ok || err == nil {
		return err
	}
	return fmt.Errorf("discord: connect to the gateway: %w", platform.Bare(ctx, err))
}

// answer answers the one call that the library makes by itself, for the address of the gateway.
type answer string

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

// startLimit says that the bot has connected too often: the platform would make its token invalid.
type startLimit struct{ wait time.Duration }

func (l *startLimit) Error() string {
	return "discord: the bot has connected to the gateway too often today"
}

// gatewayAddress asks where the gateway is.
func (c *Channel) gatewayAddress(ctx context.Context) (address string, err error) {
	var said struct {
		URL   string `json:"url"`
		Limit struct {
			Remaining  *int  `json:"remaining"`
			ResetAfter int64 `json:"reset_after"` // milliseconds
		} `json:"session_start_limit"`
	}
	err = c.api.do(ctx, request{what: "ask for the gateway", method: http.MethodGet, path: "/gateway/bot", out: &said, harmless: true})
	if err == nil && said.Limit.Remaining != nil && *said.Limit.Remaining <= 0 {
		err = &startLimit{time.Duration(said.Limit.ResetAfter) * time.Millisecond}
	}
	return said.URL, err
}
