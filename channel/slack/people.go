package slack

import (
	"cmp"
	"context"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// person is the name of someone who writes. Events have only ids, so the platform is asked once an hour for each.
type person struct {
	name, handle string
	at           time.Time // when it was read
}

const (
	nameLife    = time.Hour
	unknownFor  = 5 * time.Minute // after a call that failed
	nameTimeout = 3 * time.Second // a name is not worth more of a turn's time
)

// knownName is the name of a person as far as it is known, else "".
func (c *Channel) knownName(id string) string {
	one, _ := c.people.Get(id)
	return cmp.Or(one.name, one.handle)
}

// addName completes what is known of a sender. A turn does not fail without a name.
func (c *Channel) addName(ctx context.Context, s *channel.SenderFacts) {
	const method = "users.info"
	if s.Name != "" || s.ID == "" || s.IsSelf || s.IsBot || c.wasRefused(method) {
		return
	}
	one, ok := c.people.Get(s.ID)
	if !ok || time.Since(one.at) >= nameLife {
		var u *slackgo.User
		ctx, cancel := context.WithTimeout(ctx, nameTimeout)
		defer cancel()
		err := c.call(ctx, method, func(ctx context.Context) (err error) {
			u, err = c.api.GetUserInfoContext(ctx, s.ID)
			return err
		})
		if err != nil {
			c.Log.DebugContext(ctx, "unknown sender name", "error", err)
			if platform.Is(err, noScope) {
				c.refusedAt.Add(method, time.Now())
			}
			one.at = time.Now().Add(unknownFor - nameLife)
		} else {
			one = person{cmp.Or(u.Profile.DisplayName, u.Profile.RealName, u.RealName), u.Name, time.Now()}
		}
		c.people.Add(s.ID, one)
	}
	s.Name, s.Username = one.name, cmp.Or(one.handle, s.Username)
}
