package channel

import (
	"cmp"
	"context"
	"slices"
)

// Sessions stores where the messages of each session came from, so that they are found when the session is erased.
type Sessions struct{ values[sessionPlaces] }

type sessionPlaces struct {
	Places []WindowKey `json:"places"` // the newest last
}

const maxPlaces = 16 // of one session, the newest

// NewSessions returns sessions in a store. With nil, the store is memory.
func NewSessions(store Texts) *Sessions { return &Sessions{newValues[sessionPlaces](store)} }

// Record stores where the last message of a session came from, if lastRoute says so.
func (s *Sessions) Record(ctx context.Context, r Row, lastRoute bool) error {
	if !lastRoute {
		return nil
	}
	place := WindowKey{Channel: r.Channel, Account: r.Account, Conversation: r.Conversation.ID, Thread: r.Conversation.ThreadID}
	return s.change(ctx, hashedName(r.SessionKey), func(s *sessionPlaces) *sessionPlaces {
		s = cmp.Or(s, &sessionPlaces{})
		others := slices.DeleteFunc(s.Places, func(p WindowKey) bool { return p == place })
		s.Places = append(others[max(0, len(others)+1-maxPlaces):], place)
		return s
	})
}

// Places returns where the messages of a session came from, the newest last; none for an unknown session.
func (s *Sessions) Places(ctx context.Context, session string) ([]WindowKey, error) {
	stored, err := s.load(ctx, hashedName(session))
	if err != nil || stored == nil {
		return nil, err
	}
	return stored.Places, nil
}

// Forget removes what is stored of a session.
func (s *Sessions) Forget(ctx context.Context, session string) error {
	return s.change(ctx, hashedName(session), func(*sessionPlaces) *sessionPlaces { return nil })
}
