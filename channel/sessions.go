package channel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
)

// Sessions stores where the last message of each session came from, because a turn that the server starts by itself goes there, and who owns a
// main session: the first sender of an admitted direct message, until the session is erased. It writes only changes.
type Sessions struct {
	store Texts
	log   *slog.Logger
}

const maxPlaces = 16 // of one session; a main session can have several

// origin is what is stored of a session.
type origin struct {
	Session string      `json:"session"`
	Owner   string      `json:"owner,omitempty"` // of a main session
	Last    *Row        `json:"last,omitempty"`
	Places  []WindowKey `json:"places,omitempty"` // where its messages came from, the newest last
}

// NewSessions returns sessions in a store. With nil, the store is memory, and a nil log discards errors of the store.
func NewSessions(store Texts, log *slog.Logger) *Sessions {
	if store == nil {
		store = NewTexts()
	}
	return &Sessions{store, cmp.Or(log, slog.New(slog.DiscardHandler))}
}

// Record stores the owner of a main session. With lastRoute it also stores where the message came from, for the session and for its main session;
// a message of someone who does not own the main session changes nothing.
func (s *Sessions) Record(ctx context.Context, r Row, lastRoute bool) error {
	r.Reply.ReplyToID = Opt{} // a later turn does not reply to this message
	if main := r.Route.MainSessionKey; main != "" {
		owns := false
		err := s.change(ctx, main, func(o *origin) {
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
	return s.change(ctx, r.SessionKey, func(o *origin) { o.add(r) })
}

// add makes r the last row.
func (o *origin) add(r Row) {
	o.Last = &r
	place := WindowKey{Channel: r.Channel, Account: r.Account, Conversation: r.Conversation.ID, Thread: r.Conversation.ThreadID}
	others := slices.DeleteFunc(o.Places, func(p WindowKey) bool { return p == place })
	o.Places = append(others[max(0, len(others)+1-maxPlaces):], place)
}

// Last returns where the last message of a session came from. ok is false if that is unknown.
func (s *Sessions) Last(ctx context.Context, session string) (r Row, ok bool, err error) {
	o, err := s.load(ctx, session)
	if err != nil || o.Last == nil {
		return Row{}, false, err
	}
	return *o.Last, true, nil
}

// Places returns where the messages of a session came from; none for an unknown session.
func (s *Sessions) Places(ctx context.Context, session string) ([]WindowKey, error) {
	o, err := s.load(ctx, session)
	return o.Places, err
}

// Forget removes what is stored of a session.
func (s *Sessions) Forget(ctx context.Context, session string) error {
	if err := s.store.Change(ctx, sessionName(session), func([]byte) ([]byte, error) { return nil, nil }); err != nil {
		return fmt.Errorf("forget a session: %w", err)
	}
	return nil
}

// sessionName is the name of a session in the store. It is a hash, so that it does not reveal the session.
func sessionName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

func (s *Sessions) load(ctx context.Context, key string) (origin, error) {
	text, err := s.store.Load(ctx, sessionName(key))
	if err != nil {
		return origin{}, fmt.Errorf("read where a message came from: %w", err)
	}
	return s.decode(ctx, text, key), nil
}

func (s *Sessions) change(ctx context.Context, key string, do func(*origin)) error {
	err := s.store.Change(ctx, sessionName(key), func(text []byte) ([]byte, error) {
		o := s.decode(ctx, text, key)
		do(&o)
		return json.Marshal(o)
	})
	if err != nil {
		return fmt.Errorf("store where a message came from: %w", err)
	}
	return nil
}

// decode returns what is stored of a session, or nothing if that is damaged.
func (s *Sessions) decode(ctx context.Context, text []byte, key string) origin {
	var o origin
	if text != nil && (json.Unmarshal(text, &o) != nil || o.Session != key) {
		s.log.WarnContext(ctx, "cannot read a session's origin")
		o = origin{}
	}
	o.Session = key
	return o
}
