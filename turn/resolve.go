package turn

import (
	"context"

	"github.com/lingserve/lingserve/tape"
)

// resolve finds the session and writes it into the envelope.
func (t *Turn) resolve(ctx context.Context) error {
	e := t.outcome.Envelope
	id, plugin, _, err := first(ctx, t, StageResolve, func(h SessionResolver) (SessionID, bool, error) {
		return h.ResolveSession(ctx, e)
	})
	if err != nil {
		return err
	}
	if id == "" {
		id = orText(e.Channel, "default") + ":" + orText(e.ChatID, "default")
	}
	if err := tape.CheckSession(id); err != nil {
		return &StageError{StageResolve, plugin, &invalidError{err}}
	}
	t.outcome.Session = id
	e.SessionID = id
	return nil
}

func orText(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
