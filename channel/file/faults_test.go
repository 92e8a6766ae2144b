package file_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/file"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
)

// Each call of a journal to its disk fails once, and with all calls after it. An event that was accepted stays until it is settled, one
// that was refused does not appear, one that was settled does not run again, and the journal goes on when the disk does.
func TestEachCallOfAJournalToTheDiskMayFail(t *testing.T) { // CH-192
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		synctest.Test(t, func(t *testing.T) {
			l := &journalLife{t: t, d: d, events: map[string]*lifeEvent{}}
			l.run()
		})
	})
}

// journalLife is the life of a journal. It remembers what the journal has said.
type journalLife struct {
	t      *testing.T
	d      *vfstest.Disk
	j      *file.Journal
	events map[string]*lifeEvent // by id
}

// lifeEvent is what the journal has said of an event.
type lifeEvent struct {
	key      channel.EventKey
	raw      string
	accepted bool
	claim    channel.Claim
	released int         // releases that were reported as kept
	ended    lifeOutcome // of its last claim
	erased   lifeOutcome
	lived    bool // it was settled or released in a life of the journal before this one
}

// lifeOutcome is what came of a change.
type lifeOutcome int

const (
	notTried lifeOutcome = iota
	reportedFailed
	reportedDone
)

func outcomeOf(err error) lifeOutcome {
	if err != nil {
		return reportedFailed
	}
	return reportedDone
}

func (l *journalLife) run() {
	l.open()
	l.accept("1")
	l.claim("1")
	l.commit("1")
	l.accept("2", "3", "4")
	l.accept("4") // once more, of a batch that was perhaps refused
	l.claim("2")
	l.release("2")
	l.claim("3")
	for i := 5; i < 10; i++ { // which moves what waits to other segments
		l.accept(fmt.Sprint(i))
	}
	l.commit("3")
	l.claim("6")
	l.commit("6")
	l.look("while the disk fails")
	l.check(l.d.Crash(false), "after the process died")
	l.check(l.d.Crash(true), powerWent)
	l.erase("7")
	l.erase("7") // once more
	l.check(l.d.Crash(true), powerWent)
	l.claim("8") // and it runs as the journal closes
	l.reopen()
	for _, id := range []string{"2", "4", "5"} {
		l.claim(id)
		l.commit(id)
	}
	l.accept("10")
	time.Sleep(25 * time.Hour) // a segment goes
	synctest.Wait()
	l.check(l.d.Crash(false), "a day later")
	l.accept("11")

	l.d.Mend()
	l.erase("7")
	l.look("with the disk back")
	if !l.accept("12") {
		l.reopen()
		if !l.accept("12") {
			l.t.Error("the journal does not go on")
		}
	}
	time.Sleep(25 * time.Hour)
	synctest.Wait()
	l.check(l.d.Crash(false), "two days later")
	for _, id := range slices.Sorted(maps.Keys(l.events)) {
		l.claim(id)
		l.commit(id)
	}
	for e, err := range l.j.Pending(l.t.Context()) {
		if err != nil {
			l.t.Error(err)
		} else if known := l.events[e.Key.ID]; known.ended != reportedFailed && known.erased != reportedFailed && (known.accepted || l.d.Once()) {
			l.t.Errorf("event %s is left", e.Key.ID)
		}
	}
	err := l.j.Close()
	if err != nil && (l.d.Hit() == "" || !strings.Contains(err.Error(), "failed to make durable")) {
		l.t.Errorf("close: %v", err)
	}
	if open := l.d.Open(); len(open) > 0 {
		l.t.Errorf("open after Close: %q", open)
	}
	if err == nil {
		l.check(l.d.Crash(true), "closed")
	}
}

const powerWent = "after the power went"

// lifeOptions let a segment take two events.
var lifeOptions = file.JournalOptions{Keys: 7}

// open opens the journal, on a disk that is well if it must be.
func (l *journalLife) open() {
	j, err := file.OpenJournalIn(l.d.Dir, lifeOptions)
	if err != nil {
		l.d.Mend()
		if j, err = file.OpenJournalIn(l.d.Dir, lifeOptions); err != nil {
			l.t.Fatal(err)
		}
	}
	l.j = j
}

func (l *journalLife) reopen() {
	err := l.j.Close()
	if open := l.d.Open(); len(open) > 0 {
		l.t.Errorf("open after Close: %q", open)
	}
	if err == nil {
		l.check(l.d.Crash(true), "closed")
	}
	for _, e := range l.events {
		e.claim = nil
		e.lived = true
	}
	l.open()
}

// accept accepts events that are new, and tries twice.
func (l *journalLife) accept(ids ...string) bool {
	l.t.Helper()
	var entries []channel.JournalEntry
	for _, id := range ids {
		e := l.events[id]
		if e == nil {
			e = &lifeEvent{key: channel.EventKey{Channel: "fake", Conversation: "c", ID: id}, raw: "event " + id + strings.Repeat(" ", 40*len(l.events)) + "."}
			l.events[id] = e
		}
		entries = append(entries, channel.JournalEntry{Key: e.key, Raw: []byte(e.raw)})
	}
	for range 2 {
		isNew, err := l.j.AcceptAll(l.t.Context(), entries)
		if err != nil {
			continue
		}
		for i, id := range ids {
			if e := l.events[id]; isNew[i] && e.accepted && e.erased == notTried {
				l.t.Errorf("event %s is accepted twice", id)
			} else if !isNew[i] && !e.accepted && l.d.Once() && !e.lived {
				l.t.Errorf("event %s was refused, and is known", id)
			}
			l.events[id].accepted = true
		}
		return true
	}
	return false
}

// waits says whether an event was accepted and nothing has ended it.
func (e *lifeEvent) waits() bool {
	return e != nil && e.accepted && e.ended == notTried && e.erased == notTried
}

// claim claims an event that waits, and tries twice.
func (l *journalLife) claim(id string) {
	e := l.events[id]
	if !e.waits() || e.claim != nil {
		return
	}
	for range 2 {
		c, state, err := l.j.Claim(l.t.Context(), e.key)
		if err == nil && c == nil {
			l.t.Errorf("event %s waits, and is %q", id, state)
			return
		}
		if err == nil {
			e.claim = c
			return
		}
	}
}

func (l *journalLife) commit(id string) {
	e := l.events[id]
	if e == nil || e.claim == nil {
		return
	}
	e.ended = outcomeOf(e.claim.Commit(l.t.Context(), channel.OutcomeVisible))
	e.claim = nil
	if state, err := l.j.Peek(l.t.Context(), e.key); err != nil || state != channel.ClaimSettled {
		l.t.Errorf("event %s is settled, and is %q, %v", id, state, err)
	}
}

func (l *journalLife) release(id string) {
	e := l.events[id]
	if e == nil || e.claim == nil {
		return
	}
	if err := e.claim.Release(l.t.Context(), errors.New("it did not work")); err == nil {
		e.released++
	}
	e.claim = nil
}

func (l *journalLife) erase(id string) {
	e := l.events[id]
	err := l.j.Erase(l.t.Context(), func(k channel.EventKey) bool { return k.ID == id })
	if e.accepted && err == nil {
		e.erased = reportedDone
	} else if e.accepted {
		e.erased = reportedFailed
	}
}

// look compares what the journal says with what it has said before.
func (l *journalLife) look(when string) {
	l.t.Helper()
	found := map[string]bool{}
	for e, err := range l.j.Pending(l.t.Context()) {
		if err != nil {
			return
		}
		found[e.Key.ID] = true
	}
	for id, e := range l.events {
		if want := e.waits() && e.claim == nil; found[id] != want && e.erased != reportedFailed && !e.lived {
			l.t.Errorf("%s: event %s waits: %v, and is %+v", when, id, found[id], e)
		}
	}
}

// check opens what is left of a disk.
func (l *journalLife) check(d *vfstest.Disk, when string) {
	l.t.Helper()
	text := l.text(d)
	j, err := file.OpenJournalIn(d.Dir, lifeOptions)
	if err != nil {
		l.t.Fatalf("%s: %v", when, err)
	}
	defer j.Close()
	found := map[string]channel.JournalEntry{}
	for e, err := range j.Pending(context.Background()) {
		if err != nil {
			l.t.Errorf("%s: %v", when, err)
		}
		found[e.Key.ID] = e
	}
	for id, e := range l.events {
		at, waits := found[id]
		switch {
		case waits && string(at.Raw) != e.raw:
			l.t.Errorf("%s: event %s is %q, expected %q", when, id, at.Raw, e.raw)
		case waits && at.Attempt < e.released && when != powerWent:
			l.t.Errorf("%s: event %s has %d attempts, expected %d", when, id, at.Attempt, e.released)
		case e.waits() && !waits:
			l.t.Errorf("%s: event %s was accepted, and is lost", when, id)
		case !e.accepted && waits && l.d.Once() && when != powerWent:
			l.t.Errorf("%s: event %s was refused, and runs", when, id)
		case e.ended == reportedDone && waits && when != powerWent:
			l.t.Errorf("%s: event %s was settled, and runs again", when, id)
		case e.erased == reportedDone && (waits || strings.Contains(text, e.raw)):
			l.t.Errorf("%s: event %s was erased, and is there", when, id)
		}
	}
}

// text is what all files of a disk have.
func (l *journalLife) text(d *vfstest.Disk) string {
	root, err := d.Dir(true)
	if err != nil {
		l.t.Fatal(err)
	}
	defer root.Close()
	var b strings.Builder
	for _, name := range d.Files() {
		text, err := vfs.ReadFile(root, name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			l.t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}

// Where more events wait than keys are kept, the journal grows. It does not move them for ever.
func TestAJournalTakesMoreEventsThanKeys(t *testing.T) {
	j := open(t, t.TempDir(), file.JournalOptions{Keys: 2})
	for i := range 5 {
		accept(t, j, key(i), fmt.Sprint("event ", i))
	}
	if left := pending(t, j); len(left) != 5 {
		t.Errorf("%q wait, expected 5", left)
	}
}

// Each call of the sessions and the windows to their disk fails once, and with all calls after it. What was kept stays whole, what was
// not kept is as before, and a list has all names or is an error.
func TestEachCallOfSmallFilesToTheDiskMayFail(t *testing.T) {
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		ctx := t.Context()
		// By name, the texts that it may have: the last one that was reported as kept, and those that were reported as failed.
		may := map[string][]string{"a": {""}, "b": {""}, "c": {""}}
		openWindows := func() *file.Windows {
			w, err := file.OpenWindowsIn(d.Dir)
			if err != nil {
				d.Mend()
				if w, err = file.OpenWindowsIn(d.Dir); err != nil {
					t.Fatal(err)
				}
			}
			return w
		}
		save := func(w *file.Windows, name, text string) {
			raw := []byte(text)
			if text == "" {
				raw = nil
			}
			if err := w.Save(ctx, name, raw); err != nil {
				may[name] = append(may[name], text)
				return
			}
			may[name] = []string{text}
		}
		look := func(w *file.Windows, when string) {
			names, err := w.Names(ctx)
			for name, texts := range may {
				if there := slices.Contains(names, name); err == nil && there != (texts[0] != "") && len(texts) == 1 {
					t.Errorf("%s: %s is listed: %v, and is %q", when, name, there, texts)
				}
				text, err := w.Load(ctx, name)
				if err == nil && !slices.Contains(texts, string(text)) {
					t.Errorf("%s: %s is %q, expected one of %q", when, name, text, texts)
				}
			}
		}
		w := openWindows()
		for i, name := range []string{"a", "b", "a", "c", "b"} {
			save(w, name, fmt.Sprint("text ", i))
			look(w, "while the disk fails")
		}
		save(w, "c", "")
		look(w, "while the disk fails")
		_ = w.Close()
		w = openWindows()
		look(w, "opened again")
		d.Mend()
		for _, name := range []string{"a", "b", "c"} {
			save(w, name, "the last text")
			if len(may[name]) != 1 {
				t.Errorf("%s cannot be kept with the disk back", name)
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if open := d.Open(); len(open) > 0 {
			t.Errorf("open after Close: %q", open)
		}
		after := d.Crash(false)
		w, err := file.OpenWindowsIn(after.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		look(w, "after the process died")
		for _, name := range after.Files() {
			if !strings.HasSuffix(name, ".window") {
				t.Errorf("%s is left", name)
			}
		}
	})
}

// A main session has one owner, whichever call to the disk fails.
func TestEachCallOfSessionsToTheDiskMayFail(t *testing.T) {
	row := func(sender string) channel.Row {
		r := channel.Row{Channel: "fake", SessionKey: "fake:" + sender, Sender: sender}
		r.Conversation.Kind = channel.Direct
		r.Conversation.ID = sender
		r.Route.MainSessionKey = "main"
		return r
	}
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		ctx := t.Context()
		openSessions := func() *file.Sessions {
			s, err := file.OpenSessionsIn(d.Dir, file.SessionsOptions{})
			if err != nil {
				d.Mend()
				if s, err = file.OpenSessionsIn(d.Dir, file.SessionsOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			return s
		}
		owner, route := "", false
		s := openSessions()
		for _, sender := range []string{"one", "two"} {
			if err := s.Record(ctx, row(sender)); err == nil && owner == "" {
				owner = sender
			}
			route = s.LastRoute(ctx, row(sender)) == nil
			_ = s.Close()
			s = openSessions()
			is, err := s.Owner(ctx, "main")
			if err == nil && owner != "" && is != owner {
				t.Errorf("the owner was %q, and is %q", owner, is)
			}
			if err == nil && owner == "" && is != "" { // it was kept, and reported as failed
				owner = is
			}
		}
		if places, err := s.Places(ctx, "fake:two"); err == nil && route && len(places) != 1 {
			t.Errorf("the places of a session are %v", places)
		}
		d.Mend()
		if err := s.Forget(ctx, "main"); err != nil {
			t.Errorf("forget: %v", err)
		}
		_ = s.Close()
		s = openSessions()
		if is, err := s.Owner(ctx, "main"); err != nil || is != "" {
			t.Errorf("a session that is forgotten has the owner %q, %v", is, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if open := d.Open(); len(open) > 0 {
			t.Errorf("open after Close: %q", open)
		}
	})
}
