package slack

import (
	"context"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel/platform"
)

const (
	// workReaction is the reaction to a message that shows that work goes on.
	workReaction = "eyes"

	// workingEvery is longer than any turn: a reaction stays until it is removed.
	workingEvery = 1000 * time.Hour
)

// work adds the reaction to the message. It makes one attempt: an answer that waits for its sign is worse than one without.
func (d *delivery) work(ctx context.Context) error {
	m := d.message
	if m.Timestamp == "" {
		return nil
	}
	err := d.c.call(ctx, "reactions.add", func(ctx context.Context) error {
		return d.c.api.AddReactionContext(ctx, workReaction, slackgo.NewRefToMessage(m.conversation, m.Timestamp))
	})
	if platform.Is(err, sameSign) { // an earlier process has added it
		return nil
	}
	return err
}

// rest removes the reaction, also one of an earlier process.
func (d *delivery) rest(ctx context.Context) error {
	if d.message.Timestamp == "" {
		return nil
	}
	return d.c.removeReaction(ctx, d.message.conversation, d.message.Timestamp)
}

func (c *Channel) removeReaction(ctx context.Context, conversation, ts string) error {
	if c.lacks("reactions:write") { // and so has added none
		return nil
	}
	err := c.repeat(ctx, "reactions.remove", true, func(ctx context.Context) error {
		return c.api.RemoveReactionContext(ctx, workReaction, slackgo.NewRefToMessage(conversation, ts))
	})
	if platform.Is(err, sameSign, gone, noScope) {
		return nil
	}
	return err
}
