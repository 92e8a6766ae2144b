package tape

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/backoff"
)

// Tape is a handle on the tape of one session, or of a fork. It is safe for concurrent use and holds nothing that must
// be closed. After the session was erased every method returns ErrDeleted.
type Tape struct {
	store     Store
	name      string
	session   string
	workspace string
	born      time.Time // date of the first entry: tells this tape from a later one of the same name
}

// Open returns the tape of a session and creates a missing one, which begins with an anchor, [AnchorStart]. Concurrent calls
// create it once.
//
// A tape of that name that is another session's is ErrNameCollision. A session id that [CheckSession] refuses is
// ErrInvalid.
func Open(ctx context.Context, store Store, workspace, session string) (*Tape, error) {
	t, info, err := lookup(ctx, store, workspace, session)
	// Each further attempt means that another process has created, changed or erased the tape.
	for {
		var missing []Entry
		switch {
		case errors.Is(err, ErrNotFound):
			info = Info{}
			fallthrough
		case err == nil && info.Anchors == 0:
			start := NewAnchor(AnchorStart, map[string]string{"owner": "human"})
			missing = []Entry{start.With(Meta{Session: t.session, Workspace: t.workspace})}
		case err != nil:
			return nil, err
		case info.Session != t.session || info.Workspace != t.workspace:
			// It was imported from another session, or from another machine: say whose it is now, so that the directory can
			// be made of the entries alone.
			missing = []Entry{NewEvent(EventSessionImported, nil).With(Meta{Session: t.session, Workspace: t.workspace})}
		default:
			t.born = info.Created
			return t, nil
		}
		b := Batch{Entries: missing, Create: info.Entries == 0, IfLast: info.LastID, Born: info.Created}
		if _, err = store.Append(ctx, t.name, b); err != nil && !errors.Is(err, ErrNotEmpty) && !errors.Is(err, ErrMoved) && !errors.Is(err, ErrDeleted) {
			return nil, fmt.Errorf("open session: %w", err)
		}
		info, err = t.info(ctx)
	}
}

// Lookup returns the tape of a session; a missing one is ErrNotFound. It writes nothing.
func Lookup(ctx context.Context, store Store, workspace, session string) (*Tape, error) {
	t, info, err := lookup(ctx, store, workspace, session)
	if err != nil {
		return nil, err
	}
	t.born = info.Created
	return t, nil
}

// lookup returns a tape beside ErrNotFound too.
func lookup(ctx context.Context, store Store, workspace, session string) (*Tape, Info, error) {
	if err := CheckSession(session); err != nil {
		return nil, Info{}, err
	}
	t := &Tape{store: store, session: session, workspace: ResolveWorkspace(workspace)}
	t.name = nameOf(t.workspace, session)
	info, err := t.info(ctx)
	return t, info, err
}

// info asks the store, and sees whether the tape is ours.
func (t *Tape) info(ctx context.Context) (Info, error) {
	info, err := t.store.Info(ctx, t.name)
	if err != nil {
		return Info{}, err
	}
	// The tape of an imported session names the one that it came from. That one's tape has another name, so the two
	// do not collide; a session whose tape has this very name does.
	if other := info.Session; other != "" && (other != t.session || info.Workspace != t.workspace) && nameOf(info.Workspace, other) == t.name {
		return Info{}, fmt.Errorf("%w: the session %q in %s has the tape name %s, which belongs to the session %q in %s", ErrNameCollision,
			t.session, t.workspace, t.name, other, info.Workspace)
	}
	return info, nil
}

// Name is the tape's name in its store.
func (t *Tape) Name() string { return t.name }

// Session is the id that the tape was opened with.
func (t *Tape) Session() string { return t.session }

// Workspace is the folder that the tape was opened with, absolute and with its links resolved.
func (t *Tape) Workspace() string { return t.workspace }

// Store is the store that holds the tape.
func (t *Tape) Store() Store {
	if fork, ok := t.store.(*forkStore); ok {
		return fork.parent.Store()
	}
	return t.store
}

// Append writes entries to the end of the tape, all of them or none, and returns the id of the first; the others' ids
// follow. Ids that the entries have are not looked at. Anchors are written by Handoff alone.
func (t *Tape) Append(ctx context.Context, entries ...Entry) (first int64, err error) {
	for _, e := range entries {
		if e.Kind == KindAnchor {
			return 0, fmt.Errorf("%w: use Handoff to write an anchor, because it keeps the settings", ErrInvalid)
		}
	}
	return t.append(ctx, Batch{Entries: entries})
}

// patience is how long a turn waits for a store that is away: what its readers have seen is to be on the tape.
const patience = time.Minute

// AppendPatiently is Append that tries again while the store is away, for a minute, also when ctx was canceled.
// Its error is then that of the store.
func (t *Tape) AppendPatiently(ctx context.Context, entries ...Entry) (first int64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	pauses := backoff.New(appendPause, longestAppendPause)
	for {
		if first, err = t.Append(ctx, entries...); !errors.Is(err, ErrAway) || backoff.Sleep(ctx, pauses.NextBackOff()) != nil {
			return first, err
		}
	}
}

// Pauses between attempts to append.
const appendPause, longestAppendPause = 100 * time.Millisecond, 2 * time.Second

func (t *Tape) append(ctx context.Context, b Batch) (int64, error) {
	b.Born = t.born
	first, err := t.store.Append(ctx, t.name, b)
	return first, gone(err)
}

// gone is what an error means to a handle: its tape existed.
func gone(err error) error {
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: the session was erased during its use", ErrDeleted)
	}
	return err
}

// Handoff writes an anchor: from here on, a view begins with it and its state. The anchor carries the session's settings,
// so that nothing before it is needed. A name has 1–128 bytes and no line breaks. The entries then follow
// in the same batch.
func (t *Tape) Handoff(ctx context.Context, name string, state any, then ...Entry) (Entry, error) {
	if err := checkAnchor(name); err != nil { // before text that is not UTF-8 is replaced
		return Entry{}, err
	}
	return t.HandoffWith(ctx, NewAnchor(name, state), then...)
}

// HandoffWith is Handoff with an anchor that the caller has made.
func (t *Tape) HandoffWith(ctx context.Context, anchor Entry, then ...Entry) (Entry, error) {
	if anchor.Kind != KindAnchor || anchor.Payload == nil {
		return Entry{}, fmt.Errorf("%w: expected an anchor state that has a JSON form", ErrInvalid)
	}
	if err := checkAnchor(AnchorOf(anchor).Name); err != nil {
		return Entry{}, err
	}
	for _, e := range then {
		if e.Kind == KindAnchor {
			return Entry{}, fmt.Errorf("%w: a handoff writes one anchor", ErrInvalid)
		}
	}
	for {
		info, err := t.Info(ctx)
		if err != nil {
			return Entry{}, err
		}
		settings, err := t.settings(ctx, info.LastID)
		if err != nil {
			return Entry{}, err
		}
		e := anchor.With(Meta{Settings: settings})
		if e.Date.IsZero() {
			e.Date = now()
		}
		// A setting that comes between would be lost behind the anchor.
		b := Batch{Entries: append([]Entry{e}, then...), IfLast: info.LastID}
		e.ID, err = t.append(ctx, b)
		if err == nil {
			return e, nil
		}
		if !errors.Is(err, ErrMoved) {
			return Entry{}, err
		}
	}
}

const maxAnchor = 128 // bytes of an anchor's name

func checkAnchor(name string) error {
	if name == "" || len(name) > maxAnchor || !utf8.ValidString(name) || strings.ContainsAny(name, "\n\v\f\r\u0085\u2028\u2029") {
		return fmt.Errorf("%w: the name of an anchor is 1–%d bytes of UTF-8 without line breaks, %.40q is not", ErrInvalid, maxAnchor, name)
	}
	return nil
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Settings are the session's settings: those that the last anchor carries, with the events [NewSetting] after it. The
// newest value of a name counts.
func (t *Tape) Settings(ctx context.Context) (map[string]json.RawMessage, error) {
	return t.settings(ctx, 0)
}

// settings are the settings up to the id last; 0 is the end.
func (t *Tape) settings(ctx context.Context, last int64) (map[string]json.RawMessage, error) {
	q := Query{FromLast: true, Kinds: []Kind{KindAnchor, KindEvent}}
	if last > 0 {
		q.Before = last + 1
	}
	settings := map[string]json.RawMessage{}
	for e, err := range t.Read(ctx, q) {
		if err != nil {
			return nil, err
		}
		switch e.Kind {
		case KindAnchor:
			maps.Copy(settings, MetaOf(e).Settings)
		case KindEvent:
			var setting struct {
				Name  string
				Value json.RawMessage
			}
			p := PayloadOf(e)
			if p.Name == EventSetting && json.Unmarshal(p.Data, &setting) == nil && setting.Name != "" && setting.Value != nil {
				settings[setting.Name] = setting.Value
			}
		}
	}
	return settings, nil
}

// Info tells about the tape without reading it.
func (t *Tape) Info(ctx context.Context) (Info, error) {
	info, err := t.store.Info(ctx, t.name)
	if err == nil && !info.Created.Equal(t.born) {
		err = ErrNotFound
	}
	if err != nil {
		return Info{}, gone(err)
	}
	return info, nil
}

// Read yields what q selects of the tape as it is when the reading begins. An error is the last pair. An entry's payload
// and meta may be kept but not changed.
func (t *Tape) Read(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if _, err := t.Info(ctx); err != nil {
			yield(Entry{}, err)
			return
		}
		for e, err := range t.store.Read(ctx, t.name, q) {
			if !yield(e, gone(err)) || err != nil {
				return
			}
		}
	}
}

// Anchors yields where the anchors are, newest first.
func (t *Tape) Anchors(ctx context.Context) iter.Seq2[AnchorRef, error] {
	return func(yield func(AnchorRef, error) bool) {
		for e, err := range t.Read(ctx, Query{Kinds: []Kind{KindAnchor}, Newest: true}) {
			if !yield(AnchorOf(e), err) || err != nil {
				return
			}
		}
	}
}

// Delete erases the session: its entries and blobs. Every handle of it returns ErrDeleted from then on. The caller sees to it that no turn of
// the session is running. A fork is dropped.
func (t *Tape) Delete(ctx context.Context) error {
	if _, err := t.Info(ctx); err != nil {
		return err
	}
	return t.store.Delete(ctx, t.name)
}

// PutBlob stores a large value beside the session's tape, also in a fork, and returns its handle, for an entry's meta (Spill).
func (t *Tape) PutBlob(ctx context.Context, data []byte) (handle string, err error) {
	if _, err := t.Info(ctx); err != nil {
		return "", err
	}
	handle, err = t.store.PutBlob(ctx, t.name, data)
	return handle, gone(err)
}

// ReadBlob returns at most limit bytes of a blob from offset on, and its full size. An offset at or behind the end gives no data. A handle that
// is not this session's is ErrNotFound.
func (t *Tape) ReadBlob(ctx context.Context, handle string, offset, limit int64) (data []byte, size int64, err error) {
	if offset < 0 || limit < 0 {
		return nil, 0, fmt.Errorf("%w: offset and limit of a blob are not negative, %d and %d are given", ErrInvalid, offset, limit)
	}
	if _, err := t.Info(ctx); err != nil {
		return nil, 0, err
	}
	return t.store.ReadBlob(ctx, t.name, handle, offset, limit)
}

// Export writes the tape's entries, one line each.
func (t *Tape) Export(ctx context.Context, w io.Writer) error {
	var line []byte
	for e, err := range t.Read(ctx, Query{}) {
		if err != nil {
			return err
		}
		line = append(e.AppendJSON(line[:0]), '\n')
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("export entry %d: %w", e.ID, err)
		}
	}
	return nil
}
