package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// memoryFolder is a file system in memory.
type memoryFolder struct {
	files map[string]*memoryFile
	write func(n int) (int, error) // what comes of each write; nil is success
	most  int64                    // bytes that all files took at once
}

type memoryFile struct {
	in     *memoryFolder
	data   []byte
	closed bool
}

func newMemoryFolder() *memoryFolder { return &memoryFolder{files: map[string]*memoryFile{}} }

func (d *memoryFolder) names() ([]string, error) { return slices.Sorted(maps.Keys(d.files)), nil }

func (d *memoryFolder) open(name string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(d.files[name].data)), nil
}

func (d *memoryFolder) create(name string) (folderFile, error) {
	if d.files[name] != nil {
		return nil, syscall.EEXIST
	}
	if d.write != nil {
		if _, err := d.write(0); err != nil {
			return nil, err
		}
	}
	d.files[name] = &memoryFile{in: d}
	return d.files[name], nil
}

func (d *memoryFolder) remove(name string) error {
	if f := d.files[name]; f != nil && !f.closed && len(d.files) > 1 && name == slices.Max(slices.Collect(maps.Keys(d.files))) {
		return errors.New("the newest file is in use")
	}
	delete(d.files, name)
	return nil
}

func (f *memoryFile) Write(p []byte) (int, error) {
	if f.closed {
		panic("written to behind its end")
	}
	n, err := len(p), error(nil)
	if f.in.write != nil {
		n, err = f.in.write(len(p))
	}
	f.data = append(f.data, p[:n]...)
	var size int64
	for _, f := range f.in.files {
		size += int64(len(f.data))
	}
	f.in.most = max(f.in.most, size)
	return n, err
}

func (f *memoryFile) Sync() error { return nil }

func (f *memoryFile) Close() error {
	f.closed = true
	return nil
}

// byHand is a log whose passes the test makes itself.
type byHand struct {
	*Log
	folder *memoryFolder
	log    *lockedBuffer
}

// lockedBuffer is what a log has said.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func tubeOptions() *tube.Options {
	return &tube.Options{MaxBytes: 64 << 10, Document: func() tube.Document { return new(jsonuri.Document) }}
}

func newByHand(folder *memoryFolder) *byHand {
	log := new(lockedBuffer)
	return &byHand{newLog(folder, Options{Tube: tubeOptions, Log: slog.New(slog.NewTextHandler(log, nil))}), folder, log}
}

// testRun is a run that goes on, without anything that makes it do so.
type testRun struct {
	id    string
	tube  *tube.Tube
	entry runlog.Entry
}

func goingRun(l *Log, i int) *testRun {
	return goingRunWith(l, fmt.Sprintf("run%023d", i), nil)
}

func goingRunWith(l *Log, id string, trouble func(error)) *testRun {
	r := &testRun{id: id, tube: tube.New(id, tubeOptions())}
	must(r.tube.Send(tube.Event{Kind: tube.Named, Name: "started", Value: []byte(`{"run":"` + id + `"}`)}))
	r.entry = l.Keep(runlog.Run{ID: id, Opening: []byte("opening of " + id), Tube: r.tube, Trouble: trouble})
	return r
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (r *testRun) say(uri, text string) {
	must(r.tube.Send(tube.Event{Kind: tube.Append, URI: []byte(uri), Value: []byte(text)}))
}

// finish ends a run.
func (r *testRun) finish() {
	if err := r.tube.Close("completed"); err != nil {
		panic(err)
	}
	r.entry.End([]byte("head of " + r.id))
}

// read reads a folder as the next process does.
func read(t testing.TB, folder *memoryFolder) map[string]*runlog.Left {
	t.Helper()
	list, err := newByHand(folder).read()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*runlog.Left{}
	for _, p := range list {
		if found[p.ID] != nil {
			t.Fatalf("%s is there twice", p.ID)
		}
		found[p.ID] = p
	}
	return found
}

func documentOf(t *tube.Tube) string {
	document, beside := t.Snapshot(true)
	return string(document) + string(beside)
}

// FT-25: a disk that is full harms no run. Each is told once; all are there again when there is room.
func TestAFullDiskHarmsNoRunAndIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := newMemoryFolder()
		j := newByHand(folder)
		warnings := 0
		r := &testRun{id: "r", tube: tube.New("r", tubeOptions())}
		r.entry = j.Keep(runlog.Run{ID: r.id, Tube: r.tube, Trouble: func(err error) {
			if !errors.Is(err, runlog.ErrAway) {
				t.Error(err)
			}
			warnings++
		}})
		j.pass(false)
		r.say("a", "before ")
		j.pass(true)

		room := 10 // and a write is there in part
		folder.write = func(n int) (int, error) {
			took := min(n, room)
			room -= took
			if took < n || room == 0 {
				return took, syscall.ENOSPC
			}
			return took, nil
		}
		for range 100 {
			r.say("a", "x")
			j.pass(true)
			time.Sleep(FlushEvery)
		}
		if n := strings.Count(j.log.String(), CodeNotDurable); n != 1 {
			t.Errorf("said %d times:\n%s", n, j.log.String())
		}
		if warnings != 1 {
			t.Errorf("the run was told %d times", warnings)
		}
		// What was there before still is.
		if got := documentOf(read(t, folder)[r.id].Tube); got != `{"a":"before "}{}` {
			t.Errorf("meanwhile: %s", got)
		}
		folder.write = nil
		time.Sleep(retryEvery)
		j.pass(true)
		if got, want := documentOf(read(t, folder)[r.id].Tube), `{"a":"before `+strings.Repeat("x", 100)+`"}{}`; got != want {
			t.Errorf("afterwards: %s", got)
		}
		if len(folder.files) != 1 || !strings.Contains(j.log.String(), "writing running runs again") {
			t.Errorf("%d files\n%s", len(folder.files), j.log.String())
		}
	})
}

// What runs take on disk is bounded by what they are and not by how much they have said, and goes when they have ended.
func TestTheFilesOfRunningRunsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := newMemoryFolder()
		j := newByHand(folder)
		idle, busy := goingRun(j.Log, 1), goingRun(j.Log, 2)
		idle.say("a", "still here")
		text := strings.Repeat("x", 8<<10)
		for i := range 8000 { // 64 MB
			must(busy.tube.Send(tube.Event{Kind: tube.Set, URI: []byte("a"), Value: []byte(`{"n":"` + text + fmt.Sprint(i) + `"}`)}))
			if i%2 == 0 {
				j.pass(true)
				time.Sleep(FlushEvery / 4)
			}
		}
		if limit := int64(6 * segmentSize); folder.most > limit {
			t.Errorf("%d bytes at once, more than %d", folder.most, limit)
		}
		found := read(t, folder)
		if got := documentOf(found[idle.id].Tube); got != `{"a":"still here"}{}` {
			t.Error(got)
		}
		if got, want := documentOf(found[busy.id].Tube), documentOf(busy.tube); got == want || len(got) < 8<<10 {
			t.Errorf("%.80s…, and it was at %.80s…", got, want)
		}
		for _, r := range []*testRun{idle, busy} {
			r.finish()
			r.entry.Drop()
		}
		j.pass(true)
		if len(folder.files) != 0 {
			t.Errorf("%d files are left", len(folder.files))
		}
	})
}

// A run that says nothing costs a look, and the text that it has said leaves the disk with it soon after.
func TestFilesOfRunsThatHaveEndedLeaveTheDiskAlthoughOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := newMemoryFolder()
		j := newByHand(folder)
		idle, gone := goingRun(j.Log, 1), goingRun(j.Log, 2)
		gone.say("a", "secret")
		j.pass(true)
		gone.finish()
		gone.entry.Drop()
		for range 4 * 60 * 7 {
			idle.say("a", ".")
			j.pass(true)
			time.Sleep(FlushEvery)
		}
		for name, f := range folder.files {
			if bytes.Contains(f.data, []byte("secret")) {
				t.Errorf("still in %s", name)
			}
		}
	})
}
