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

// Sessions is a [Recorder]: of each session it knows where its last message came from, which is where a turn goes that the server begins by
// itself, and who owns a main session. The conversation is on the session's tape, which the turn makes: so there is no row to be made here,
// and none that can be missing.
//
// It writes only what has changed. What is lost with the machine the next message says again.
//
// The owner of a main session is the first sender who is let in with a direct message, until the session is erased.
type Sessions struct {
	store Texts
	log   *slog.Logger
}

const (
	memorySessions = 10_000
	maxPlaces      = 16 // of one session; more than one has the main session of somebody who writes from several
)

// origin is what is kept of a session.
type origin struct {
	Session string      `json:"session"`
	Owner   string      `json:"owner,omitempty"` // of a main session
	Last    *Row        `json:"last,omitempty"`
	Places  []WindowKey `json:"places,omitempty"` // where its messages came from, the newest last
}

var (
	_ SessionEraser = (*Sessions)(nil)
)

// NewSessions returns sessions in a store; nil is a memory of 10 000 sessions, which ends with the process. What is wrong with the store goes
// to log; nil is nowhere.
func NewSessions(store Texts, log *slog.Logger) *Sessions {
	if store == nil {
		store = NewTexts(memorySessions)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Sessions{store, log}
}

// Record implements [Recorder]: it records who owns a main session.
func (s *Sessions) Record(ctx context.Context, r Row) error {
	main := r.Route.MainSessionKey
	if main == "" || r.Sender == "" || r.Conversation.Kind != Direct {
		return nil
	}
	return s.change(ctx, main, func(k *origin) {
		k.Owner = cmp.Or(k.Owner, r.Sender)
	})
}

// Owner implements [Owners].
func (s *Sessions) Owner(ctx context.Context, main string) (sender string, err error) {
	k, err := s.read(ctx, main)
	return k.Owner, err
}

// LastRoute implements [Recorder]. Where a main session is named, the route is its, too.
func (s *Sessions) LastRoute(ctx context.Context, r Row) error {
	place := WindowKey{Channel: r.Channel, Account: r.Account, Conversation: r.Conversation.ID, Thread: r.Conversation.ThreadID}
	r.Reply.ReplyToID = Opt{} // what comes later answers no message
	note := func(k *origin) {
		if k.Last == nil || !sameRoute(*k.Last, r) {
			k.Last = &r
		}
		if n := len(k.Places); n == 0 || k.Places[n-1] != place {
			places := slices.DeleteFunc(slices.Clone(k.Places), func(p WindowKey) bool { return p == place })
			k.Places = append(places[max(0, len(places)+1-maxPlaces):], place)
		}
	}
	err := s.change(ctx, r.SessionKey, note)
	if main := r.Route.MainSessionKey; main != "" && main != r.SessionKey {
		err = errors.Join(err, s.change(ctx, main, note))
	}
	return err
}

// sameRoute says whether two rows differ in nothing but their time and the message that they are of.
func sameRoute(a, b Row) bool {
	a.At = b.At
	return reflect.DeepEqual(a, b)
}

// Last returns where the last message of a session came from: the place that a turn goes to which no message has begun. ok is false
// for a session of which that is not known.
func (s *Sessions) Last(ctx context.Context, session string) (r Row, ok bool, err error) {
	k, err := s.read(ctx, session)
	if err != nil || k.Last == nil {
		return Row{}, false, err
	}
	return *k.Last, true, nil
}

// Places implements [SessionEraser].
func (s *Sessions) Places(ctx context.Context, session string) ([]WindowKey, error) {
	k, err := s.read(ctx, session)
	return k.Places, err
}

// Forget implements [SessionEraser].
func (s *Sessions) Forget(ctx context.Context, session string) error {
	if err := s.store.Change(ctx, sessionName(session), func([]byte) ([]byte, error) { return nil, nil }); err != nil {
		return fmt.Errorf("forget a session: %w", err)
	}
	return nil
}

// sessionName is the name of a session in the store. It tells nothing about the session.
func sessionName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// read reads what is kept of a session.
func (s *Sessions) read(ctx context.Context, key string) (origin, error) {
	text, err := s.store.Load(ctx, sessionName(key))
	if err != nil {
		return origin{}, fmt.Errorf("read where a message came from: %w", err)
	}
	return s.decode(ctx, text, key), nil
}

// change changes what is kept of a session. do replaces what it changes.
func (s *Sessions) change(ctx context.Context, key string, do func(*origin)) error {
	err := s.store.Change(ctx, sessionName(key), func(text []byte) ([]byte, error) {
		was := s.decode(ctx, text, key)
		next := was
		do(&next)
		if next.same(was) {
			return text, nil
		}
		return json.Marshal(next)
	})
	if err != nil {
		return fmt.Errorf("keep where a message came from: %w", err)
	}
	return nil
}

// decode reads what is kept of a session. Of one that is damaged nothing is known.
func (s *Sessions) decode(ctx context.Context, text []byte, key string) origin {
	var k origin
	if text != nil && (json.Unmarshal(text, &k) != nil || k.Session != key) {
		s.log.WarnContext(ctx, "cannot read a session's origin")
		k = origin{}
	}
	k.Session = key
	return k
}

// same reports whether nothing has changed, after a func that replaces what it changes.
func (k *origin) same(as origin) bool {
	return k.Owner == as.Owner && k.Last == as.Last && slices.Equal(k.Places, as.Places)
}
