package slack

import (
	"context"
	"errors"

	slackgo "github.com/slack-go/slack"
)

// sign is what shows that work goes on.
type sign uint8

const (
	signUnknown  sign = iota // an earlier process may have added the reaction
	signNone                 // the platform has refused the reaction
	signReaction             // to the message that is answered
	signStatus               // of the assistant's thread
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
	name := "status " + m.conversation
	if m.direct && m.thread != "" && d.signed != signReaction && !d.c.denied.active(name) {
		d.signed = signStatus
		err := d.setStatus(ctx, workStatus)
		if _, refused := errors.AsType[*Error](err); !refused {
			return err
		}
		d.c.denied.extend(name, deniedFor) // it is not a thread of an assistant
		d.signed = signUnknown
	}
	if d.signed != signUnknown || m.Timestamp == "" {
		return nil
	}
	d.signed = signReaction
	err := d.c.call(ctx, func(ctx context.Context) error {
		return d.c.api.AddReactionContext(ctx, workReaction, slackgo.NewRefToMessage(m.conversation, m.Timestamp))
	})
	if is(err, sameSign) { // an earlier process has added it
		return nil
	}
	if _, refused := errors.AsType[*Error](err); refused {
		d.signed = signNone
	}
	return err
}

// rest removes the sign.
func (d *delivery) rest(ctx context.Context) error {
	signed := d.signed
	d.signed = signUnknown
	switch {
	case signed == signStatus:
		return d.setStatus(ctx, "") // also the answer removes it, but there may be none
	case signed == signNone || d.message.Timestamp == "":
		return nil
	}
	return d.c.removeReaction(ctx, d.message.conversation, d.message.Timestamp)
}

func (d *delivery) setStatus(ctx context.Context, status string) error {
	return d.c.call(ctx, func(ctx context.Context) error {
		return d.c.api.SetAssistantThreadsStatusContext(ctx, slackgo.AssistantThreadsSetStatusParameters{
			ChannelID: d.message.conversation, ThreadTS: d.message.thread, Status: status,
		})
	})
}

func (c *Channel) removeReaction(ctx context.Context, conversation, ts string) error {
	err := c.repeat(ctx, true, func(ctx context.Context) error {
		return c.api.RemoveReactionContext(ctx, workReaction, slackgo.NewRefToMessage(conversation, ts))
	})
	if is(err, sameSign, gone, noScope) {
		return nil
	}
	return err
}
