package slack

import (
	"cmp"
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel"
)

// people are the names of those who write. Events have only ids, so the platform is asked once an hour for each.
type people struct{ byID *lru.Cache[string, person] }

type person struct {
	name, handle string
	until        time.Time
}

const (
	knowFor     = time.Hour
	unknownFor  = 5 * time.Minute // after a question that failed
	nameTimeout = 3 * time.Second // a name is not worth more of a turn's time
)

func newPeople() *people {
	byID, _ := lru.New[string, person](maxKnown) // it fails for a size below 1 only
	return &people{byID}
}

// known is the name of a person as far as it is known, else "".
func (p *people) known(id string) string {
	one, _ := p.byID.Get(id)
	return cmp.Or(one.name, one.handle)
}

// named completes what is known of a sender.
func (c *Channel) named(ctx context.Context, s channel.SenderFacts) channel.SenderFacts {
	if s.Name != "" || s.ID == "" || s.IsSelf || s.IsBot {
		return s
	}
	one, ok := c.people.byID.Get(s.ID)
	if !ok || time.Now().After(one.until) {
		if c.denied.active("users.info") {
			return s
		}
		one = c.askName(ctx, s.ID)
		c.people.byID.Add(s.ID, one)
	}
	s.Name, s.Username = one.name, cmp.Or(one.handle, s.Username)
	return s
}

// askName asks the platform for a name. A turn does not fail without one.
func (c *Channel) askName(ctx context.Context, id string) person {
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	var u *slackgo.User
	err := c.call(ctx, func(ctx context.Context) (err error) {
		u, err = c.api.GetUserInfoContext(ctx, id)
		return err
	})
	if err != nil {
		c.log.DebugContext(ctx, "unknown sender name", "channel", c.name, "error", err)
		if is(err, noScope) {
			c.denied.extend("users.info", deniedFor)
		}
		return person{until: time.Now().Add(unknownFor)}
	}
	return person{cmp.Or(u.Profile.DisplayName, u.Profile.RealName, u.RealName), u.Name, time.Now().Add(knowFor)}
}
