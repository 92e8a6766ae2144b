package file

import (
	"bytes"
	"encoding/binary"
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

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// memoryFolder is a file system that knows what of its files a machine's end leaves for certain.
type memoryFolder struct {
	files map[string]*memoryFile
	// write and sync say what comes of each call; nil is success. write says how much of it was written, too.
	write func(n int) (int, error)
	sync  func() error
	most  int64 // bytes that all files took at once
}

type memoryFile struct {
	in     *memoryFolder
	data   []byte
	synced int
	failed bool // a sync has
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
	if f.closed || f.failed {
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

func (f *memoryFile) Sync() error {
	if f.failed || f.closed {
		panic("FT-26: synced once more")
	}
	if f.in.sync != nil {
		if err := f.in.sync(); err != nil {
			f.failed = true
			return err
		}
	}
	f.synced = len(f.data)
	return nil
}

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

// FT-23: what was written of runs is what the next process has of them.
func TestRunsThatGoOnAreReadBackAsFarAsTheyWereWritten(t *testing.T) {
	j := newByHand(newMemoryFolder())
	going, ended, dropped := goingRun(j.Log, 1), goingRun(j.Log, 2), goingRun(j.Log, 3)
	j.pass(false)
	for _, r := range []*testRun{going, ended, dropped} {
		r.say("a", "one ")
	}
	j.pass(true)
	for _, r := range []*testRun{going, ended, dropped} {
		r.say("a", "two")
	}
	ended.finish()
	j.pass(false)
	dropped.entry.Drop()
	going.entry.(runlog.Reopener).Reopen([]byte("another opening"))
	j.pass(true)
	going.say("a", " lost")

	found := read(t, j.folder)
	if len(found) != 2 {
		t.Fatalf("%d runs", len(found))
	}
	p := found[going.id]
	if got := documentOf(p.Tube); string(p.Opening) != "another opening" || p.Head != nil || got != `{"a":"one two"}{}` {
		t.Errorf("%q %q %s", p.Opening, p.Head, got)
	}
	p = found[ended.id]
	if got := documentOf(p.Tube); string(p.Opening) != "opening of "+ended.id || string(p.Head) != "head of "+ended.id || got != `{"a":"one two"}{}` {
		t.Errorf("%q %q %s", p.Opening, p.Head, got)
	}
}

// produced is what runs were at each number of events.
type produced map[string]map[uint64]string

func (p produced) note(r *testRun) {
	if p[r.id] == nil {
		p[r.id] = map[uint64]string{}
	}
	p[r.id][r.tube.Len()] = documentOf(r.tube)
}

// check looks at what was restored of all runs: each is as it was once, and not less far than what was safe.
func (p produced) check(t *rapid.T, found map[string]*runlog.Left, safe map[string]uint64) {
	for id, r := range found {
		at := r.Tube.Len()
		was, ok := p[id][at]
		if !ok {
			t.Fatalf("%s never had %d events", id, at)
		}
		if d := cmp.Diff(was, documentOf(r.Tube)); d != "" {
			t.Fatalf("%s at %d events: %s", id, at, d)
		}
		if r.Head != nil && !over(r.Tube) {
			t.Fatalf("%s has a head and no end", id)
		}
	}
	for id, n := range safe {
		if r := found[id]; r == nil || r.Tube.Len() < n {
			t.Fatalf("%s was safe as far as %d: %+v", id, n, r)
		}
	}
}

func over(t *tube.Tube) bool {
	select {
	case <-t.Ended():
		return true
	default:
		return false
	}
}

// FT-24: of what was not synced, the machine's end leaves any sectors, zeros, or what other files had there, in files of any length;
// and of what a process has written before it was killed, a write is there in part. What is restored is what was produced, as far
// as some moment, and as far as it was synced.
func TestWhatAnEndOfTheMachineLeavesIsAPrefixOfWhatWasProduced(t *testing.T) {
	property := func(t *rapid.T) {
		j := newByHand(newMemoryFolder())
		states := produced{}
		safe := map[string]uint64{}
		var going []*testRun
		dropped := map[string]bool{}
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case len(going) == 0 || what == 0 && len(going) < 8:
				r := goingRun(j.Log, step)
				states.note(r)
				going = append(going, r)
			case what <= 5:
				r := rapid.SampledFrom(going).Draw(t, "run")
				for range rapid.IntRange(1, 30).Draw(t, "many") {
					if rapid.IntRange(0, 9).Draw(t, "set") == 0 {
						must(r.tube.Send(tube.Event{Kind: tube.Set, URI: []byte("n"), Value: []byte(fmt.Sprint(step))}))
					} else {
						r.say("a", strings.Repeat(fmt.Sprint(step, " "), rapid.IntRange(1, 50).Draw(t, "long")))
					}
					states.note(r)
				}
			case what == 6 && len(going) > 1:
				i := rapid.IntRange(0, len(going)-1).Draw(t, "end")
				r := going[i]
				r.finish()
				states.note(r)
				if rapid.Bool().Draw(t, "saved") {
					r.entry.Drop()
					delete(safe, r.id)
					dropped[r.id] = true
				}
				going = slices.Delete(going, i, i+1)
			case what == 7:
				// As if it were time.
				j.pass(true)
				if rapid.Bool().Draw(t, "old") {
					for i := range j.segments {
						j.segments[i].began = time.Now().Add(-time.Hour)
					}
					j.pass(true)
				}
				if err := j.sync(time.Now()); err != nil {
					t.Fatal(err)
				}
				for _, r := range going {
					safe[r.id] = r.tube.Len()
				}
			default:
				j.pass(rapid.Bool().Draw(t, "all"))
			}
		}
		after := newMemoryFolder()
		names, _ := j.folder.names()
		var others []byte
		for _, name := range names {
			f := j.folder.files[name]
			data := bytes.Clone(f.data)
			if rapid.Bool().Draw(t, "killed") {
				data = data[:rapid.IntRange(f.synced, len(data)).Draw(t, "length")]
			} else {
				const sector = 512
				for at := f.synced; at < len(data); at = (at/sector + 1) * sector {
					part := data[at:min((at/sector+1)*sector, len(data))]
					switch rapid.IntRange(0, 7).Draw(t, "sector") {
					case 0:
						clear(part)
					case 2: // pages in another order
						from := rapid.IntRange(0, len(data)/sector).Draw(t, "from") * sector
						copy(part, data[from:])
					case 1:
						for i := range part { // what another file had at its place
							part[i] = 0xa5
							if at+i < len(others) {
								part[i] = others[at+i]
							}
						}
					}
				}
				data = data[:rapid.IntRange(f.synced, len(data)).Draw(t, "length")]
				data = append(data, make([]byte, rapid.SampledFrom([]int{0, 0, 7, 4096}).Draw(t, "zeros"))...)
			}
			others = f.data
			after.files[name] = &memoryFile{in: after, data: data}
		}
		list, err := newByHand(after).read()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]*runlog.Left{}
		for _, p := range list {
			found[p.ID] = p
		}
		states.check(t, found, safe)
	}
	for range 5 { // it costs little beside what TestLog draws
		rapid.Check(t, property)
	}
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

// FT-26: a file whose sync has failed is used no more (memoryFile panics), and what it holds is written anew.
func TestAFileWhoseSyncHasFailedIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := newMemoryFolder()
		j := newByHand(folder)
		r := goingRun(j.Log, 1)
		r.say("a", "one ")
		fails := 2
		folder.sync = func() error {
			if fails--; fails >= 0 {
				return syscall.EIO
			}
			return nil
		}
		for range 60 {
			r.say("a", "x")
			j.pass(true)
			time.Sleep(FlushEvery)
		}
		if fails >= 0 {
			t.Fatal("nothing was synced")
		}
		if len(folder.files) != 1 || strings.Count(j.log.String(), "writing running runs again") != 1 {
			t.Errorf("%d files\n%s", len(folder.files), j.log.String())
		}
		// Of what was never synced nothing is left.
		for _, f := range folder.files {
			f.data = f.data[:f.synced]
		}
		j.pass(true)
		if n := read(t, folder)[r.id].Tube.Len(); n < 50 {
			t.Errorf("%d events are safe", n)
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

// The goroutine writes what has begun at once and all else a little later, and ends with the journal.
func TestTheJournalWritesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := newMemoryFolder()
		j := newByHand(folder)
		j.start()
		r := goingRun(j.Log, 1)
		synctest.Wait()
		if len(read(t, folder)) != 1 {
			t.Error("not written at once")
		}
		r.say("a", "x")
		time.Sleep(FlushEvery + time.Millisecond)
		synctest.Wait()
		if got := documentOf(read(t, folder)[r.id].Tube); got != `{"a":"x"}{}` {
			t.Errorf("after %v: %s", FlushEvery, got)
		}
		r.say("a", "y")
		if err := j.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if got := documentOf(read(t, folder)[r.id].Tube); got != `{"a":"xy"}{}` {
			t.Errorf("flushed: %s", got)
		}
		r.say("a", "z")
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		if got := documentOf(read(t, folder)[r.id].Tube); got != `{"a":"xyz"}{}` {
			t.Errorf("closed: %s", got)
		}
		for _, f := range folder.files {
			if f.synced != len(f.data) || !f.closed {
				t.Error("not synced, or left open")
			}
		}
	})
}

func FuzzJournal(f *testing.F) {
	j := newByHand(newMemoryFolder())
	one, two := goingRun(j.Log, 1), goingRun(j.Log, 2)
	one.say("a", "x")
	j.pass(true)
	one.say("a/b", "y")
	two.finish()
	one.entry.(*entry).segment = 0 // written anew
	j.pass(true)
	two.entry.Drop()
	j.pass(true)
	for _, file := range j.folder.files {
		head := len(mark) + 8
		for rest := file.data[head:]; len(rest) > 0; {
			n := frameHead + int(binary.LittleEndian.Uint32(rest))
			f.Add(rest[frameHead:n])
			rest = rest[n:]
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		// As a frame that is whole, for the checksum would keep all else out.
		text := append([]byte(mark), make([]byte, 8)...)
		at := int64(len(text))
		text = binary.LittleEndian.AppendUint32(text, uint32(len(payload)))
		text = binary.LittleEndian.AppendUint32(text, checksum([8]byte{}, 1, at, payload))
		text = append(text, payload...)
		folder := newMemoryFolder()
		folder.files[segmentName(1)] = &memoryFile{in: folder, data: text}
		list, err := newByHand(folder).read()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if p.ID == "" || p.Tube == nil || p.Head != nil && !over(p.Tube) {
				t.Fatalf("%+v", p)
			}
			documentOf(p.Tube)
		}
	})
}

// Whatever a file holds in place of ours, it is read as far as it is whole, and never more is made room for than there is.
func FuzzJournalFile(f *testing.F) {
	j := newByHand(newMemoryFolder())
	goingRun(j.Log, 1).say("a", "x")
	j.pass(true)
	for _, file := range j.folder.files {
		f.Add(file.data)
		f.Add(file.data[:len(file.data)-3])
		f.Add(append(bytes.Clone(file.data), 0xff, 0xff, 0xff, 0x3f, 0, 0, 0, 0, 1))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		folder := newMemoryFolder()
		folder.files[segmentName(1)] = &memoryFile{in: folder, data: text}
		if _, err := newByHand(folder).read(); err != nil {
			t.Fatal(err)
		}
	})
}
