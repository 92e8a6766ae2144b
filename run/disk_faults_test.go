package run

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
)

// Each call of the data folder to its disk fails once, and with all calls after it. A run that was saved stays, a run
// that is read back is whole, and the folder goes on when the disk does.
func TestEachCallOfTheDataFolderToTheDiskMayFail(t *testing.T) { // FT-23, FT-24, FT-26
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		l := &diskLife{t: t, fs: d, runs: map[string]*lifeRun{}}
		l.run()
	})
}

// A run that the disk cannot read now is not reported as damaged, and is read when the disk is back.
func TestARunThatTheDiskCannotReadNowIsNotDamaged(t *testing.T) {
	on := vfstest.New()
	for n := 1; ; n++ {
		d, err := openDiskIn(on.Dir, "data")
		if err != nil {
			t.Fatal(err)
		}
		r := anEndedRun(t, NewID(), "text")
		if _, err := d.save(r); err != nil {
			t.Fatal(err)
		}
		s := bareService(Options{}, d)
		s.onDisk[r.ID] = stored{expires: time.Now().Add(time.Hour)}
		on.Fail(vfstest.Fault{First: on.Calls() + n, Count: 1})
		_, p := s.Find(t.Context(), access.Local, r.ID)
		hit := on.Hit()
		if p != nil && (!errors.Is(p, ErrOverloaded) || hit == "") {
			t.Errorf("%s: the run is reported as %+v", hit, p)
		}
		on.Mend()
		s.inMemory = map[string]*Run{} // read it from the disk
		if back, p := s.Find(t.Context(), access.Local, r.ID); p != nil || documentOf(back.tube) != documentOf(r.tube) {
			t.Errorf("%s: with the disk back: %+v", hit, p)
		}
		if err := errors.Join(s.keys.close(), d.close()); err != nil {
			t.Error(err)
		}
		if hit == "" {
			return
		}
	}
}

// diskLife is the life of a data folder. It remembers what the folder has reported.
type diskLife struct {
	t    *testing.T
	fs   *vfstest.Disk
	d    *disk
	runs map[string]*lifeRun // by id
	n    int
}

// lifeRun is what the folder has reported of a run.
type lifeRun struct {
	name    string
	text    string // its document
	saved   bool
	durable bool // the run's file is reported as durable
	removed bool // its removal was tried
}

func (l *diskLife) run() {
	l.open()
	one, two := l.save(), l.save()
	l.pass()
	l.load(one)
	l.remove(one)
	l.load(two)
	l.list()
	l.save()
	l.pass()
	l.save() // what waits is made durable as the folder closes
	l.reopen()
	l.save()
	l.pass()

	l.fs.Mend()
	last := l.save()
	l.pass()
	for range maxSettles { // a run that could not be made durable is saved again
		l.pass()
	}
	if r := l.runs[last]; !r.saved || !r.durable {
		l.t.Errorf("the folder does not go on: %+v", r)
	}
	l.close()
	l.check(l.fs.Crash(true), true)
}

// open opens the folder, on a disk that is well if it must be.
func (l *diskLife) open() {
	for {
		d, err := openDiskIn(l.fs.Dir, "data")
		if err == nil {
			l.d = d
			return
		}
		if l.fs.Hit() == "" {
			l.t.Fatal(err)
		}
		if open := l.fs.Open(); len(open) > 0 {
			l.t.Errorf("open after an open that failed: %q", open)
		}
		l.fs.Mend()
	}
}

func (l *diskLife) close() {
	_ = l.d.close()
	if open := l.fs.Open(); len(open) > 0 {
		l.t.Errorf("open after close: %q", open)
	}
}

func (l *diskLife) reopen() {
	l.close()
	l.check(l.fs.Crash(true), true)
	l.open()
}

// save saves a run.
func (l *diskLife) save() string {
	l.n++
	id := NewID()
	r := &lifeRun{name: fmt.Sprint(l.n)}
	l.runs[id] = r
	run := anEndedRun(l.t, id, fmt.Sprint("text ", l.n))
	r.text = documentOf(run.tube)
	if _, err := l.d.save(run); err == nil {
		r.saved = true
		l.settle(id, run, 1)
	}
	l.check(l.fs.Crash(false), false)
	return id
}

// settle makes the file of a run durable, as runs do.
func (l *diskLife) settle(id string, run *Run, attempt int) {
	l.d.settler.add(settling{id, func(err error) {
		if err == nil {
			l.runs[id].durable = true
		} else if _, err := l.d.save(run); err == nil && attempt < maxSettles {
			l.settle(id, run, attempt+1)
		}
	}})
}

func (l *diskLife) pass() {
	l.d.settler.pass()
	l.check(l.fs.Crash(false), false)
	l.check(l.fs.Crash(true), true)
}

func (l *diskLife) load(id string) {
	run, err := l.d.load(id, 1<<20)
	r := l.runs[id]
	if err == nil && documentOf(run.tube) != r.text {
		l.t.Errorf("run %s is read as %s, expected %s", r.name, documentOf(run.tube), r.text)
	}
	if err != nil && r.saved && l.fs.Hit() == "" {
		l.t.Errorf("run %s cannot be read on a disk that is well: %v", r.name, err)
	}
	if err != nil && r.saved && !diskError(err) {
		l.t.Errorf("run %s is reported as damaged, and the disk has failed: %v", r.name, err)
	}
}

func (l *diskLife) remove(id string) {
	l.runs[id].removed = true
	err := l.d.remove(id)
	left := l.fs.Crash(false)
	d, openErr := openDiskIn(left.Dir, "data")
	if openErr != nil {
		l.t.Fatal(openErr)
	}
	defer d.close()
	if _, loadErr := d.load(id, 1<<20); err == nil && !errors.Is(loadErr, fs.ErrNotExist) {
		l.t.Errorf("run %s was removed, and is read with the error %v", l.runs[id].name, loadErr)
	}
}

// list lists the runs: all of them, or an error.
func (l *diskLife) list() {
	found, err := l.d.list()
	for id, r := range l.runs {
		if err == nil && r.saved && !r.removed && found[id] == nil {
			l.t.Errorf("run %s is not in the list", r.name)
		}
	}
}

// check opens what is left of a disk. With power, the disk has lost its power, and has what was reported as durable.
func (l *diskLife) check(left *vfstest.Disk, power bool) {
	l.t.Helper()
	d, err := openDiskIn(left.Dir, "data")
	if err != nil {
		l.t.Fatalf("power lost %v: %v", power, err)
	}
	defer d.close()
	files, err := d.list()
	if err != nil {
		l.t.Fatal(err)
	}
	for id, r := range l.runs {
		run, err := d.load(id, 1<<20)
		if kept := r.saved && !power || r.durable; kept && !r.removed && (err != nil || files[id] == nil) {
			l.t.Errorf("power lost %v: run %s was saved, and is lost: %v", power, r.name, err)
		}
		if err == nil && documentOf(run.tube) != r.text {
			l.t.Errorf("power lost %v: run %s is %s, expected %s", power, r.name, documentOf(run.tube), r.text)
		}
	}
	for name := range files {
		if l.runs[name] == nil {
			l.t.Errorf("power lost %v: there is a run %s that was never saved", power, name)
		}
	}
	for _, name := range left.Files() {
		if strings.HasPrefix(name, runsFolder) && strings.HasSuffix(name, temporary) {
			l.t.Errorf("power lost %v: %s is left", power, name)
		}
	}
}

func diskError(err error) bool { return vfs.Failed(vfs.Explain(err)) }
