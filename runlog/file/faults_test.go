package file

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/runlog"
)

// Each call of a log to its disk fails once, and with all calls after it. A log that reports no trouble has on disk what its runs have
// sent, a run is told when that is not so, and all runs are kept again when the disk is back.
func TestEachCallToTheDiskMayFail(t *testing.T) {
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		synctest.Test(t, func(t *testing.T) {
			l := &life{t: t, d: d, said: map[string][]string{}}
			l.run()
		})
	})
}

// A log that has no runs left is in no trouble, whether it has tried the disk again by then or not.
func TestALogIsInNoTroubleWithoutRuns(t *testing.T) {
	for name, wait := range map[string]time.Duration{"before it tries again": 0, "as it tries again": retryEvery} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLife(t)
				l.open()
				one := l.begin()
				l.pass(true)
				l.d.Fail(vfstest.Fault{First: l.d.Calls() + 1})
				l.say(one)
				l.pass(true)
				if !l.log.broken {
					t.Fatal("the disk has failed, and the log does not say so")
				}
				l.d.Mend()
				time.Sleep(wait)
				l.drop(one)
				l.pass(true)
				if l.log.broken {
					t.Error("the log is in trouble without runs")
				}
				next := l.begin()
				l.say(next)
				l.pass(true) // and keeps the next run at once
				l.synced()
				if l.told[next.id] {
					t.Error("a run that is kept is told that it is not")
				}
			})
		})
	}
}

func newLife(t *testing.T) *life {
	d := vfstest.New()
	return &life{t: t, d: d, said: map[string][]string{}}
}

// life is the life of a log, whose passes the test makes.
type life struct {
	t       *testing.T
	d       *vfstest.Disk
	root    vfs.Folder
	log     *Log
	runs    []*testRun
	said    map[string][]string // by run: its documents so far
	told    map[string]bool     // runs that were told that they are not kept
	n       int
	dropped []string
}

func (l *life) run() {
	l.open()
	one, two := l.begin(), l.begin()
	l.pass(true)
	l.say(one)
	l.pass(true)
	l.synced()
	l.drop(one)
	l.pass(false)
	time.Sleep(segmentAge)
	three := l.begin()
	l.say(two)
	l.pass(true) // in another file
	time.Sleep(keepSegment)
	l.say(three)
	l.pass(true) // without the first file
	l.synced()
	l.reopen()
	l.say(l.begin())
	l.pass(true)
	for _, r := range slices.Clone(l.runs) {
		l.drop(r)
	}
	l.pass(true) // which leaves no file
	last := l.begin()
	l.say(last)
	l.pass(true)

	l.d.Mend()
	time.Sleep(retryEvery)
	l.begin()
	l.pass(false) // one of those that came is enough to try the disk again
	for _, r := range slices.Clone(l.runs) {
		l.drop(r)
	}
	l.pass(true)
	if files := l.d.Files(); len(files) > 0 && l.d.Hit() == "" {
		l.t.Errorf("%q are left of no runs", files)
	}
	next := l.begin()
	l.say(next)
	l.pass(true)
	if l.log.broken {
		l.t.Error("the log does not go on at once")
	}
	l.synced()
	l.check(l.d.Crash(true))
	if err := l.log.finish(); err != nil {
		l.t.Errorf("close: %v", err)
	}
	_ = l.root.Close()
	if open := l.d.Open(); len(open) > 0 {
		l.t.Errorf("open after Close: %q", open)
	}
	l.check(l.d.Crash(false))
}

// open opens the log, on a disk that is well if it must be.
func (l *life) open() []*runlog.Left {
	for {
		left, err := l.tryOpen()
		if err == nil {
			return left
		}
		if l.d.Hit() == "" {
			l.t.Fatal(err)
		}
		l.d.Mend()
	}
}

func (l *life) tryOpen() (left []*runlog.Left, err error) {
	root, err := l.d.Dir(true)
	if err != nil {
		return nil, err
	}
	log, left, err := openStopped(root, "running", Options{Tube: tubeOptions})
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	l.log, l.root, l.told = log, root, map[string]bool{}
	return left, nil
}

// reopen ends the log and opens it again. Its runs do not go on: what is left of them is dropped, as a server does that has them elsewhere.
func (l *life) reopen() {
	whole := !l.log.broken
	if err := l.log.finish(); err != nil {
		whole = false
	}
	_ = l.root.Close()
	if open := l.d.Open(); len(open) > 0 {
		l.t.Errorf("open after Close: %q", open)
	}
	left := l.open()
	for _, r := range l.runs {
		i := slices.IndexFunc(left, func(p *runlog.Left) bool { return p.ID == r.id })
		if whole && (i < 0 || documentOf(left[i].Tube) != documentOf(r.tube)) {
			l.t.Errorf("%s is not what is left of it", r.id)
		}
		delete(l.said, r.id)
	}
	l.runs = nil
	for _, p := range left {
		l.log.Keep(runlog.Run{ID: p.ID, Tube: p.Tube}).Drop()
	}
	l.pass(true)
}

func (l *life) begin() *testRun {
	l.n++
	id := fmt.Sprintf("run%023d", l.n)
	r := goingRunWith(l.log, id, func(err error) {
		if !errors.Is(err, runlog.ErrAway) {
			l.t.Errorf("a run is told %v", err)
		}
		l.told[id] = true
	})
	l.runs = append(l.runs, r)
	l.said[id] = []string{documentOf(r.tube)}
	return r
}

func (l *life) say(r *testRun) {
	r.say("a", fmt.Sprint("word ", len(l.said[r.id]), " "))
	l.said[r.id] = append(l.said[r.id], documentOf(r.tube))
}

func (l *life) drop(r *testRun) {
	r.finish()
	r.entry.Drop()
	l.runs = slices.DeleteFunc(l.runs, func(other *testRun) bool { return other == r })
	l.dropped = append(l.dropped, r.id)
}

// pass makes a pass. What is on disk then survives the process.
func (l *life) pass(all bool) {
	time.Sleep(FlushEvery)
	l.log.pass(all)
	if !l.log.broken {
		l.check(l.d.Crash(false))
		return
	}
	found := l.look(l.d.Crash(false))
	for _, r := range l.runs {
		if !l.told[r.id] && found[r.id] != documentOf(r.tube) {
			l.t.Errorf("the log is in trouble: %s is not told, and what is left of it is %q", r.id, found[r.id])
		}
	}
}

// synced makes the pass that syncs. What is on disk then survives the machine.
func (l *life) synced() {
	time.Sleep(SyncEvery)
	l.pass(true)
	if !l.log.broken {
		l.check(l.d.Crash(true))
	}
	l.look(l.d.Crash(true))
}

// look reads what is left on a disk. Nothing is there that no run has said.
func (l *life) look(d *vfstest.Disk) map[string]string {
	l.t.Helper()
	other := &life{t: l.t, d: d}
	left := other.open()
	defer other.root.Close()
	found := map[string]string{}
	for _, p := range left {
		text := documentOf(p.Tube)
		if l.said[p.ID] != nil && !slices.Contains(l.said[p.ID], text) {
			l.t.Errorf("%s has never said %s", p.ID, text)
		}
		found[p.ID] = text
	}
	return found
}

// check reads what is left on a disk: all runs that go on, as far as they have come, and no others.
func (l *life) check(d *vfstest.Disk) {
	l.t.Helper()
	found := l.look(d)
	for _, r := range l.runs {
		if found[r.id] != documentOf(r.tube) {
			l.t.Errorf("%s has come to %s, and what is left is %q", r.id, documentOf(r.tube), found[r.id])
		}
	}
	for _, id := range l.dropped {
		if _, ok := found[id]; ok && l.d.Hit() == "" {
			l.t.Errorf("%s was dropped, and is there", id)
		}
	}
}
