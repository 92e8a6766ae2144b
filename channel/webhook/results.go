package webhook

import (
	"context"
	"log/slog"
	"time"
)

// Results keeps the answers to messages, for senders who send one again after a restart, or to another replica. An answer goes a day after it
// was saved.
type Results interface {
	// Save replaces what is kept of a message, which is of a session.
	Save(_ context.Context, message, session string, answer []byte) error
	// Load returns what is kept; nil is nothing.
	Load(_ context.Context, message string) ([]byte, error)
	// Erase removes what is kept of all messages of a session.
	Erase(_ context.Context, session string) error
}

// ResultLife is how long an answer is kept.
const ResultLife = keepFor

// keeper keeps the answers of a login, as well as it can.
type keeper struct {
	Results
	login string
	log   *slog.Logger
}

// keeperWait bounds a call.
const keeperWait = 5 * time.Second

func (k *keeper) name(id string) string { return k.login + "/" + id }

func (k *keeper) save(id, session string, text []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), keeperWait)
	defer cancel()
	if err := k.Save(ctx, k.name(id), session, text); err != nil {
		k.log.WarnContext(ctx, "cannot store an answer for retries", "channel", k.login, "error", err)
	}
}

func (k *keeper) load(ctx context.Context, id string) []byte {
	ctx, cancel := context.WithTimeout(ctx, keeperWait)
	defer cancel()
	text, err := k.Load(ctx, k.name(id))
	if err != nil {
		k.log.WarnContext(ctx, "cannot read a stored answer", "channel", k.login, "error", err)
	}
	return text
}

func (k *keeper) erase(session string) error {
	ctx, cancel := context.WithTimeout(context.Background(), keeperWait)
	defer cancel()
	return k.Erase(ctx, session)
}
