package channel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
)

// Sessions is a [Recorder]. It stores where the last message of each session came from, because a turn that the server starts by itself goes
// there, and who owns a main session: the first sender of an admitted direct message, until the session is erased. It writes only changes.
type Sessions struct {
	store Texts
	log   *slog.Logger
}

const (
	memorySessions = 10_000
	maxPlaces      = 16 // of one session; a main session can have several
)

// origin is what is stored of a session.
type origin struct {
	Session string      `json:"session"`
	Owner   string      `json:"owner,omitempty"` // of a main session
	Last    *Row        `json:"last,omitempty"`
	Places  []WindowKey `json:"places,omitempty"` // where its messages came from, the newest last
}

var _ SessionEraser = (*Sessions)(nil)

// NewSessions returns sessions in a store. With nil, the store is memory for 10 000 sessions, and a nil log discards errors of the store.
func NewSessions(store Texts, log *slog.Logger) *Sessions {
	if store == nil {
		store = NewTexts(memorySessions)
	}
	return &Sessions{store, cmp.Or(log, slog.New(slog.DiscardHandler))}
}

// Record implements [Recorder]: it stores the owner of a main session.
func (s *Sessions) Record(ctx context.Context, r Row) error {
	main := r.Route.MainSessionKey
	if main == "" || r.Sender == "" || r.Conversation.Kind != Direct {
		return nil
	}
	return s.change(ctx, main, func(o *origin) { o.Owner = cmp.Or(o.Owner, r.Sender) })
}

// Owner implements [Owners].
func (s *Sessions) Owner(ctx context.Context, main string) (sender string, err error) {
	o, err := s.load(ctx, main)
	return o.Owner, err
}

// LastRoute implements [Recorder]: it stores the route for the session and for its main session.
func (s *Sessions) LastRoute(ctx context.Context, r Row) error {
	place := WindowKey{Channel: r.Channel, Account: r.Account, Conversation: r.Conversation.ID, Thread: r.Conversation.ThreadID}
	r.Reply.ReplyToID = Opt{} // a later turn does not reply to this message
	store := func(o *origin) {
		if o.Last == nil || !sameRoute(*o.Last, r) {
			o.Last = &r
		}
		others := slices.DeleteFunc(slices.Clone(o.Places), func(p WindowKey) bool { return p == place })
		o.Places = append(others[max(0, len(others)+1-maxPlaces):], place)
	}
	err := s.change(ctx, r.SessionKey, store)
	if main := r.Route.MainSessionKey; main != "" && main != r.SessionKey {
		err = errors.Join(err, s.change(ctx, main, store))
	}
	return err
}

// sameRoute reports whether two rows differ only in their time.
func sameRoute(a, b Row) bool {
	a.At = b.At
	return reflect.DeepEqual(a, b)
}

// Last returns where the last message of a session came from. ok is false if that is unknown.
func (s *Sessions) Last(ctx context.Context, session string) (r Row, ok bool, err error) {
	o, err := s.load(ctx, session)
	if err != nil || o.Last == nil {
		return Row{}, false, err
	}
	return *o.Last, true, nil
}

// Places implements [SessionEraser].
func (s *Sessions) Places(ctx context.Context, session string) ([]WindowKey, error) {
	o, err := s.load(ctx, session)
	return o.Places, err
}

// Forget implements [SessionEraser].
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
		return fmt.Errorf("keep where a message came from: %w", err)
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
