package channel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Window keeps unanswered messages of groups until somebody addresses the agent. Its zero value keeps them in memory, with the
// defaults of [WindowOptions].
//
// # Guarantees
//   - What is kept is bounded in messages, bytes, age and windows; the oldest goes first.
//   - Consume removes what a snapshot has shown and nothing that came since.
//   - While the store fails, a window is empty, and what is recorded is lost.
//   - Processes with one store have the same windows: what one of them keeps, the others see, and nothing is lost if they keep something at
//     the same time. The store bounds how many windows there are.
type Window struct {
	store Texts
	o     WindowOptions

	mu    sync.Mutex
	ready bool
	seq   uint64
}

// WindowOptions of a window. Zero values are the defaults.
type WindowOptions struct {
	Entries int           // of one window: 50; negative keeps nothing
	Bytes   int           // of one window: 48 KiB
	Age     time.Duration // 24 h
	Media   MediaChecker  // looks at local files before they are kept; nil keeps none
	Log     *slog.Logger  // what is wrong with the store; nil is nowhere
}

// MediaChecker looks at local files: [*MediaRoot] is one.
type MediaChecker interface {
	// Check returns the medium as it may be used: one whose file is not to be has no path, and the error says why.
	Check(MediaFact) (MediaFact, error)
}

const (
	defaultWindowEntries = 50
	defaultWindowBytes   = 48 << 10
	WindowLife           = 24 * time.Hour // that a message waits
	memoryWindows        = 1000
	defaultWindowMedia   = 4

	// entryCost is what an entry takes beside its texts.
	entryCost = 64
)

// NewWindow returns a window on a store; nil is a memory of 1 000 windows, which ends with the process.
func NewWindow(store Texts, o WindowOptions) *Window { return &Window{store: store, o: o} }

// WindowKey names one window.
type WindowKey struct{ Channel, Account, Conversation, Thread string }

// name is the key as a store sees it. It tells nothing about the conversation.
func (k WindowKey) name() string {
	var b strings.Builder
	for _, part := range [...]string{k.Channel, k.Account, k.Conversation, k.Thread} {
		escapeTo(&b, part)
		b.WriteByte('/')
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:16])
}

// Snapshot is what a turn sees of a window, and what finalize consumes of it.
type Snapshot struct {
	Key     WindowKey
	Entries []HistoryEntry
}

// start makes what the zero value lacks.
func (w *Window) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready {
		return
	}
	w.ready = true
	w.o.Entries = cmp.Or(w.o.Entries, defaultWindowEntries)
	w.o.Bytes = cmp.Or(max(w.o.Bytes, 0), defaultWindowBytes)
	w.o.Age = cmp.Or(max(w.o.Age, 0), WindowLife)
	if w.o.Log == nil {
		w.o.Log = slog.New(slog.DiscardHandler)
	}
	if w.store == nil {
		w.store = NewTexts(memoryWindows)
	}
}

// next numbers an entry. Numbers grow over restarts too, so that a snapshot never means what came later.
func (w *Window) next(now time.Time) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq = max(w.seq+1, uint64(max(now.UnixMicro(), 0)))
	return w.seq
}

// Recording is a message that is to wait in a window.
type Recording struct {
	Key       WindowKey
	MessageID string
	Time      time.Time // zero is now
	Message   MessageFacts
	Input     *Input // nil: the texts of Message are all
	Sender    SenderFacts
	Media     []MediaFact
	// LoadMedia gets what Media does not have. It is called when the text has been kept; ctx of Record bounds it.
	LoadMedia    func(context.Context) ([]MediaFact, error)
	Limit        int         // entries; 0 is the window's own, negative turns it off
	MediaLimit   *int        // media an entry; nil is 4
	ShouldRecord func() bool // asked before media are loaded and after; nil is yes
}

// body is the first text of the message that is not blank.
func (r *Recording) body() string {
	texts := []string{r.Message.BodyForAgent, r.Message.Body, r.Message.RawBody}
	if r.Input != nil {
		texts = append(texts, r.Input.TextForAgent, r.Input.RawText)
	}
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return ""
}

func (r *Recording) sender() string {
	return cmp.Or(r.Message.SenderLabel, r.Message.EnvelopeFrom, r.Sender.DisplayLabel, r.Sender.Name, r.Sender.ID)
}

// placeholder stands for a message that is media alone.
func placeholder(media []MediaFact) string {
	var b strings.Builder
	for _, m := range media {
		kind := m.Kind
		if kind == "" || kind == MediaUnknown {
			kind = "media"
		}
		if p := "[" + string(kind) + "]"; !strings.Contains(b.String(), p) {
			b.WriteString(p)
		}
	}
	return b.String()
}

// anyMedia is the placeholder where the kinds are not yet known.
const anyMedia = "[media]"

// Record keeps a message: the text first, then its media, where it still waits. The error is a warning: what could be kept was.
func (w *Window) Record(ctx context.Context, r Recording) error {
	w.start()
	limit := cmp.Or(r.Limit, w.o.Entries)
	if limit < 0 || w.o.Entries < 0 || r.ShouldRecord != nil && !r.ShouldRecord() {
		return nil
	}
	body := r.body()
	blank := body == ""
	if blank {
		body = placeholder(r.Media)
	}
	if body == "" && (r.LoadMedia != nil || r.Input != nil && r.Input.HasMedia) {
		body = anyMedia
	}
	if body == "" {
		return nil
	}
	now := time.Now()
	e := HistoryEntry{Sender: r.sender(), Body: body, Time: r.Time, MessageID: r.MessageID}
	if e.Time.IsZero() {
		e.Time = now
	}
	kept := false
	w.update(ctx, r.Key, true, func(entries []HistoryEntry) ([]HistoryEntry, bool) {
		entries = w.fresh(entries, now)
		kept = r.MessageID != "" && slices.ContainsFunc(entries, func(o HistoryEntry) bool { return o.MessageID == r.MessageID })
		if kept {
			return entries, false
		}
		e.Seq = w.next(now)
		if n := len(entries); n > 0 { // of another process, whose clock is ahead
			e.Seq = max(e.Seq, entries[n-1].Seq+1)
		}
		return w.bound(append(entries, w.cut(e)), min(limit, w.o.Entries)), true
	})
	if kept { // delivered again
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
	limit := defaultWindowMedia
	if r.MediaLimit != nil {
		limit = *r.MediaLimit
	}
	var good []MediaFact
	var errs []error
	for _, m := range media {
		if len(good) >= limit {
			break
		}
		if m.Kind != MediaImage || m.Path == "" || w.o.Media == nil {
			continue
		}
		m, err := w.o.Media.Check(m)
		if err != nil {
			errs = append(errs, fmt.Errorf("a medium is not kept: %w", err))
			continue
		}
		m.MessageID = cmp.Or(m.MessageID, r.MessageID)
		good = append(good, m)
	}
	w.update(ctx, r.Key, false, func(entries []HistoryEntry) ([]HistoryEntry, bool) {
		at := slices.IndexFunc(entries, func(e HistoryEntry) bool { return e.Seq == seq })
		if at < 0 {
			return entries, false
		}
		paths := map[string]bool{}
		for _, e := range entries {
			for _, m := range e.Media {
				paths[m.Path] = true
			}
		}
		e := entries[at]
		for _, m := range good {
			if !paths[m.Path] {
				paths[m.Path] = true
				e.Media = append(slices.Clip(e.Media), m)
			}
		}
		if kinds := placeholder(media); blank && e.Body == anyMedia && kinds != "" {
			e.Body = kinds
		}
		entries[at] = e
		return w.bound(entries, len(entries)), true
	})
	return errors.Join(errs...)
}

func entryBytes(e HistoryEntry) int {
	n := entryCost + len(e.Sender) + len(e.Body) + len(e.MessageID)
	for _, m := range e.Media {
		n += entryCost + len(m.Path) + len(m.ContentType) + len(m.MessageID)
	}
	return n
}

// cut shortens an entry that alone would be more than a window holds.
func (w *Window) cut(e HistoryEntry) HistoryEntry {
	e.Sender = cutText(e.Sender, w.o.Bytes/16)
	if len(e.MessageID) > w.o.Bytes/16 {
		e.MessageID = "" // no platform's
	}
	e.Body = cutText(e.Body, max(w.o.Bytes-(entryBytes(e)-len(e.Body)), 1))
	return e
}

// cutText cuts a text before the character that does not fit.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// fresh is what is not too old.
func (w *Window) fresh(entries []HistoryEntry, now time.Time) []HistoryEntry {
	for len(entries) > 0 && now.Sub(recorded(entries[0])) >= w.o.Age {
		entries = entries[1:]
	}
	return entries
}

// recorded is when an entry came here: its number tells. The platform's clock, which Time is of, may go wrong.
func recorded(e HistoryEntry) time.Time { return time.UnixMicro(int64(e.Seq)) }

// bound removes the oldest entries until the others fit.
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

// Snapshot is what waits in a window, the oldest first, at most limit entries; 0 is all. It is never nil, and does not change.
func (w *Window) Snapshot(ctx context.Context, k WindowKey, limit int) *Snapshot {
	s := &Snapshot{Key: k}
	if limit < 0 {
		return s
	}
	entries := w.fresh(w.read(ctx, k), time.Now())
	if limit > 0 && len(entries) > limit {
		entries = entries[len(entries)-limit:]
	}
	s.Entries = slices.Clone(entries)
	return s
}

// Consume removes what a snapshot has shown. What came meanwhile stays.
func (w *Window) Consume(ctx context.Context, s *Snapshot) {
	if s == nil || len(s.Entries) == 0 {
		return
	}
	seen := make(map[uint64]bool, len(s.Entries))
	for _, e := range s.Entries {
		seen[e.Seq] = true
	}
	w.change(ctx, s.Key, func(entries []HistoryEntry) []HistoryEntry {
		return slices.DeleteFunc(entries, func(e HistoryEntry) bool { return seen[e.Seq] })
	})
}

// Edit replaces the text of a message that waits. It is false where none does.
func (w *Window) Edit(ctx context.Context, k WindowKey, messageID, body string) (waits bool) {
	if messageID == "" {
		return false
	}
	w.change(ctx, k, func(entries []HistoryEntry) []HistoryEntry {
		waits = false
		for i := range entries {
			if entries[i].MessageID != messageID {
				continue
			}
			waits = true
			if strings.TrimSpace(body) == "" {
				if body = placeholder(entries[i].Media); body == "" {
					return slices.Delete(entries, i, i+1)
				}
			}
			entries[i].Body = body
			entries[i] = w.cut(entries[i])
			return w.bound(entries, len(entries))
		}
		return entries
	})
	return waits
}

// Forget removes messages that were deleted where they came from. Without ids it removes all of a window: its session is erased.
func (w *Window) Forget(ctx context.Context, k WindowKey, messageIDs ...string) {
	w.change(ctx, k, func(entries []HistoryEntry) []HistoryEntry {
		if len(messageIDs) == 0 {
			return nil
		}
		return slices.DeleteFunc(entries, func(e HistoryEntry) bool {
			return e.MessageID != "" && slices.Contains(messageIDs, e.MessageID)
		})
	})
}

// change changes what waits, where something does.
func (w *Window) change(ctx context.Context, k WindowKey, do func([]HistoryEntry) []HistoryEntry) {
	w.update(ctx, k, false, func(entries []HistoryEntry) ([]HistoryEntry, bool) { return do(entries), true })
}

// read is what waits in a window. It is not to be changed.
func (w *Window) read(ctx context.Context, k WindowKey) []HistoryEntry {
	w.start()
	text, err := w.store.Load(ctx, k.name())
	if err != nil {
		w.o.Log.WarnContext(ctx, "cannot read waiting messages; skipped this time", "channel", k.Channel, "error", err)
		return nil
	}
	return w.decode(ctx, k, text)
}

// decode reads a window that was kept. One that is damaged is empty, with a warning.
func (w *Window) decode(ctx context.Context, k WindowKey, text []byte) []HistoryEntry {
	if text == nil {
		return nil
	}
	entries, err := decodeWindow(text)
	if err != nil {
		w.o.Log.WarnContext(ctx, "cannot read waiting messages; their window is empty now", "channel", k.Channel, "error", err)
		return nil
	}
	return entries
}

// update gives do what waits, and keeps what it makes of that where it says so. Without create a window is not made. do may be called
// more than once.
func (w *Window) update(ctx context.Context, k WindowKey, create bool, do func([]HistoryEntry) (next []HistoryEntry, save bool)) {
	w.start()
	err := w.store.Change(ctx, k.name(), func(text []byte) ([]byte, error) {
		if text == nil && !create {
			return nil, nil
		}
		next, save := do(w.decode(ctx, k, text))
		switch {
		case !save:
			return text, nil
		case len(next) == 0:
			return nil, nil
		}
		return encodeWindow(next), nil
	})
	if err != nil {
		w.o.Log.WarnContext(ctx, "cannot store waiting messages", "channel", k.Channel, "error", err)
	}
}
