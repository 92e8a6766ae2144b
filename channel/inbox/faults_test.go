package inbox_test

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
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/store"
)

// Each call of an inbox to its disk fails once, and with all calls after it. An event that was accepted stays until it is settled, one
// that was refused does not appear unless its sync has failed, one that was settled does not run again, and the journal goes on when the disk does.
func TestEachCallOfAJournalToTheDiskMayFail(t *testing.T) { // CH-192
	longtest.Only(t, "every call to the disk fails once")
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
	j      *process
	events map[string]*lifeEvent // by id
	well   time.Time             // since when the disk is: it was mended then
}

// lifeEvent is what the journal has said of an event.
type lifeEvent struct {
	key      channel.EventKey
	raw      string
	accepted bool
	unsure   bool // no answer said whether it was stored: it may run, once
	claim    channel.Claim
	released int         // releases that were reported as kept
	ended    lifeOutcome // of its last claim
	erased   lifeOutcome
	gone     time.Time // when it was erased
	lived    bool      // it was settled or released in a life of the journal before this one
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
	for i := 5; i < 10; i++ {
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
	time.Sleep(3 * time.Minute)
	l.check(l.d.Crash(true), powerWent)
	l.claim("8") // and it runs as the journal closes
	l.reopen()
	for _, id := range []string{"2", "4", "5"} {
		l.claim(id)
		l.commit(id)
	}
	l.accept("10")
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	l.check(l.d.Crash(false), "later")
	l.accept("11")

	l.d.Mend()
	l.well = time.Now()
	l.erase("7")
	l.look("with the disk back")
	if !l.accept("12") {
		l.reopen()
		if !l.accept("12") {
			l.t.Error("the journal does not go on")
		}
	}
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	l.check(l.d.Crash(false), "at the end")
	for _, id := range slices.Sorted(maps.Keys(l.events)) {
		l.claim(id)
		l.commit(id)
	}
	for e, err := range l.j.Pending(l.t.Context()) {
		if err != nil {
			l.t.Error(err)
		} else if known := l.events[e.Key.ID]; known.ended != reportedFailed && known.erased != reportedFailed && (known.accepted || l.d.Once() && !known.unsure) {
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

var lifeOptions = inbox.Options{}

// open opens the journal, on a disk that is well if it must be.
func (l *journalLife) open() {
	j, err := tryOpen(l.t, l.d.Dir, lifeOptions)
	if err != nil {
		l.d.Mend()
		if j, err = tryOpen(l.t, l.d.Dir, lifeOptions); err != nil {
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
			for _, id := range ids {
				l.events[id].unsure = l.events[id].unsure || errors.Is(err, store.ErrUnsure)
			}
			continue
		}
		for i, id := range ids {
			if e := l.events[id]; isNew[i] && e.accepted && e.erased == notTried {
				l.t.Errorf("event %s is accepted twice", id)
			} else if !isNew[i] && !e.accepted && l.d.Once() && !e.lived && !e.unsure {
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
		if e.gone.IsZero() {
			e.gone = time.Now()
		}
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
		if want := e.waits() && e.claim == nil; found[id] != want && e.erased != reportedFailed && !e.lived && (e.accepted || !e.unsure) {
			l.t.Errorf("%s: event %s waits: %v, and is %+v", when, id, found[id], e)
		}
	}
}

// check opens what is left of a disk.
func (l *journalLife) check(d *vfstest.Disk, when string) {
	l.t.Helper()
	text := l.text(d)
	j, err := tryOpen(l.t, d.Dir, lifeOptions)
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
		case !e.accepted && waits && l.d.Once() && when != powerWent && !e.unsure:
			l.t.Errorf("%s: event %s was refused, and runs", when, id)
		case e.ended == reportedDone && waits && when != powerWent:
			l.t.Errorf("%s: event %s was settled, and runs again", when, id)
		case e.erased == reportedDone && waits:
			l.t.Errorf("%s: event %s was erased, and waits", when, id)
		case e.erased == reportedDone && l.erasedOf(e) && strings.Contains(text, e.raw): // ST-24
			l.t.Errorf("%s: event %s was erased, and is there", when, id)
		}
	}
}

// erasedOf reports whether nothing may be left of an event that was erased: within a minute, or, if a call to the disk has failed, within two
// after the disk is well.
func (l *journalLife) erasedOf(e *lifeEvent) bool {
	if l.d.Hit() == "" {
		return time.Since(e.gone) > time.Minute
	}
	return (l.d.Once() || !l.well.IsZero()) && time.Since(e.gone) > 2*time.Minute && time.Since(l.well) > 2*time.Minute
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
