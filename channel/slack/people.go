package slack

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// people is what those who write are called. Events have only ids, so the platform is asked once an hour for each.
type people struct {
	mu     sync.Mutex
	byID   map[string]person
	denied time.Time // until then, the app is not allowed to ask
}

type person struct {
	name, handle string
	until        time.Time
}

const (
	maxPeople   = 1000 // beyond that, any one is forgotten
	knowFor     = time.Hour
	unknownFor  = 5 * time.Minute // after a question that failed
	deniedFor   = time.Hour       // after the app was told that it may not ask
	nameTimeout = 3 * time.Second // a name is not worth more of a turn's time
)

// known is what somebody is called as far as that is known, else "".
func (p *people) known(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.byID[id]
	if one.name != "" {
		return one.name
	}
	return one.handle
}

// named completes what is known of a sender. That the platform does not say it changes no turn.
func (p *people) named(ctx context.Context, c *Channel, s channel.SenderFacts) channel.SenderFacts {
	if s.Name != "" || s.ID == "" || s.IsSelf || s.IsBot {
		return s
	}
	now := time.Now()
	p.mu.Lock()
	one, ok := p.byID[s.ID]
	denied := now.Before(p.denied)
	p.mu.Unlock()
	if !ok || now.After(one.until) {
		if denied {
			return s
		}
		one = p.ask(ctx, c, s.ID)
	}
	s.Name = one.name
	if one.handle != "" {
		s.Username = one.handle
	}
	return s
}

func (p *people) ask(ctx context.Context, c *Channel, id string) person {
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	var got struct {
		User struct {
			Name     string `json:"name"`
			RealName string `json:"real_name"`
			Profile  struct {
				RealName string `json:"real_name"`
				Display  string `json:"display_name"`
			} `json:"profile"`
		} `json:"user"`
	}
	_, err := c.api.call(ctx, request{method: "users.info", form: url.Values{"user": {id}}, out: &got})
	one := person{until: time.Now().Add(unknownFor)}
	if err == nil {
		u := got.User
		one = person{u.Profile.Display, u.Name, time.Now().Add(knowFor)}
		if one.name == "" {
			one.name = u.Profile.RealName
		}
		if one.name == "" {
			one.name = u.RealName
		}
	} else {
		c.log.DebugContext(ctx, "unknown sender name", "channel", c.name, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := err; is(e, noScope) {
		p.denied = time.Now().Add(deniedFor)
	}
	if p.byID == nil {
		p.byID = map[string]person{}
	}
	for other := range p.byID {
		if len(p.byID) < maxPeople {
			break
		}
		delete(p.byID, other)
	}
	p.byID[id] = one
	return one
}
