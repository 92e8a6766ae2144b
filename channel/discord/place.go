package discord

import (
	"context"
	"net/http"
	"slices"

	"github.com/bwmarrin/discordgo"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/lingserve/lingserve/channel"
)

// place is a channel or thread. An empty one is a direct conversation.
type place struct {
	GuildID  string                `json:"guild_id,omitempty"`
	Type     discordgo.ChannelType `json:"type,omitempty"`
	Name     string                `json:"name,omitempty"`
	ParentID string                `json:"parent_id,omitempty"` // the channel of a thread, or the category of a channel
	OwnerID  string                `json:"owner_id,omitempty"`  // who began a thread
}

func (p *place) isThread() bool {
	return p.Type == discordgo.ChannelTypeGuildNewsThread || p.Type == discordgo.ChannelTypeGuildPublicThread || p.Type == discordgo.ChannelTypeGuildPrivateThread
}

// parent returns the channel that a thread is in; "" for a channel.
func (p *place) parent() string {
	if p.isThread() {
		return p.ParentID
	}
	return ""
}

// role is one of a guild.
type role struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Tags struct {
		BotID string `json:"bot_id"`
	} `json:"tags"`
}

// places keeps what the platform says of channels and guilds, until it says that they have changed. One goroutine uses it.
type places struct {
	api   *api
	known *simplelru.LRU[string, place]  // by channel
	roles *simplelru.LRU[string, []role] // by guild
}

const maxPlaces, maxGuilds = 10_000, 1000

func newPlaces(a *api) *places {
	known, _ := simplelru.NewLRU[string, place](maxPlaces, nil) // fails for a size below 1 only
	roles, _ := simplelru.NewLRU[string, []role](maxGuilds, nil)
	return &places{api: a, known: known, roles: roles}
}

// channel asks for a channel. The bot may get messages of one that it may not ask for: of that, only the guild is known.
func (p *places) channel(ctx context.Context, id, guild string) (place, error) {
	if found, ok := p.known.Get(id); ok {
		return found, nil
	}
	found := place{GuildID: guild}
	err := p.api.do(ctx, request{what: "ask for a channel", method: http.MethodGet, path: "/channels/" + id, out: &found, harmless: true})
	if err != nil && !judge(err).Refused {
		return place{}, err
	}
	p.known.Add(id, found)
	return found, nil
}

func (p *places) rolesOf(ctx context.Context, guild string) ([]role, error) {
	if found, ok := p.roles.Get(guild); ok {
		return found, nil
	}
	var found []role
	err := p.api.do(ctx, request{what: "ask for the roles of a server", method: http.MethodGet, path: "/guilds/" + guild + "/roles", out: &found, harmless: true})
	if err != nil && !judge(err).Refused {
		return nil, err
	}
	p.roles.Add(guild, found)
	return found, nil
}

// forget forgets a channel, and the roles of a guild, which have changed.
func (p *places) forget(channel, guild string) {
	p.known.Remove(channel)
	p.roles.Remove(guild)
}

// maxNames bounds the channels that are looked up for one text.
const maxNames = 10

// describe completes an event by what only this process can find out. A message that was fetched does not say which guild it is of. What the
// platform refuses to say stays unknown.
func (c *Channel) describe(ctx context.Context, e *event, fetched bool) (err error) {
	m := &e.message
	if m.GuildID == "" && !fetched {
		return nil
	}
	if e.Place, err = c.places.channel(ctx, m.ChannelID, m.GuildID); err != nil || e.direct() || e.kind() != channel.EventMessage {
		return err
	}
	if fetched && m.WebhookID == "" {
		err = c.api.do(ctx, request{
			what: "ask for a member", method: http.MethodGet, path: "/guilds/" + e.Place.GuildID + "/members/" + m.Author.ID, out: &e.Member, harmless: true,
		})
		if err != nil && !judge(err).Refused {
			return err
		}
	}
	return c.nameMarks(ctx, e)
}

// nameMarks finds the names of the channels and roles in a text.
func (c *Channel) nameMarks(ctx context.Context, e *event) error {
	m := &e.message
	e.Names = map[string]string{}
	for _, mark := range marks.FindAllStringSubmatch(m.Content, -1) {
		if id := mark[2]; mark[1] == "#" && len(e.Names) < maxNames {
			there, err := c.places.channel(ctx, id, e.Place.GuildID)
			if err != nil {
				return err
			}
			e.Names["#"+id] = there.Name
		}
	}
	if len(m.MentionRoles) == 0 {
		return nil
	}
	roles, err := c.places.rolesOf(ctx, e.Place.GuildID)
	for _, r := range roles {
		if slices.Contains(m.MentionRoles, r.ID) {
			e.Names["&"+r.ID] = r.Name
		}
		if r.Tags.BotID == c.me.Load().ID {
			e.Role = r.ID
		}
	}
	return err
}
