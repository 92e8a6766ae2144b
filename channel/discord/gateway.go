package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/backoff"
)

const (
	intents = discordgo.IntentGuilds | discordgo.IntentGuildMessages | discordgo.IntentDirectMessages | discordgo.IntentMessageContent

	// maxWaiting is how many events wait in memory while they cannot be stored. Then the gateway is not read until they are.
	maxWaiting = 1000
	maxFetched = 500 // conversations whose missed messages are fetched
	pageSize   = 100
	maxPages   = 5 // that are fetched of a conversation
	// maxMissed is how old a message may be that is fetched. The store of events forgets those that have run after a day; an older one could run again.
	maxMissed = 20 * time.Hour
)

// kindOfClose has the codes of connections that end because a setting is wrong.
var kindOfClose = map[int]*platform.Kind{4004: badToken, 4011: needsShards, 4014: noIntent}

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
	for {
		select {
		case <-ended: // the connection before has reported its end twice
		default:
		}
		err := platform.Persist(ctx, c.Log, "cannot connect to the gateway; retrying", func(ctx context.Context) error { return c.open(ctx, s) },
			badToken, needsShards, noIntent)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			c.Fail(err)
			return err
		}
		<-ended // at the latest with ctx
		c.Log.InfoContext(ctx, "the connection to the gateway has ended")
	}
}

// session returns a session of the library, which is not open. Its events go to events, in order, and nil at the start of each session of the gateway; a
// connection that has ended is reported to ended.
func (c *Channel) session(ctx context.Context, events chan<- *event, ended chan<- struct{}) (*discordgo.Session, error) {
	s, err := discordgo.New("Bot " + string(c.s.Token))
	if err != nil {
		return nil, err
	}
	s.LogLevel = -1 // its log would repeat what people write
	s.SyncEvents, s.ShouldReconnectOnError, s.ShouldReconnectVoiceOnSessionError = true, false, false
	s.State.TrackEmojis, s.State.TrackStickers, s.State.TrackPresences, s.State.TrackVoice, s.State.TrackThreadMembers = false, false, false, false, false
	s.Identify.Intents = intents
	s.Dialer = platform.NewDialer(ctx, c.HTTP, c.s.ProxyEnv)
	s.AddHandler(func(s *discordgo.Session, raw *discordgo.Event) {
		e := c.newEvent(s.State, raw.Type, raw.RawData, nil)
		if e == nil && raw.Type != ready {
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
		default: // it is reported already
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
	closed, isClosed := errors.AsType[*websocket.CloseError](err)
	switch {
	case isClosed && kindOfClose[closed.Code] != nil:
		err = &platform.Refusal{Kind: kindOfClose[closed.Code], Code: fmt.Sprint("code ", closed.Code)}
	case err != nil && !isClosed:
		err = platform.Bare(ctx, err)
	case err == nil:
		return nil
	}
	return fmt.Errorf("discord: connect to the gateway: %w", err)
}

// answer is the answer to the one call that the library makes by itself, for the address of the gateway.
type answer string

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

// gatewayAddress asks where the gateway is. If the bot has connected too often today, it waits: the platform would make the token invalid.
func (c *Channel) gatewayAddress(ctx context.Context) (address string, err error) {
	var gateway discordgo.GatewayBotResponse
	err = c.api.Attempt(ctx, platform.Request{Name: "ask for the gateway", Method: http.MethodGet, Path: "/gateway/bot", Out: &gateway})
	if limit := gateway.SessionStartLimit; err == nil && limit.Total > 0 && limit.Remaining <= 0 {
		pause := time.Duration(limit.ResetAfter) * time.Millisecond
		c.Log.WarnContext(ctx, "the bot has connected to the gateway too often today; waiting", "pause", pause)
		err = backoff.Sleep(ctx, pause)
	}
	return gateway.URL, err
}

// consume stores events until ctx ends. A new session does not get the events of the last one, so missed messages are fetched.
func (c *Channel) consume(ctx context.Context, state *discordgo.State, events <-chan *event) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if e == nil {
				c.fetchAllMissed(ctx, state)
			} else {
				c.accept(ctx, e)
			}
		}
	}
}

// accept stores an event, however long that takes.
func (c *Channel) accept(ctx context.Context, e *event) {
	if !c.sender(&e.Message).IsSelf {
		err := platform.Persist(ctx, c.Log, "cannot store an event; retrying", func(ctx context.Context) error { return c.store(ctx, e) })
		if err != nil {
			return
		}
	}
	c.note(ctx, e)
}

func (c *Channel) store(ctx context.Context, e *event) error {
	q := c.Queue()
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	a := c.Arrival(q.Kernel(), c.input(e), e.Kind, raw)
	if e.Interaction != nil {
		a.Key.Thread = channel.ThreadOfInteractions
	}
	_, err = q.Accept(ctx, a)
	return err
}

// note stores the id of the newest message of a conversation that the agent takes part in: a direct one, or one that it has written in.
func (c *Channel) note(ctx context.Context, e *event) {
	if e.Kind != channel.EventMessage {
		return
	}
	takesPart := e.direct() || c.sender(&e.Message).IsSelf
	err := c.s.State.Change(ctx, c.newestName(e.Message.ChannelID), func(newest []byte) ([]byte, error) {
		if newest == nil && !takesPart || compareIDs(string(newest), e.Message.ID) > 0 {
			return newest, nil
		}
		return []byte(e.Message.ID), nil
	})
	if err != nil && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "cannot store how far a conversation was read", "error", err)
	}
}

// newestName is the name in the state of the newest message of a conversation.
func (c *Channel) newestName(conversation string) string { return c.Login() + ":" + conversation }

// compareIDs compares ids by their age.
func compareIDs(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// fetchAllMissed fetches the messages that were written while the server was away, in the conversations with the newest messages.
func (c *Channel) fetchAllMissed(ctx context.Context, state *discordgo.State) {
	newest, err := c.s.State.All(ctx, c.newestName(""))
	if err != nil {
		c.Log.WarnContext(ctx, "cannot read how far conversations were read; missed messages are not fetched", "error", err)
	}
	names := slices.SortedFunc(maps.Keys(newest), func(a, b string) int { return compareIDs(string(newest[b]), string(newest[a])) })
	for _, name := range names[:min(len(names), maxFetched)] {
		conversation := strings.TrimPrefix(name, c.newestName(""))
		err := c.fetchMissed(ctx, state, conversation, string(newest[name]))
		if platform.Is(err, noChannel, noAccess) {
			err = c.s.State.Change(ctx, name, func([]byte) ([]byte, error) { return nil, nil })
		}
		if err != nil {
			c.Log.WarnContext(ctx, "cannot fetch missed messages", "conversation", conversation, "error", err)
		}
	}
}

// fetchMissed fetches the messages of a conversation behind one. They do not say where they are.
func (c *Channel) fetchMissed(ctx context.Context, state *discordgo.State, conversation, after string) error {
	var place discordgo.Channel
	err := c.api.Do(ctx, platform.Request{Name: "ask for a channel", Method: http.MethodGet, Path: "/channels/" + conversation, Out: &place, Harmless: true})
	for n, more := 0, true; err == nil && more && n < maxPages; n++ {
		var page []json.RawMessage
		path := fmt.Sprintf("/channels/%s/messages?limit=%d&after=%s", conversation, pageSize, after)
		err = c.api.Do(ctx, platform.Request{Name: "fetch messages", Method: http.MethodGet, Path: path, Out: &page, Harmless: true})
		more = len(page) == pageSize
		var list []*event
		for _, raw := range page {
			if e := c.newEvent(state, messageCreate, raw, &place); e != nil {
				list = append(list, e)
			}
		}
		slices.SortFunc(list, func(a, b *event) int { return compareIDs(a.ID, b.ID) })
		for _, e := range list {
			after = e.ID
			if time.Since(e.Message.Timestamp) < maxMissed {
				c.accept(ctx, e)
			} else {
				c.note(ctx, e)
			}
		}
	}
	return err
}
