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
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Window stores unanswered messages of groups until a message addresses the agent. Its zero value stores them in memory, with the default
// [WindowOptions].
//
// # Guarantees
//   - Messages, bytes, age and windows are bounded; the oldest message is dropped first.
//   - Consume removes what a snapshot has, and nothing that came later.
//   - While the store fails, a window is empty, and messages are lost.
//   - Processes with the same store have the same windows, and concurrent changes are not lost. The store bounds the number of windows.
type Window struct {
	store Texts
	o     WindowOptions
	init  sync.Once

	mu  sync.Mutex
	seq uint64 // the last number of an entry
}

// WindowOptions are the options of a [Window]. Zero values are the defaults.
type WindowOptions struct {
	Entries int           // of one window: 50; negative stores nothing
	Bytes   int           // of one window: 48 KiB
	Age     time.Duration // 24 h
	Media   MediaChecker  // checks local files before they are stored; nil stores no media
	Log     *slog.Logger  // for errors of the store; nil discards them
}

// MediaChecker checks local files: [*MediaRoot] is one.
type MediaChecker interface {
	// Check returns the medium to use. If its file must not be used, it has no path, and the error is the reason.
	Check(MediaFact) (MediaFact, error)
}

const (
	defaultWindowEntries = 50
	defaultWindowBytes   = 48 << 10
	WindowLife           = 24 * time.Hour // default of WindowOptions.Age
	memoryWindows        = 1000
	defaultWindowMedia   = 4
	entryCost            = 64 // bytes of an entry in addition to its texts
)

// NewWindow returns a window on a store. With nil, the store is memory for 1 000 windows.
func NewWindow(store Texts, o WindowOptions) *Window { return &Window{store: store, o: o} }

// WindowKey names one window.
type WindowKey struct{ Channel, Account, Conversation, Thread string }

// name is the key in the store. It is a hash, so that it does not reveal the conversation.
func (k WindowKey) name() string {
	sum := sha256.Sum256(appendParts(nil, k.Channel, k.Account, k.Conversation, k.Thread))
	return hex.EncodeToString(sum[:16])
}

// Snapshot is what a turn has read from a window, and what finalize consumes.
type Snapshot struct {
	Key     WindowKey
	Entries []HistoryEntry
}

func (w *Window) setDefaults() {
	w.o.Entries = cmp.Or(w.o.Entries, defaultWindowEntries)
	w.o.Bytes = cmp.Or(max(w.o.Bytes, 0), defaultWindowBytes)
	w.o.Age = cmp.Or(max(w.o.Age, 0), WindowLife)
	w.o.Log = cmp.Or(w.o.Log, slog.New(slog.DiscardHandler))
	if w.store == nil {
		w.store = NewTexts(memoryWindows)
	}
}

// nextSeq returns the number of a new entry: the time in microseconds, or one more than the last. So numbers also grow after a restart.
func (w *Window) nextSeq(now time.Time) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq = max(w.seq+1, uint64(max(now.UnixMicro(), 0)))
	return w.seq
}

// recordedAt returns the time of an entry's number. HistoryEntry.Time is from the platform's clock, which may be wrong.
func recordedAt(e HistoryEntry) time.Time { return time.UnixMicro(int64(e.Seq)) }

// Recording is a message to store in a window.
type Recording struct {
	Key       WindowKey
	MessageID string
	Time      time.Time // zero is now
	Message   MessageFacts
	Input     *Input // texts to use if those of Message are blank
	Sender    SenderFacts
	Media     []MediaFact
	// LoadMedia returns more media. It is called after the text is stored, with the context of Record.
	LoadMedia    func(context.Context) ([]MediaFact, error)
	Limit        int         // entries; 0 is the window's limit, negative stores nothing
	MediaLimit   *int        // media of an entry; nil is 4
	ShouldRecord func() bool // called before and after media are loaded; nil is true
}

// body returns the first text of the message that is not blank.
func (r *Recording) body() string {
	texts := []string{r.Message.BodyForAgent, r.Message.Body, r.Message.RawBody}
	if r.Input != nil {
		texts = append(texts, r.Input.TextForAgent, r.Input.RawText)
	}
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			return text
		}
	}
	return ""
}

// placeholder returns the text of a message that has only media, such as "[image]".
func placeholder(media []MediaFact) (text string) {
	for _, m := range media {
		kind := m.Kind
		if kind == "" || kind == MediaUnknown {
			kind = "media"
		}
		if part := "[" + string(kind) + "]"; !strings.Contains(text, part) {
			text += part
		}
	}
	return text
}

// anyMedia is the placeholder for media that are not loaded yet.
const anyMedia = "[media]"

// Record stores the text of a message, and then its media if the message still waits. An error is a warning about media.
func (w *Window) Record(ctx context.Context, r Recording) error {
	w.init.Do(w.setDefaults)
	limit := min(cmp.Or(r.Limit, w.o.Entries), w.o.Entries)
	if limit < 0 || r.ShouldRecord != nil && !r.ShouldRecord() {
		return nil
	}
	body := r.body()
	blank := body == ""
	if blank {
		body = placeholder(r.Media)
		if body == "" && (r.LoadMedia != nil || r.Input != nil && r.Input.HasMedia) {
			body = anyMedia
		}
		if body == "" {
			return nil
		}
	}
	now := time.Now()
	e := HistoryEntry{Body: body, Time: r.Time, MessageID: r.MessageID}
	e.Sender = cmp.Or(r.Message.SenderLabel, r.Message.EnvelopeFrom, r.Sender.DisplayLabel, r.Sender.Name, r.Sender.ID)
	if e.Time.IsZero() {
		e.Time = now
	}
	known := false // the platform has delivered the message before
	w.update(ctx, r.Key, true, func(entries []HistoryEntry) []HistoryEntry {
		entries = w.dropOld(entries, now)
		known = r.MessageID != "" && slices.ContainsFunc(entries, func(o HistoryEntry) bool { return o.MessageID == r.MessageID })
		if known {
			return entries
		}
		e.Seq = w.nextSeq(now)
		if n := len(entries); n > 0 { // the clock of another process may be ahead
			e.Seq = max(e.Seq, entries[n-1].Seq+1)
		}
		return w.bound(append(entries, w.shorten(e)), limit)
	})
	if known {
		return nil
	}
	media, err := r.Media, error(nil)
	if r.LoadMedia != nil {
		var loaded []MediaFact
		loaded, err = safely(func() ([]MediaFact, error) { return r.LoadMedia(ctx) })
		media = append(slices.Clip(media), loaded...)
	}
	if len(media) == 0 || r.ShouldRecord != nil && !r.ShouldRecord() {
		return err
	}
	return errors.Join(err, w.attach(ctx, r, e.Seq, media, blank))
}

// safely turns a panic of a callback into an error.
func safely[T any](do func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p}
		}
	}()
	return do()
}

// attach adds media to an entry that still waits.
func (w *Window) attach(ctx context.Context, r Recording, seq uint64, media []MediaFact, blank bool) error {
	good, err := w.checkMedia(r, media)
	w.update(ctx, r.Key, false, func(entries []HistoryEntry) []HistoryEntry {
		i := slices.IndexFunc(entries, func(e HistoryEntry) bool { return e.Seq == seq })
		if i < 0 {
			return entries
		}
		paths := map[string]bool{} // in the window
		for _, e := range entries {
			for _, m := range e.Media {
				paths[m.Path] = true
			}
		}
		for _, m := range good {
			if !paths[m.Path] {
				paths[m.Path] = true
				entries[i].Media = append(entries[i].Media, m)
			}
		}
		if kinds := placeholder(media); blank && entries[i].Body == anyMedia && kinds != "" {
			entries[i].Body = kinds
		}
		return w.bound(entries, len(entries))
	})
	return err
}

// checkMedia returns the local images that can be stored.
func (w *Window) checkMedia(r Recording, media []MediaFact) (good []MediaFact, err error) {
	limit := defaultWindowMedia
	if r.MediaLimit != nil {
		limit = *r.MediaLimit
	}
	for _, m := range media {
		if len(good) >= limit || w.o.Media == nil {
			break
		}
		if m.Kind != MediaImage || m.Path == "" {
			continue
		}
		checked, bad := w.o.Media.Check(m)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("a medium is not kept: %w", bad))
			continue
		}
		checked.MessageID = cmp.Or(checked.MessageID, r.MessageID)
		good = append(good, checked)
	}
	return good, err
}

func entryBytes(e HistoryEntry) int {
	n := entryCost + len(e.Sender) + len(e.Body) + len(e.MessageID)
	for _, m := range e.Media {
		n += entryCost + len(m.Path) + len(m.ContentType) + len(m.MessageID)
	}
	return n
}

// shorten shortens an entry to the size of a window.
func (w *Window) shorten(e HistoryEntry) HistoryEntry {
	e.Sender = firstBytes(e.Sender, w.o.Bytes/16)
	if len(e.MessageID) > w.o.Bytes/16 {
		e.MessageID = "" // not an id of a platform
	}
	e.Body = firstBytes(e.Body, max(w.o.Bytes-(entryBytes(e)-len(e.Body)), 1))
	return e
}

// firstBytes returns the characters in the first n bytes.
func firstBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func (w *Window) dropOld(entries []HistoryEntry, now time.Time) []HistoryEntry {
	for len(entries) > 0 && now.Sub(recordedAt(entries[0])) >= w.o.Age {
		entries = entries[1:]
	}
	return entries
}

// bound drops the oldest entries until the rest fits.
func (w *Window) bound(entries []HistoryEntry, limit int) []HistoryEntry {
	size := 0
	for _, e := range entries {
		size += entryBytes(e)
	}
	for len(entries) > 0 && (len(entries) > limit || size > w.o.Bytes) {
		size -= entryBytes(entries[0])
		entries = entries[1:]
	}
	return entries
}

// Snapshot returns the last limit entries of a window, the oldest first. 0 is no limit; a negative limit returns no entries. It never
// returns nil.
func (w *Window) Snapshot(ctx context.Context, k WindowKey, limit int) *Snapshot {
	w.init.Do(w.setDefaults)
	s := &Snapshot{Key: k}
	if limit < 0 {
		return s
	}
	text, err := w.store.Load(ctx, k.name())
	if err != nil {
		w.o.Log.WarnContext(ctx, "cannot read waiting messages; skipped this time", "channel", k.Channel, "error", err)
		return s
	}
	s.Entries = w.dropOld(w.decode(ctx, k, text), time.Now())
	if limit > 0 && len(s.Entries) > limit {
		s.Entries = s.Entries[len(s.Entries)-limit:]
	}
	return s
}

// Consume removes the entries of a snapshot.
func (w *Window) Consume(ctx context.Context, s *Snapshot) {
	if s == nil || len(s.Entries) == 0 {
		return
	}
	consumed := make(map[uint64]bool, len(s.Entries))
	for _, e := range s.Entries {
		consumed[e.Seq] = true
	}
	w.update(ctx, s.Key, false, func(entries []HistoryEntry) []HistoryEntry {
		return slices.DeleteFunc(entries, func(e HistoryEntry) bool { return consumed[e.Seq] })
	})
}

// Edit replaces the text of a message. It returns false if the message does not wait.
func (w *Window) Edit(ctx context.Context, k WindowKey, messageID, body string) (waits bool) {
	w.update(ctx, k, false, func(entries []HistoryEntry) []HistoryEntry {
		i := slices.IndexFunc(entries, func(e HistoryEntry) bool { return e.MessageID == messageID })
		if waits = i >= 0 && messageID != ""; !waits {
			return entries
		}
		if entries[i].Body = body; strings.TrimSpace(body) == "" {
			entries[i].Body = placeholder(entries[i].Media)
		}
		if entries[i].Body == "" {
			return slices.Delete(entries, i, i+1)
		}
		entries[i] = w.shorten(entries[i])
		return w.bound(entries, len(entries))
	})
	return waits
}

// Forget removes messages that were deleted on the platform. Without ids it removes all messages of a window.
func (w *Window) Forget(ctx context.Context, k WindowKey, messageIDs ...string) {
	w.update(ctx, k, false, func(entries []HistoryEntry) []HistoryEntry {
		return slices.DeleteFunc(entries, func(e HistoryEntry) bool {
			return len(messageIDs) == 0 || e.MessageID != "" && slices.Contains(messageIDs, e.MessageID)
		})
	})
}

// update replaces the entries of a window by the result of change, which may be called more than once. Without create, a window that does
// not exist is not changed.
func (w *Window) update(ctx context.Context, k WindowKey, create bool, change func([]HistoryEntry) []HistoryEntry) {
	w.init.Do(w.setDefaults)
	err := w.store.Change(ctx, k.name(), func(text []byte) ([]byte, error) {
		if text == nil && !create {
			return nil, nil
		}
		entries := change(w.decode(ctx, k, text))
		if len(entries) == 0 {
			return nil, nil
		}
		return json.Marshal(entries)
	})
	if err != nil {
		w.o.Log.WarnContext(ctx, "cannot store waiting messages", "channel", k.Channel, "error", err)
	}
}

// decode returns the entries of a stored window. A damaged window is empty, with a warning.
func (w *Window) decode(ctx context.Context, k WindowKey, text []byte) []HistoryEntry {
	var entries []HistoryEntry
	if text == nil {
		return nil
	}
	if err := json.Unmarshal(text, &entries); err != nil {
		w.o.Log.WarnContext(ctx, "cannot read waiting messages; their window is empty now", "channel", k.Channel, "error", err)
		return nil
	}
	return entries
}
