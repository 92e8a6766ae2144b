package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

const (
	saveEvery = 10 * time.Second
	maxSeen   = 500 // conversations whose newest message is known
	pageSize  = 100
	maxPages  = 5 // of one conversation that are fetched
	// maxMissed is how old a message may be that is fetched. The store of events forgets those that have run after a day, so that older ones could
	// run again.
	maxMissed = 20 * time.Hour
	// answerWithin is how long the platform waits for the answer to an interaction.
	answerWithin = 3 * time.Second
)

// reader stores the events of the gateway. It remembers the newest message of each conversation that the agent takes part in: direct ones, and
// those that it has written in. One goroutine uses it.
type reader struct {
	c       *Channel
	newest  map[string]string // message, by conversation
	changed bool              // since newest was saved
	answers sync.WaitGroup    // to interactions
}

// consume stores events until ctx ends. An event that cannot be stored is tried again; those behind it wait.
func (c *Channel) consume(ctx context.Context, events <-chan *discordgo.Event) {
	r := &reader{c: c, newest: map[string]string{}}
	if c.state != nil {
		if err := platform.ReadState(c.state, c.stateName(), &r.newest); err != nil {
			c.log.WarnContext(ctx, "cannot read how far conversations were read; messages of the meantime are not fetched", "channel", c.name, "error", err)
		}
	}
	defer r.save()
	defer r.answers.Wait()
	ticker := time.NewTicker(saveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.save()
		case e := <-events:
			r.take(ctx, e)
		}
	}
}

func (c *Channel) stateName() string { return kernel.Login(c.name, c.account) }

// save stores the newest messages, so that the next process goes on behind them.
func (r *reader) save() {
	if !r.changed || r.c.state == nil {
		return
	}
	if len(r.newest) > maxSeen {
		oldest := slices.SortedFunc(maps.Keys(r.newest), func(a, b string) int { return compareIDs(r.newest[a], r.newest[b]) })
		for _, id := range oldest[:len(oldest)-maxSeen] {
			delete(r.newest, id)
		}
	}
	err := platform.ChangeState(r.c.state, r.c.stateName(), func(map[string]string) (map[string]string, bool) { return r.newest, true })
	if err != nil {
		r.c.log.Warn("cannot store how far conversations were read", "channel", r.c.name, "error", err)
		return
	}
	r.changed = false
}

// take does what an event of the gateway asks for.
func (r *reader) take(ctx context.Context, e *discordgo.Event) {
	switch e.Type {
	case "READY": // a new session, which begins without the events since the last one
		r.fetchMissed(ctx)
	case "CHANNEL_UPDATE", "CHANNEL_DELETE", "THREAD_UPDATE", "THREAD_DELETE", "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE":
		var changed struct {
			ID    string `json:"id"`
			Guild string `json:"guild_id"`
		}
		if json.Unmarshal(e.RawData, &changed) == nil {
			r.c.places.forget(changed.ID, changed.Guild)
		}
	case messageCreate, messageUpdate, messageDelete, messageDeleteBulk, interactionCreate:
		r.accept(ctx, &event{Type: e.Type, Data: e.RawData}, false)
	}
}

// fetchMissed fetches the messages behind the newest of each conversation.
func (r *reader) fetchMissed(ctx context.Context) {
	for _, id := range slices.Sorted(maps.Keys(r.newest)) {
		err := r.fetchBehind(ctx, id)
		switch {
		case is(err, noChannel, noAccess):
			delete(r.newest, id)
			r.changed = true
		case err != nil && ctx.Err() == nil:
			r.c.log.WarnContext(ctx, "cannot fetch messages of the meantime", "channel", r.c.name, "conversation", id, "error", err)
		}
	}
}

func (r *reader) fetchBehind(ctx context.Context, id string) error {
	for range maxPages {
		var page []json.RawMessage
		err := r.c.api.do(ctx, request{
			what: "fetch messages", method: http.MethodGet, path: messagesAfter(id, r.newest[id]), out: &page, harmless: true,
		})
		if err != nil {
			return err
		}
		var list []*event
		for _, raw := range page {
			if e := (&event{Type: messageCreate, Data: raw}); e.decode() == nil && time.Since(timeOf(e.message.ID)) < maxMissed {
				list = append(list, e)
			}
		}
		slices.SortFunc(list, func(a, b *event) int { return compareIDs(a.message.ID, b.message.ID) })
		for _, e := range list {
			r.accept(ctx, e, true)
		}
		if len(page) < pageSize || len(list) == 0 {
			break
		}
	}
	return nil
}

// accept stores an event, if an agent could be told of it, however long that takes.
func (r *reader) accept(ctx context.Context, e *event, fetched bool) {
	if err := e.decode(); err != nil {
		r.c.log.WarnContext(ctx, "invalid event from the platform", "channel", r.c.name, "type", e.Type)
		return
	}
	own := e.message.Author.ID == r.c.me.Load().ID
	if !own && e.matters() {
		err := r.c.persist(ctx, "cannot store an event; retrying", func(ctx context.Context) error { return r.store(ctx, e, fetched) })
		if err != nil {
			return
		}
	}
	if _, known := r.newest[e.message.ChannelID]; e.Type == messageCreate && (known || own || e.direct()) {
		r.newest[e.message.ChannelID] = slices.MaxFunc([]string{r.newest[e.message.ChannelID], e.message.ID}, compareIDs)
		r.changed = true
	}
}

// matters reports whether an agent or a window could be told of the event.
func (e *event) matters() bool {
	switch {
	case e.message.ChannelID == "":
		return false
	case e.interaction != nil:
		return e.interaction.Type == discordgo.InteractionApplicationCommand || e.interaction.Type == discordgo.InteractionMessageComponent
	case e.Type == messageUpdate: // without a time, only the platform has changed it: it has looked at a link
		return e.message.Edited != nil && e.message.GuildID != ""
	case e.Type != messageCreate:
		return e.message.GuildID != ""
	}
	return true
}

// direct reports whether the event is of a direct conversation.
func (e *event) direct() bool { return cmp.Or(e.Place.GuildID, e.message.GuildID) == "" }

func (r *reader) store(ctx context.Context, e *event, fetched bool) error {
	c, q := r.c, r.c.service.Queue()
	if err := c.describe(ctx, e, fetched); err != nil {
		return err
	}
	raw, err := json.Marshal(e)
	if err != nil || q == nil {
		return cmp.Or(err, channel.ErrDraining)
	}
	a := kernel.Arrival{Key: channel.EventKey{Channel: c.name, Account: c.account, Conversation: e.message.ChannelID, ID: e.id()}, Raw: raw}
	if e.kind() == channel.EventMessage {
		a.Bundle, a.Wait = q.Kernel().Bundle(c.name, c.account, c.input(e))
	}
	if e.interaction == nil {
		_, err = q.Accept(ctx, a)
		return err
	}
	answered := make(chan struct{}) // what the turn says waits for that
	c.answering.Store(e.interaction.Token, answered)
	isNew, err := q.Accept(ctx, a)
	if err != nil || !isNew[0] {
		c.answering.Delete(e.interaction.Token)
		return err
	}
	r.answers.Go(func() {
		c.acknowledge(ctx, e.interaction)
		c.answering.Delete(e.interaction.Token)
		close(answered)
	})
	return nil
}
