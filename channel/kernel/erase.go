package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lingserve/lingserve/channel"
)

// Erase removes what channels keep of a session: its events and replies, what waits in the windows of its conversations, and where its last message came
// from. It is called while no turn of the session runs. What could not be removed is in the error; it can be called again.
//
// The conversations of a session are those that the recorder knows, and the one that its name stands for.
func (k *Kernel) Erase(ctx context.Context, session string) error {
	k.init()
	places, err := k.Recorder.Places(ctx, session)
	if p, ok := channel.PlaceNamed(session); ok && !slices.Contains(places, p) {
		places = append(slices.Clip(places), p)
	}
	var lanes []string
	for _, p := range places {
		for _, thread := range []string{p.Thread, channel.ThreadOfInteractions} {
			lanes = append(lanes, channel.EventKey{Channel: p.Channel, Account: p.Account, Conversation: p.Conversation, Thread: thread}.String())
		}
		k.Window.Forget(ctx, p)
	}
	if k.Store != nil {
		err = errors.Join(err, k.Store.EraseOf(ctx, session, lanes))
	}
	if err == nil { // else the places are needed once more
		err = k.Recorder.Forget(ctx, session)
	}
	if err != nil {
		return fmt.Errorf("channel: what is kept of the session cannot all be erased: %w", err)
	}
	return nil
}

// Keeps reports whether messages of the conversation that a session's name stands for wait in its window: such a group has no session before its first
// answer.
func (k *Kernel) Keeps(ctx context.Context, session string) bool {
	k.init()
	p, ok := channel.PlaceNamed(session)
	return ok && len(k.Window.Snapshot(ctx, p, 0).Entries) > 0
}
