package platform

import (
	"context"
	"log/slog"
	"time"
)

// Trouble logs that something does not work: at once, then every ten minutes, and when it works again. It is for one goroutine.
type Trouble struct {
	Log    *slog.Logger
	warned time.Time // zero while it works
}

const troubleEvery = 10 * time.Minute

// Warn says that it does not work.
func (t *Trouble) Warn(ctx context.Context, message string, attrs ...any) {
	if now := time.Now(); t.warned.IsZero() || now.Sub(t.warned) >= troubleEvery {
		t.warned = now
		t.Log.WarnContext(ctx, message, attrs...)
	}
}

// Over says that it works again, if there was a warning.
func (t *Trouble) Over(ctx context.Context, message string, attrs ...any) {
	if !t.warned.IsZero() {
		t.warned = time.Time{}
		t.Log.InfoContext(ctx, message, attrs...)
	}
}
