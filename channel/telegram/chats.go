package telegram

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// A group that becomes a supergroup gets another id. It keeps the session, the route and the window of the group (CH-173): the kernel knows it by the id of
// the group. The state, which all replicas share, has each id by the other one.

// largestSuper is the largest id of a supergroup.
const largestSuper = -1_000_000_000_000

// learn stores that a group has become a supergroup.
func (c *Channel) learn(ctx context.Context, group, super int64) {
	if err := errors.Join(c.storeID(ctx, group, super), c.storeID(ctx, super, group)); err != nil {
		c.Log.WarnContext(ctx, "cannot store a supergroup's new id", "error", err)
	}
}

func (c *Channel) idName(chat int64) string { return fmt.Sprintf("%s:%d", c.Login(), chat) }

func (c *Channel) storeID(ctx context.Context, chat, other int64) error {
	return c.s.State.Change(ctx, c.idName(chat), func([]byte) ([]byte, error) { return strconv.AppendInt(nil, other, 10), nil })
}

// otherID returns the other id of a group or supergroup, or the same id if it has no other one.
func (c *Channel) otherID(ctx context.Context, chat int64) (int64, error) {
	text, err := c.s.State.Load(ctx, c.idName(chat))
	if err != nil || text == nil {
		return chat, err
	}
	return strconv.ParseInt(string(text), 10, 64)
}

// conversation returns the id by which the kernel knows a chat.
func (c *Channel) conversation(ctx context.Context, chat int64) (id string, err error) {
	if chat < largestSuper {
		chat, err = c.otherID(ctx, chat)
	}
	return strconv.FormatInt(chat, 10), err
}

// current returns the id to send to. If it cannot be read, the platform refuses the old one and names the new one.
func (c *Channel) current(ctx context.Context, chat int64) int64 {
	if chat > largestSuper && chat < 0 {
		if super, err := c.otherID(ctx, chat); err == nil {
			return super
		}
	}
	return chat
}
