package slack

import (
	"context"

	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel/platform"
)

const (
	// workReaction is the reaction to a message that shows that work goes on.
	workReaction = "eyes"
	workStatus   = "is working on it…"
)

// work shows that work goes on: by the status of an assistant's thread, or by a reaction. It makes one attempt: an answer that waits for its sign is
// worse than one without.
func (d *delivery) work(ctx context.Context) error {
	m := d.message
	assistant := "status " + m.conversation
	if m.direct && m.thread != "" && !d.reacted && !d.c.refused.Contains(assistant) {
		err := d.setStatus(ctx, workStatus)
		if d.hasStatus = !isLasting(err); d.hasStatus {
			return err
		}
		d.c.refused.Add(assistant, struct{}{})
	}
	if d.reacted || d.hasStatus || m.Timestamp == "" {
		return nil
	}
	d.reacted = true
	err := d.c.call(ctx, "reactions.add", func(ctx context.Context) error {
		return d.c.api.AddReactionContext(ctx, workReaction, slackgo.NewRefToMessage(m.conversation, m.Timestamp))
	})
	if platform.Is(err, sameSign) { // an earlier process has added it
		return nil
	}
	return err
}

// rest removes the sign. An earlier process may have added the reaction.
func (d *delivery) rest(ctx context.Context) error {
	status := d.hasStatus
	d.hasStatus, d.reacted = false, false
	switch {
	case status:
		return d.setStatus(ctx, "") // also the answer removes it, but there may be none
	case d.message.Timestamp == "":
		return nil
	}
	return d.c.removeReaction(ctx, d.message.conversation, d.message.Timestamp)
}

func (d *delivery) setStatus(ctx context.Context, status string) error {
	return d.c.call(ctx, "assistant.threads.setStatus", func(ctx context.Context) error {
		return d.c.api.SetAssistantThreadsStatusContext(ctx, slackgo.AssistantThreadsSetStatusParameters{
			ChannelID: d.message.conversation, ThreadTS: d.message.thread, Status: status,
		})
	})
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
