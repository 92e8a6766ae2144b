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
	SessionKey      *string // of the row; nil: that of the turn
	CreateIfMissing bool
	UpdateLastRoute bool
	GroupResolution *channel.SessionGroup        // nil: the conversation, if it is a group
	OnError         func(context.Context, error) // gets the error of a row that cannot be written, and the turn goes on
	// TrackTask finds out more about a session that was recorded. It runs at the end of the turn, for at most 10 s.
	TrackTask func(context.Context, channel.Row) error
}

// group is the group that is recorded with a session of a conversation.
func (o *RecordOptions) group(c channel.ConversationFacts) channel.SessionGroup {
	switch {
	case o.GroupResolution != nil:
		return *o.GroupResolution
	case c.Kind == channel.Direct:
		return channel.SessionGroup{}
	}
	return channel.SessionGroup{Kind: c.Kind, ID: c.ID, Label: c.Label}
}
