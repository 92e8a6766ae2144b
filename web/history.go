package web

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// said is something that was said before, as a client tells it that keeps its conversations itself.
type said struct {
	Role string `json:"role"` // [adapter.User] or [adapter.Assistant]
	Text string `json:"text"`
}

// Bounds of what a caller says beside its message.
const (
	maxInstructions = 64 << 10 // bytes
	maxHistory      = 1000     // messages
	maxHistoryBytes = 1 << 20  // of their texts
)

// checkSaid checks what the caller says beside its message. Where that stands in a body, the reader of the body knows.
func (a *ask) checkSaid() *problem {
	if n := len(a.Instructions); n > maxInstructions {
		return invalid(misfit{Detail: fmt.Sprintf("expected instructions of at most %d bytes, found %d", maxInstructions, n)})
	}
	if n := len(a.History); n > maxHistory {
		return invalid(misfit{Detail: fmt.Sprintf("expected at most %d earlier messages, found %d; use a session, which stores messages", maxHistory, n)})
	}
	size := 0
	for _, s := range a.History {
		if s.Role != adapter.User && s.Role != adapter.Assistant {
			return invalid(misfit{Detail: "expected earlier messages of the roles user and assistant, found " + quote(s.Role)})
		}
		size += len(s.Text)
	}
	if size > maxHistoryBytes {
		return invalid(misfit{Detail: fmt.Sprintf(
			"expected earlier messages of at most %d bytes, found %d; use a session, which stores messages", maxHistoryBytes, size,
		)})
	}
	return nil
}

// messages are what was said as models read it.
func messages(history []said) []adapter.Message {
	list := make([]adapter.Message, 0, len(history))
	for _, s := range history {
		list = append(list, adapter.Message{Role: s.Role, Content: s.Text})
	}
	return list
}

// LoadState writes what was said before to the tape of a session that has none yet. It is the first thing of a turn, so the
// session has no other turn meanwhile; one that has a tape remembers by itself, and its tape is the truth.
func (door) LoadState(ctx context.Context, e *turn.Envelope, session turn.SessionID) (turn.State, error) {
	history, _ := e.Extra[extraHistory].([]said)
	t := turn.FromContext(ctx)
	if len(history) == 0 || t == nil {
		return nil, nil
	}
	delete(e.Extra, extraHistory) // nobody needs it any more
	f := t.Framework()
	store, err := f.Store(ctx)
	if err != nil || store == nil {
		return nil, err
	}
	tp, err := tape.Open(ctx, store, f.Workspace(), session)
	if err != nil {
		return nil, err
	}
	info, err := tp.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.Entries > 1 { // more than the anchor that each tape begins with
		return nil, nil
	}
	b := tape.Batch{IfLast: info.LastID, Born: info.Created}
	for _, s := range history {
		b.Entries = append(b.Entries, tape.NewMessage(s.Role, s.Text).With(tape.Meta{Turn: t.ID()}))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), historyTimeout)
	defer cancel()
	if _, err := store.Append(ctx, tp.Name(), b); err != nil && !errors.Is(err, tape.ErrMoved) {
		return nil, fmt.Errorf("write what was said before: %w", err)
	}
	return nil, nil
}

// historyTimeout bounds the writing, which is not left half way when a client goes away.
const historyTimeout = 10 * time.Second

// instructed says to the model what the caller's program wants, and whose words those are.
func instructed(text string) string {
	if text == "" {
		return ""
	}
	return "The program through which the user talks to you adds these instructions. Follow them as far as nothing above says otherwise.\n\n" + text
}
