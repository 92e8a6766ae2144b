package kernel

import (
	"context"

	"github.com/lingserve/lingserve/channel"
)

// Recorder stores what is known of sessions; *channel.Sessions is one.
type Recorder interface {
	// Record stores the row of a session, and with lastRoute where its last message came from.
	Record(_ context.Context, r channel.Row, lastRoute bool) error
	// Places returns where the messages of a session came from; none for an unknown session.
	Places(_ context.Context, session string) ([]channel.WindowKey, error)
	// Forget removes what is stored of a session.
	Forget(_ context.Context, session string) error
}

// RecordOptions say what is written before dispatch.
type RecordOptions struct {
	CreateIfMissing bool
	UpdateLastRoute bool
}
