package logs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/tape"
)

// Each call of a store to its disk fails once, and with all calls after it. What the store has acknowledged stays, what it has reported
// as failed does not appear, and the store goes on when the disk does.
func TestEachCallToTheDiskMayFail(t *testing.T) {
	for name, policy := range map[string]Sync{"always": SyncAlways, "turn": SyncTurn} {
		t.Run(name, func(t *testing.T) {
			if policy != SyncAlways {
				longtest.Only(t, "the faults of another policy")
			}
			vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
				l := &life{t: t, d: d, policy: policy, kept: map[string]map[int64]string{}, failed: map[string]bool{}, blobs: map[string]string{}}
				l.run()
			})
		})
	}
}

// A tape that could not be made durable takes nothing more until the store is opened again: whatever the disk says then, what it has
// dropped stays away.
func TestATapeWhoseSyncFailedTakesNothing(t *testing.T) {
	for n := 1; ; n++ {
		d := vfstest.New()
		l := &life{t: t, d: d, policy: SyncTurn, kept: map[string]map[int64]string{}, failed: map[string]bool{}}
		l.open()
		l.append("a", true)
		d.Fail(vfstest.Fault{First: d.Calls() + n, Count: 1})
		err := l.s.TurnEnded(t.Context(), "a")
		if d.Hit() == "" {
			if err != nil || n < 4 {
				t.Errorf("a turn ends with %v, after %d calls", err, n-1)
			}
			l.close()
			return
		}
		if err == nil {
			t.Errorf("%s: a turn ends well, and is not durable", d.Hit())
		}
		one := tape.Batch{Entries: []tape.Entry{message("one more")}}
		if _, err := l.s.Append(t.Context(), "a", one); err == nil || !strings.Contains(err.Error(), startAgain) {
			t.Errorf("%s: the tape takes more: %v", d.Hit(), err)
		}
		l.append("b", true)
		if err := l.s.TurnEnded(t.Context(), "b"); err != nil {
			t.Errorf("%s: another tape: %v", d.Hit(), err)
		}
		l.close()
		l.open()
		l.look(l.s, "opened again")
		l.works(l.s, "a")
		l.close()
	}
}

const powerWent = "after the power went"

// life is the life of a store. It remembers what the store has said.
type life struct {
	t      *testing.T
	d      *vfstest.Disk
	s      *Store
	policy Sync
	n      int                         // texts so far
	kept   map[string]map[int64]string // what was acknowledged, by tape and id
	failed map[string]bool             // texts of batches that were reported as failed
	blobs  map[string]string           // by handle
	stuck  []string                    // tapes whose sync has failed, which take nothing more
}

func (l *life) run() {
	l.open()
	l.append("a", true)
	l.append("a", false)
	l.read("a")
	l.info("a")
	l.blob("a", "large")
	l.append("a", false, tape.NewAnchor("phase", nil))
	if err := l.s.TurnEnded(l.t.Context(), "a"); err == nil && l.policy == SyncTurn {
		l.check(l.d.Crash(true), powerWent+" at the end of a turn")
	}
	l.lease("a")
	l.append("a@1", true)
	l.imports("b")
	l.append("c", true)
	delete(l.kept, "c")
	deleted := l.s.Delete(l.t.Context(), "c")
	l.list()
	l.tear("a")
	l.append("a", false)
	if l.policy == SyncAlways {
		l.check(l.d.Crash(true), powerWent)
	}
	l.check(l.d.Crash(false), "after the process died")
	l.close()
	l.open()
	l.read("a")
	l.append("a", false)

	l.d.Mend()
	if deleted != nil {
		if err := l.s.Delete(l.t.Context(), "c"); err != nil && !errors.Is(err, tape.ErrNotFound) {
			l.t.Errorf("delete once more: %v", err)
		}
	}
	l.look(l.s, "with the disk back")
	if _, err := l.s.Info(l.t.Context(), "c"); !errors.Is(err, tape.ErrNotFound) {
		l.t.Errorf("the deleted tape: %v", err)
	}
	for name := range l.kept {
		l.worksUnlessStuck(name)
	}
	l.look(l.s, "after that")
	if err := l.s.Close(); err != nil && len(l.stuck) == 0 {
		l.t.Errorf("close: %v", err)
	}
	if open := l.d.Open(); len(open) > 0 {
		l.t.Errorf("open after Close: %q", open)
	}
	l.check(l.d.Crash(false), "opened again")
	for _, name := range l.d.Files() {
		if strings.HasPrefix(name, "c.") || l.d.Once() && strings.HasSuffix(name, importEnd) {
			l.t.Errorf("%s is left", name)
		}
	}
}

// open opens the store, on a disk that is well if it must be.
func (l *life) open() {
	folder, err := l.d.Dir(true)
	if err != nil {
		l.d.Mend()
		if folder, err = l.d.Dir(true); err != nil {
			l.t.Fatal(err)
		}
	}
	l.s = openOn(folder, FolderOptions{Sync: l.policy})
}

func (l *life) close() {
	_ = l.s.Close() // which may fail, as all else
	if open := l.d.Open(); len(open) > 0 {
		l.t.Errorf("open after Close: %q", open)
	}
}

func (l *life) text() string {
	l.n++
	return fmt.Sprint("text ", l.n)
}

// append appends a batch of two texts and of more, and tries twice.
func (l *life) append(name string, create bool, more ...tape.Entry) {
	for range 2 {
		b := tape.Batch{Entries: append([]tape.Entry{message(l.text()), message(l.text())}, more...)}
		if create {
			b.Create, b.Session, b.Workspace = true, "session of "+name, "/srv"
		}
		if !l.batch(l.s, name, b) {
			continue
		}
		return
	}
}

func (l *life) batch(s *Store, name string, b tape.Batch) bool {
	first, err := s.Append(l.t.Context(), name, b)
	for i, e := range b.Entries {
		e.ID = first + int64(i)
		text := strings.SplitN(text(e), " ", 2)[1]
		if err != nil {
			if e.Kind != tape.KindAnchor {
				l.failed[text] = true
			}
			continue
		}
		if l.kept[name] == nil {
			l.kept[name] = map[int64]string{}
		}
		if was, ok := l.kept[name][e.ID]; ok {
			l.t.Errorf("tape %s: entry %d is acknowledged twice: %q and %q", name, e.ID, was, text)
		}
		l.kept[name][e.ID] = text
	}
	return err == nil
}

// works sees to it that the store appends to a tape.
func (l *life) works(s *Store, name string) {
	if !l.batch(s, name, tape.Batch{Entries: []tape.Entry{message(l.text())}}) {
		_, err := s.Append(l.t.Context(), name, tape.Batch{Entries: []tape.Entry{message("x")}})
		l.t.Errorf("tape %s: the store does not go on: %v", name, err)
	}
}

// worksUnlessStuck is works for a store that was open while the disk failed.
func (l *life) worksUnlessStuck(name string) {
	b := tape.Batch{Entries: []tape.Entry{message(l.text())}}
	if _, err := l.s.Append(l.t.Context(), name, b); err != nil && strings.Contains(err.Error(), startAgain) && strings.Contains(l.d.Hit(), "sync") {
		l.stuck = append(l.stuck, name)
		l.failed[strings.SplitN(text(b.Entries[0]), " ", 2)[1]] = true
		return
	} else if err == nil {
		info, _ := l.s.Info(l.t.Context(), name)
		l.kept[name][info.LastID] = strings.SplitN(text(b.Entries[0]), " ", 2)[1]
	}
	l.works(l.s, name)
}

// startAgain is in the error of a tape that could not be made durable.
const startAgain = "start again"

// entries are those of a tape.
func (l *life) entries(s *Store, name string) (map[int64]string, error) {
	found := map[int64]string{}
	for e, err := range s.Read(l.t.Context(), name, tape.Query{}) {
		if err != nil {
			return nil, err
		}
		found[e.ID] = strings.SplitN(text(e), " ", 2)[1]
	}
	return found, nil
}

// compare says what is wrong with what was read of a tape.
func (l *life) compare(name string, found map[int64]string, when string) {
	l.t.Helper()
	for id, text := range l.kept[name] {
		if found[id] != text {
			l.t.Errorf("%s, tape %s: entry %d was acknowledged as %q and is %q", when, name, id, text, found[id])
		}
	}
	for id, text := range found {
		if l.kept[name][id] != "" {
			continue
		}
		if !l.failed[text] && !strings.HasPrefix(text, "anchor ") {
			l.t.Errorf("%s, tape %s: nobody has written entry %d, %q", when, name, id, text)
		}
		// The disk may keep what it has reported as lost, and a second fault may keep the store from taking it back.
		if l.d.Once() && !strings.HasPrefix(when, powerWent) {
			l.t.Errorf("%s, tape %s: entry %d, %q, was reported as failed", when, name, id, text)
		}
	}
}

func (l *life) read(name string) {
	found, err := l.entries(l.s, name)
	if err == nil {
		l.compare(name, found, "while the disk fails")
	}
	if errors.Is(err, tape.ErrNotFound) && len(l.kept[name]) > 0 {
		l.t.Errorf("tape %s is not found: %v", name, err)
	}
}

func (l *life) info(name string) {
	i, err := l.s.Info(l.t.Context(), name)
	if err != nil {
		if errors.Is(err, tape.ErrNotFound) && len(l.kept[name]) > 0 {
			l.t.Errorf("tape %s is not found: %v", name, err)
		}
		return
	}
	if ids := slices.Sorted(maps.Keys(l.kept[name])); len(ids) == 0 || i.LastID != ids[len(ids)-1] {
		l.t.Errorf("tape %s has %v, and the store says %+v", name, ids, i)
	}
}

func (l *life) blob(name, data string) {
	handle, err := l.s.PutBlob(l.t.Context(), name, []byte(data))
	if err == nil {
		l.blobs[handle] = data
	}
}

func (l *life) lease(name string) {
	first, err := l.s.Lease(l.t.Context(), name, false)
	if err != nil {
		if errors.Is(err, tape.ErrLeased) {
			l.t.Errorf("nobody has it: %v", err)
		}
		return
	}
	if second, err := l.s.Lease(l.t.Context(), name, false); err == nil {
		l.t.Error("two have a lease")
		second.Release()
	}
	first.Release()
}

// imports imports a tape of two entries, and tries twice.
func (l *life) imports(name string) {
	for range 2 {
		var entries []tape.Entry
		for i := range 2 {
			e := message(l.text())
			e.ID = int64(10 + i)
			entries = append(entries, e)
		}
		err := l.s.Import(l.t.Context(), name, "session of "+name, "/srv", func(yield func(tape.Entry, error) bool) {
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
		})
		if err == nil {
			l.kept[name] = map[int64]string{}
		}
		for _, e := range entries {
			text := strings.SplitN(text(e), " ", 2)[1]
			if err == nil {
				l.kept[name][e.ID] = text
			} else {
				l.failed[text] = true
			}
		}
		if err == nil {
			return
		}
		if errors.Is(err, tape.ErrNotEmpty) && l.d.Once() {
			l.t.Errorf("an import that has failed is there: %v", err)
		}
	}
}

// list lists the sessions: those that are there, or an error.
func (l *life) list() {
	found := map[string]bool{}
	for i, err := range l.s.Sessions(l.t.Context(), tape.SessionQuery{}) {
		if err != nil {
			return
		}
		found[i.Tape] = true
	}
	for _, name := range []string{"a", "b"} {
		if len(l.kept[name]) > 0 && !found[name] {
			l.t.Errorf("session %s is not in the list %v", name, found)
		}
	}
}

// tear leaves at the end of a tape what a writer leaves that dies.
func (l *life) tear(name string) {
	folder, err := l.d.Dir(true)
	if err != nil {
		return
	}
	defer folder.Close()
	f, err := folder.Open(name+tapeEnd, os.O_RDWR)
	if err != nil {
		return
	}
	defer f.Close()
	if at, err := f.Stat(); err == nil {
		_, _ = f.WriteAt([]byte(`{"id":1000,"k`), at.Size())
	}
}

// look reads all tapes.
func (l *life) look(s *Store, when string) {
	l.t.Helper()
	for name := range l.kept {
		found, err := l.entries(s, name)
		if err != nil {
			l.t.Errorf("%s, tape %s: %v", when, name, err)
			continue
		}
		l.compare(name, found, when)
		i, err := s.Info(context.Background(), name)
		if err != nil || i.Entries != int64(len(found)) || i.Unreadable > 0 {
			l.t.Errorf("%s: tape %s has %d entries, and the store says %+v, %v", when, name, len(found), i, err)
		}
	}
	for handle, data := range l.blobs {
		if got, _, err := s.ReadBlob(context.Background(), "a", handle, 0, 100); err != nil || string(got) != data {
			l.t.Errorf("%s: the blob is %q, %v", when, got, err)
		}
	}
}

// check opens what is left of a disk: it has all that was acknowledged, and goes on.
func (l *life) check(d *vfstest.Disk, when string) {
	l.t.Helper()
	folder, err := d.Dir(true)
	if err != nil {
		l.t.Fatal(err)
	}
	s := openOn(folder, FolderOptions{Sync: l.policy})
	l.look(s, when)
	n, kept := l.n, maps.Clone(l.kept)
	for name := range l.kept {
		kept[name] = maps.Clone(l.kept[name])
		l.works(s, name)
	}
	l.look(s, when+", and one more")
	l.n, l.kept = n, kept
	if err := s.Close(); err != nil {
		l.t.Errorf("%s: %v", when, err)
	}
	if open := d.Open(); len(open) > 0 {
		l.t.Errorf("%s: open after Close: %q", when, open)
	}
}
