package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

const (
	saveEvery = 10 * time.Second
	maxNewest = 500 // conversations
	pageSize  = 100
	maxPages  = 5 // that are fetched of a conversation
	// maxMissed is how old a message may be that is fetched. The store of events forgets those that have run after a day; an older one could run again.
	maxMissed = 20 * time.Hour
)

// reader stores the events of the gateway. It remembers the newest message of each conversation that the agent takes part in: direct ones, and those that
// it has written in. One goroutine uses it.
type reader struct {
	c       *Channel
	state   *discordgo.State
	newest  map[string]string // message, by conversation
	changed bool              // since newest was saved
}

// consume stores events until ctx ends.
func (c *Channel) consume(ctx context.Context, state *discordgo.State, events <-chan *event) {
	r := &reader{c: c, state: state, newest: map[string]string{}}
	if err := platform.ReadState(c.s.State, c.Login(), &r.newest); err != nil {
		c.Log.WarnContext(ctx, "cannot read how far conversations were read; missed messages are not fetched", "error", err)
	}
	defer r.save()
	ticker := time.NewTicker(saveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.save()
		case e := <-events:
			if e != nil {
				r.accept(ctx, e)
				continue
			}
			for _, id := range slices.Sorted(maps.Keys(r.newest)) { // a new session does not get the events of the last one
				r.fetchMissed(ctx, id)
			}
		}
	}
}

// save stores the newest messages, so that the next process goes on behind them.
func (r *reader) save() {
	if !r.changed {
		return
	}
	oldest := slices.SortedFunc(maps.Keys(r.newest), func(a, b string) int { return compareIDs(r.newest[a], r.newest[b]) })
	for _, id := range oldest[:max(len(oldest)-maxNewest, 0)] {
		delete(r.newest, id)
	}
	err := platform.ChangeState(r.c.s.State, r.c.Login(), func(map[string]string) (map[string]string, bool) { return r.newest, true })
	if r.changed = err != nil; r.changed {
		r.c.Log.Warn("cannot store how far conversations were read", "error", err)
	}
}

// fetchMissed fetches the messages of a conversation behind its newest. They do not say where they are.
func (r *reader) fetchMissed(ctx context.Context, id string) {
	var ch discordgo.Channel
	err := r.c.api.do(ctx, request{what: "ask for a channel", method: http.MethodGet, path: "/channels/" + id, out: &ch, harmless: true})
	for n, more := 0, true; err == nil && more && n < maxPages; n++ {
		var page []json.RawMessage
		path := fmt.Sprintf("/channels/%s/messages?limit=%d&after=%s", id, pageSize, r.newest[id])
		err = r.c.api.do(ctx, request{what: "fetch messages", method: http.MethodGet, path: path, out: &page, harmless: true})
		more = len(page) == pageSize
		var list []*event
		for _, raw := range page {
			if e := r.c.newEvent(r.state, messageCreate, raw, &ch); e != nil {
				list = append(list, e)
			}
		}
		slices.SortFunc(list, func(a, b *event) int { return compareIDs(a.Message.ID, b.Message.ID) })
		for _, e := range list {
			if time.Since(e.Message.Timestamp) < maxMissed {
				r.accept(ctx, e)
			}
			r.note(e)
		}
	}
	if platform.Is(err, noChannel, noAccess) {
		delete(r.newest, id)
		r.changed = true
	} else if err != nil {
		r.c.Log.WarnContext(ctx, "cannot fetch missed messages", "conversation", id, "error", err)
	}
}

// compareIDs compares ids by their age.
func compareIDs(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// note remembers a message as the newest of its conversation.
func (r *reader) note(e *event) {
	at := e.Message.ChannelID
	if _, known := r.newest[at]; e.Kind == channel.EventMessage && (known || e.direct() || r.c.sender(&e.Message).IsSelf) {
		r.newest[at] = slices.MaxFunc([]string{r.newest[at], e.Message.ID}, compareIDs)
		r.changed = true
	}
}

// accept stores an event, however long that takes.
func (r *reader) accept(ctx context.Context, e *event) {
	var err error
	if !r.c.sender(&e.Message).IsSelf {
		err = platform.Persist(ctx, r.c.Log, "cannot store an event; retrying", func(ctx context.Context) error { return r.store(ctx, e) })
	}
	if err == nil {
		r.note(e)
	}
}

func (r *reader) store(ctx context.Context, e *event) error {
	c, q := r.c, r.c.Queue()
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
