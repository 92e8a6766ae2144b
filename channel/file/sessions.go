package file

import (
	"cmp"
	lru "container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/vfs"
)

// SessionsOptions are for [OpenSessions]. Zero values are the defaults.
type SessionsOptions struct {
	Sessions int          // that are known: 10 000; the one that was heard of longest ago goes first
	Log      *slog.Logger // what is wrong with the files; nil is nowhere
}

// Sessions is a channel.Recorder: of each session it knows where its last message came from, which is where a turn goes that the
// server begins by itself, and whose a main session is. The conversation is on the session's tape, which the turn makes: so there
// is no row to be made here, and none that can be missing.
//
// A session is a file, which is replaced whole, and only where something has changed. It is not made durable against the end of the
// machine: the next message says the same again.
//
// The owner of a main session is whoever is the first to be let in with a direct message, until the session is erased.
type Sessions struct {
	o      SessionsOptions
	store  *texts        // nil: in memory, or shared
	shared channel.Texts // of several processes; then nothing is in memory

	mu    sync.Mutex // held while the disk is asked
	known map[string]*lru.Element
	order lru.List // of *session; the one heard of longest ago is at the front
}

const (
	defaultSessions = 10_000
	maxPlaces       = 16 // of one session; more than one has the main session of somebody who writes from several
)

// session is one session.
type session struct {
	name   string // of its file
	loaded bool
	kept   kept
}

// kept is what a session's file has.
type kept struct {
	Session string              `json:"session"`
	Owner   string              `json:"owner,omitempty"` // of a main session
	Last    *channel.Row        `json:"last,omitempty"`
	Places  []channel.WindowKey `json:"places,omitempty"` // where its messages came from, the newest last
}

var (
	_ channel.Recorder      = (*Sessions)(nil)
	_ channel.Owners        = (*Sessions)(nil)
	_ channel.SessionEraser = (*Sessions)(nil)
)

// OpenSessions opens the folder of sessions, which is made where it is not there; "" keeps them in memory. One process at a time
// uses it.
func OpenSessions(dir string, o SessionsOptions) (*Sessions, error) {
	if dir == "" {
		return openSessions(nil, o)
	}
	return openSessions(vfs.At(dir), o)
}

// openSessions keeps the sessions in memory if dir is nil.
func openSessions(dir vfs.Dir, o SessionsOptions) (*Sessions, error) {
	o.Sessions = cmp.Or(max(o.Sessions, 0), defaultSessions)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Sessions{o: o, known: map[string]*lru.Element{}}
	if dir == nil {
		return s, nil
	}
	store, err := openTexts(dir, ".session")
	if err != nil {
		return nil, fmt.Errorf("session folder: %w", err)
	}
	s.store = store
	names, err := store.Names(context.Background())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("session folder: %w", err), store.Close())
	}
	for _, name := range names {
		s.known[name] = s.order.PushBack(&session{name: name})
	}
	return s, nil
}

// ShareSessions are sessions that several processes know, in a store of theirs, which bounds how many there are. Each question is one to
// the store.
func ShareSessions(store channel.Texts, o SessionsOptions) *Sessions {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Sessions{o: o, shared: store}
}

// Close lets the folder go.
func (s *Sessions) Close() error {
	if s.store == nil {
		return nil
	}
	return s.store.Close()
}

// Record implements [channel.Recorder]: it notes whose a main session is.
func (s *Sessions) Record(ctx context.Context, r channel.Row) error {
	main := r.Route.MainSessionKey
	if main == "" || r.Sender == "" || r.Conversation.Kind != channel.Direct {
		return nil
	}
	return s.change(ctx, main, func(k *kept) {
		k.Owner = cmp.Or(k.Owner, r.Sender)
	})
}

// Owner implements [channel.Owners].
func (s *Sessions) Owner(ctx context.Context, main string) (sender string, err error) {
	k, err := s.read(ctx, main)
	return k.Owner, err
}

// LastRoute implements [channel.Recorder]. Where a main session is named, the route is its, too.
func (s *Sessions) LastRoute(ctx context.Context, r channel.Row) error {
	place := channel.WindowKey{Channel: r.Channel, Account: r.Account, Conversation: r.Conversation.ID, Thread: r.Conversation.ThreadID}
	r.Reply.ReplyToID = channel.Opt{} // what comes later answers no message
	note := func(k *kept) {
		if k.Last == nil || !sameRoute(*k.Last, r) {
			k.Last = &r
		}
		if n := len(k.Places); n == 0 || k.Places[n-1] != place {
			places := slices.DeleteFunc(slices.Clone(k.Places), func(p channel.WindowKey) bool { return p == place })
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
func sameRoute(a, b channel.Row) bool {
	a.At = b.At
	return reflect.DeepEqual(a, b)
}

// Last returns where the last message of a session came from: the place that a turn goes to which no message has begun. ok is false
// for a session of which that is not known.
func (s *Sessions) Last(ctx context.Context, session string) (r channel.Row, ok bool, err error) {
	k, err := s.read(ctx, session)
	if err != nil || k.Last == nil {
		return channel.Row{}, false, err
	}
	return *k.Last, true, nil
}

// Places implements [channel.SessionEraser].
func (s *Sessions) Places(ctx context.Context, session string) ([]channel.WindowKey, error) {
	k, err := s.read(ctx, session)
	return k.Places, err
}

// Forget implements [channel.SessionEraser].
func (s *Sessions) Forget(ctx context.Context, session string) error {
	name := sessionName(session)
	if s.shared != nil {
		if err := s.shared.Save(ctx, name, nil); err != nil {
			return fmt.Errorf("forget a session: %w", err)
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		if err := s.store.Save(ctx, name, nil); err != nil {
			return fmt.Errorf("forget a session: %w", err)
		}
	}
	if e := s.known[name]; e != nil {
		s.order.Remove(e)
		delete(s.known, name)
	}
	return nil
}

// sessionName is the name of a session's file. It tells nothing about the session.
func sessionName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// read is what is kept of a session.
func (s *Sessions) read(ctx context.Context, key string) (kept, error) {
	if s.shared != nil {
		text, err := s.shared.Load(ctx, sessionName(key))
		if err != nil {
			return kept{}, fmt.Errorf("read where a message came from: %w", err)
		}
		return s.decode(ctx, text, key), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.known[sessionName(key)]
	if e == nil {
		return kept{}, nil
	}
	one := e.Value.(*session)
	if err := s.load(ctx, one, key); err != nil {
		return kept{}, err
	}
	return one.kept, nil
}

// change changes what is kept of a session, and writes it where that makes a difference. do replaces what it changes.
func (s *Sessions) change(ctx context.Context, key string, do func(*kept)) error {
	if s.shared != nil {
		return s.changeShared(ctx, key, do)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := sessionName(key)
	e := s.known[name]
	if e == nil {
		e = s.order.PushBack(&session{name: name, loaded: true, kept: kept{Session: key}})
		s.known[name] = e
	} else {
		s.order.MoveToBack(e)
	}
	one := e.Value.(*session)
	if err := s.load(ctx, one, key); err != nil {
		return err
	}
	next := one.kept
	do(&next)
	same := next.same(one.kept)
	if !same && s.store != nil {
		text, err := json.Marshal(next)
		if err == nil {
			err = s.store.Save(ctx, name, text)
		}
		if err != nil {
			return fmt.Errorf("keep where a message came from: %w", err)
		}
	}
	one.kept = next
	for s.order.Len() > s.o.Sessions {
		old := s.order.Remove(s.order.Front()).(*session)
		delete(s.known, old.name)
		if s.store == nil {
			continue
		}
		if err := s.store.Save(ctx, old.name, nil); err != nil {
			s.o.Log.WarnContext(ctx, "cannot remove an old session's origin", "error", err)
		}
	}
	return nil
}

// load reads a session that nobody has asked for since the process began. One that is damaged is one of which nothing is known.
func (s *Sessions) load(ctx context.Context, one *session, key string) error {
	if one.loaded {
		return nil
	}
	text, err := s.store.Load(ctx, one.name)
	if err != nil {
		return fmt.Errorf("read where a message came from: %w", err)
	}
	one.loaded = true
	one.kept = s.decode(ctx, text, key)
	return nil
}

// decode reads what a session's file has. One that is damaged is one of which nothing is known.
func (s *Sessions) decode(ctx context.Context, text []byte, key string) kept {
	var k kept
	if text != nil && (json.Unmarshal(text, &k) != nil || k.Session != key) {
		s.o.Log.WarnContext(ctx, "cannot read a session's origin")
		k = kept{}
	}
	k.Session = key
	return k
}

// same says whether nothing has changed, after a func that replaces what it changes.
func (k *kept) same(as kept) bool {
	return k.Owner == as.Owner && k.Last == as.Last && slices.Equal(k.Places, as.Places)
}

// changeShared is change where several processes may do it at once.
func (s *Sessions) changeShared(ctx context.Context, key string, do func(*kept)) error {
	err := s.shared.Change(ctx, sessionName(key), func(text []byte) ([]byte, error) {
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
