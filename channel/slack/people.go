package slack

import (
	"cmp"
	"context"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// person is the name of someone who writes. Events have only ids, so the platform is asked for each once.
type person struct{ name, handle string }

const nameTimeout = 3 * time.Second // a name is not worth more of a turn's time

// knownName is the name of a person as far as it is known, else "".
func (c *Channel) knownName(id string) string {
	one, _ := c.people.Get(id)
	return cmp.Or(one.name, one.handle)
}

// addName completes what is known of a sender. A turn does not fail without a name.
func (c *Channel) addName(ctx context.Context, s *channel.SenderFacts) {
	const method = "users.info"
	if s.Name != "" || s.ID == "" || s.IsSelf || s.IsBot || c.refused.Contains(method) {
		return
	}
	one, ok := c.people.Get(s.ID)
	if !ok {
		ctx, cancel := context.WithTimeout(ctx, nameTimeout)
		defer cancel()
		err := c.call(ctx, method, func(ctx context.Context) error {
			u, err := c.api.GetUserInfoContext(ctx, s.ID)
			if err == nil {
				one = person{cmp.Or(u.Profile.DisplayName, u.Profile.RealName, u.RealName), u.Name}
				c.people.Add(s.ID, one)
			}
			return err
		})
		if platform.Is(err, noScope) {
			c.refused.Add(method, struct{}{})
		}
		if err != nil {
			c.Log.DebugContext(ctx, "unknown sender name", "error", err)
		}
	}
	s.Name, s.Username = one.name, cmp.Or(one.handle, s.Username)
}
