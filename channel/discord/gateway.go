package discord

import (
	"context"
	"errors"
	"fmt"
	"io"
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

	// maxWaiting is how many events wait in memory while they cannot be stored. Then the gateway is not read until they are.
	maxWaiting = 1000
	// disallowedIntents is the code of a connection that asks for messages which the bot may not read.
	disallowedIntents = 4014
)

// fatal has the codes of connections that end because a setting is wrong.
var fatal = map[int]error{
	4004:              errors.New("discord: " + badToken.Text),
	4011:              errors.New("discord: the bot is in more servers than one connection may have; remove it from some, because this channel has no shards"),
	disallowedIntents: errors.New("discord: the bot may not read messages; turn on \"Message Content Intent\" on the page Bot of the application"),
}

// receive reads the events of the gateway until ctx ends. The library's session identifies, resumes and sends heartbeats. This loop opens it again: the
// library would go on for ever, also after errors that last, and would tell no one.
func (c *Channel) receive(ctx context.Context) error {
	events, ended := make(chan *event, maxWaiting), make(chan struct{}, 1)
	s, err := c.session(ctx, events, ended)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.consume(ctx, s.State, events) })
	for pauses := backoff.New(platform.FirstPause, platform.MaxPause); ctx.Err() == nil; {
		select {
		case <-ended: // an earlier connection said so twice
		default:
		}
		err := c.open(ctx, s)
		if err == nil {
			pauses.Reset()
			<-ended // at the latest with ctx
			c.Log.InfoContext(ctx, "the connection to the gateway has ended")
			continue
		}
		if closed, ok := errors.AsType[*websocket.CloseError](err); ok && fatal[closed.Code] != nil {
			c.Fail(fatal[closed.Code])
			return fatal[closed.Code]
		}
		if platform.Is(err, badToken) || ctx.Err() != nil {
			return err
		}
		pause := pauses.NextBackOff()
		c.Log.WarnContext(ctx, "cannot connect to the gateway; retrying", "error", err, "pause", pause)
		_ = backoff.Sleep(ctx, pause)
	}
	return context.Cause(ctx)
}

// session returns a session of the library, which is not open. Its events go to events, in order, and nil at the start of each session of the gateway; a connection that has ended says so to ended.
func (c *Channel) session(ctx context.Context, events chan<- *event, ended chan<- struct{}) (*discordgo.Session, error) {
	s, err := discordgo.New("Bot " + c.api.token)
	if err != nil {
		return nil, err
	}
	s.LogLevel = -1 // its log would repeat what people write
	s.SyncEvents, s.ShouldReconnectOnError, s.ShouldReconnectVoiceOnSessionError = true, false, false
	s.State.TrackEmojis, s.State.TrackStickers, s.State.TrackPresences, s.State.TrackVoice, s.State.TrackThreadMembers = false, false, false, false, false
	s.Identify.Intents = intents
	s.Dialer = platform.NewDialer(ctx, c.HTTP, c.s.ProxyEnv)
	s.AddHandler(func(s *discordgo.Session, came *discordgo.Event) {
		e := c.newEvent(s.State, came.Type, came.RawData, nil)
		if e == nil && came.Type != ready {
			return
		}
		select {
		case events <- e:
		case <-ctx.Done():
		}
	})
	s.AddHandler(func(*discordgo.Session, *discordgo.Disconnect) {
		select {
		case ended <- struct{}{}:
		default: // it was said already
		}
	})
	return s, nil
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

// answer is the answer to the one call that the library makes by itself, for the address of the gateway.
type answer string

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

// gatewayAddress asks where the gateway is. If the bot has connected too often today, it waits: the platform would make the token invalid.
func (c *Channel) gatewayAddress(ctx context.Context) (address string, err error) {
	var said discordgo.GatewayBotResponse
	err = c.api.do(ctx, request{what: "ask for the gateway", method: http.MethodGet, path: "/gateway/bot", out: &said, harmless: true})
	if limit := said.SessionStartLimit; err == nil && limit.Total > 0 && limit.Remaining <= 0 {
		pause := time.Duration(limit.ResetAfter) * time.Millisecond
		c.Log.WarnContext(ctx, "the bot has connected to the gateway too often today; waiting", "pause", pause)
		err = backoff.Sleep(ctx, pause)
	}
	return said.URL, err
}
