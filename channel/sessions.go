package channel

import (
	"cmp"
	"context"
	"slices"
)

// Sessions stores where the messages of each session came from, so that what is kept of them can be erased, and who owns a
// main session: the first sender of an admitted direct message, until the session is erased. It writes only changes.
type Sessions struct{ values[origin] }

const maxPlaces = 16 // of one session; a main session can have several

// origin is what is stored of a session.
type origin struct {
	Owner  string      `json:"owner,omitempty"`  // of a main session
	Places []WindowKey `json:"places,omitempty"` // where its messages came from, the newest last
}

// NewSessions returns sessions in a store. With nil, the store is memory.
func NewSessions(store Texts) *Sessions { return &Sessions{newValues[origin](store)} }

// Record stores the owner of a main session. With lastRoute it also stores where the message came from, for the session and for its main session;
// a message of someone who does not own the main session changes nothing.
func (s *Sessions) Record(ctx context.Context, r Row, lastRoute bool) error {
	if main := r.Route.MainSessionKey; main != "" {
		owns := false
		err := s.update(ctx, main, func(o *origin) {
			if r.Conversation.Kind == Direct {
				o.Owner = cmp.Or(o.Owner, r.Sender)
			}
			if owns = o.Owner != "" && o.Owner == r.Sender; owns && lastRoute {
				o.add(r)
			}
		})
		if err != nil || !owns || main == r.SessionKey {
			return err
		}
	}
	if !lastRoute {
		return nil
	}
	return s.update(ctx, r.SessionKey, func(o *origin) { o.add(r) })
}

// add makes the place of r the last one.
func (o *origin) add(r Row) {
	place := WindowKey{Channel: r.Channel, Account: r.Account, Conversation: r.Conversation.ID, Thread: r.Conversation.ThreadID}
	others := slices.DeleteFunc(o.Places, func(p WindowKey) bool { return p == place })
	o.Places = append(others[max(0, len(others)+1-maxPlaces):], place)
}

// Places returns where the messages of a session came from; none for an unknown session.
func (s *Sessions) Places(ctx context.Context, session string) ([]WindowKey, error) {
	o, err := s.load(ctx, hashedName(session))
	if err != nil || o == nil {
		return nil, err
	}
	return o.Places, nil
}

// Forget removes what is stored of a session.
func (s *Sessions) Forget(ctx context.Context, session string) error {
	return s.change(ctx, hashedName(session), func(*origin) *origin { return nil })
}

func (s *Sessions) update(ctx context.Context, session string, do func(*origin)) error {
	return s.change(ctx, hashedName(session), func(o *origin) *origin {
		o = cmp.Or(o, &origin{})
		do(o)
		return o
	})
}

// Row is what is recorded of a turn.
type Row struct {
	SessionKey      string
	CreateIfMissing bool
	Channel         string
	Account         string
	Route           RouteFacts
	Reply           ReplyPlanFacts
	Conversation    ConversationFacts
	Group           SessionGroup // zero of direct conversations
	Sender          string
}

// SessionGroup is the group of a session.
type SessionGroup struct {
	Kind  ChatType
	ID    string
	Label string
}
