package channel

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// SessionEraser is a [Recorder] that knows where the messages of a session came from, and can forget it.
type SessionEraser interface {
	// Places are where they came from; none for a session that is not known.
	Places(_ context.Context, session string) ([]WindowKey, error)
	Forget(_ context.Context, session string) error
}

// Erase removes what channels keep of a session (CH-76): its events, what waits in the windows of its conversations and in the outbox,
// and where its last message came from. It is to be called while no turn of the session runs. What of it could not be removed is in
// the error; it can be called again.
//
// The conversations of a session are those that the recorder knows, and the one that its name stands for. An event of them that is
// not settled goes too: nobody answers it any more.
func (k *Kernel) Erase(ctx context.Context, session string) error {
	k.Init()
	places := map[WindowKey]bool{}
	var errs []error
	recorder, _ := k.Recorder.(SessionEraser)
	if recorder != nil {
		known, err := recorder.Places(ctx, session)
		errs = append(errs, err)
		for _, p := range known {
			places[p] = true
		}
	}
	if p, ok := PlaceNamed(session); ok {
		places[p] = true
	}
	if j, ok := k.state.journal.(Eraser); ok && len(places) > 0 {
		errs = append(errs, j.Erase(ctx, func(e EventKey) bool {
			return places[WindowKey{e.Channel, e.Account, e.Conversation, e.Thread}]
		}))
	}
	k.state.mu.Lock()
	k.state.lost.drop(session)
	k.state.mu.Unlock()
	for p := range places {
		k.state.window.Forget(ctx, p)
	}
	if k.Outbox != nil {
		errs = append(errs, k.Outbox.Erase(session))
	}
	if recorder != nil && errors.Join(errs...) == nil { // else the places are needed once more
		errs = append(errs, recorder.Forget(ctx, session))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("channel: what is kept of the session cannot all be erased: %w", err)
	}
	return nil
}

// Keeps reports whether messages of the conversation that a session's name stands for wait in its window: such a group has no session until an
// answer is given.
func (k *Kernel) Keeps(ctx context.Context, session string) bool {
	k.Init()
	p, ok := PlaceNamed(session)
	return ok && len(k.state.window.Snapshot(ctx, p, 0).Entries) > 0
}

// PlaceNamed is the conversation that [SessionKey] has made a name of, where it is one and not a hash.
func PlaceNamed(session string) (p WindowKey, ok bool) {
	rest, last := session, byte(0)
	parts := map[byte]string{}
	for rest != "" || last == 0 {
		end := strings.IndexAny(rest, "@:#~!")
		part, next := rest, byte(0)
		if end >= 0 {
			part, next = rest[:end], rest[end]
		}
		text, err := unescape(part)
		if _, twice := parts[last]; err != nil || twice || next == '!' {
			return p, false
		}
		parts[last] = text
		if end < 0 {
			break
		}
		rest, last = rest[end+1:], next
	}
	p = WindowKey{Channel: parts[0], Account: parts['@'], Conversation: parts[':'], Thread: parts['#']}
	return p, p.Channel != "" && p.Conversation != ""
}
