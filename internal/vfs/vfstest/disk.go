// Package vfstest has a disk for tests that fails as it is told, and loses what was not synced when its power goes.
package vfstest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/vfs"
)

// Disk is a file system in memory. Every call to it has a number, from 1, and may fail.
type Disk struct {
	mu    sync.Mutex
	now   map[string]*node // by path; "." is the disk's own folder
	safe  map[string]*node // the names that outlast a loss of power
	calls int
	open  map[*handle]string // where it was opened
	fault Fault
	once  bool   // no more than one call fails
	hit   string // the first call that failed
}

// Fault says which calls fail, and how.
type Fault struct {
	First int // the number of the first call that fails; 0 is none
	Count int // of calls that fail; 0 is all until [Disk.Mend]
	Kind  Kind
}

// Kind is what happens to a call that fails.
type Kind int

const (
	// NotDone is an I/O error. The call has done nothing. After a sync that fails so, what the sync was for is lost with the power,
	// however often it is synced again.
	NotDone Kind = iota
	// Done is an I/O error, too, but the call has done what it should.
	Done
	// Full is a disk without room: half of a write is done, and nothing is created. Other calls succeed.
	Full

	kinds
)

func (k Kind) String() string {
	return [...]string{"EIO, not done", "EIO, done", "ENOSPC, half done"}[k]
}

// node is a file or a folder.
type node struct {
	folder  bool
	data    []byte
	safe    []byte   // what outlasts a loss of power
	dirty   [][2]int // parts of data that safe may not have
	changed time.Time
	lock    *handle
}

// New returns an empty disk.
func New() *Disk {
	return &Disk{now: map[string]*node{".": {folder: true}}, safe: map[string]*node{".": {folder: true}}, open: map[*handle]string{}}
}

// Dir opens the disk's own folder: it is a [vfs.Dir].
func (d *Disk) Dir(bool) (vfs.Folder, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, _, err := d.begin("mkdir", ".", true); err != nil {
		return nil, err
	}
	f := &folder{d: d, at: ".", self: &handle{}}
	d.open[f.self] = "."
	return f, nil
}

// Fail lets calls fail from now on.
func (d *Disk) Fail(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault, d.once, d.hit = f, f.First == 0 || f.Count == 1, ""
}

// Mend lets no call fail any more.
func (d *Disk) Mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = Fault{}
}

// Calls returns the number of the last call.
func (d *Disk) Calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Once reports whether at most one call fails.
func (d *Disk) Once() bool { return d.once }

// Hit describes the first call that has failed; "" is none.
func (d *Disk) Hit() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hit
}

// Open returns the names of the files and folders that are open.
func (d *Disk) Open() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Values(d.open))
}

// Crash returns the disk as the end of the process leaves it, and with power as a loss of power does: then it has only what was synced.
func (d *Disk) Crash(power bool) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := New()
	from := d.now
	if power {
		from = d.safe
	}
	for name, n := range from {
		data := n.data
		if power {
			data = n.safe
		}
		copied := &node{folder: n.folder, data: slices.Clone(data), safe: slices.Clone(data), changed: n.changed}
		after.now[name], after.safe[name] = copied, copied
	}
	return after
}

// Files returns the names of all files.
func (d *Disk) Files() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, n := range d.now {
		if !n.folder {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// begin counts a call. It returns an error if the call fails, and whether the call is nonetheless done. part is true for a write that
// is done by half.
func (d *Disk) begin(op, name string, grows bool) (done, part bool, err error) {
	d.calls++
	f := d.fault
	if f.First == 0 || d.calls < f.First || f.Count > 0 && d.calls >= f.First+f.Count {
		return true, false, nil
	}
	cause := syscall.EIO
	if f.Kind == Full {
		if !grows {
			return true, false, nil
		}
		cause = syscall.ENOSPC
	}
	if d.hit == "" {
		d.hit = op + " " + name
	}
	return f.Kind == Done, f.Kind == Full, &fs.PathError{Op: op, Path: name, Err: cause}
}

func (d *Disk) makeLocked(name string) {
	for ; d.now[name] == nil; name = path.Dir(name) {
		d.now[name] = &node{folder: true}
	}
}

// folder is an open folder of a disk.
type folder struct {
	d    *Disk
	at   string
	self *handle
}

func (f *folder) path(name string) string { return path.Join(f.at, name) }

// call does do as one call to the disk.
func (f *folder) call(op, name string, grows bool, do func(at string) error) error {
	d := f.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.open[f.self]; !open {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrClosed}
	}
	done, _, err := d.begin(op, f.path(name), grows)
	if done {
		if failure := do(f.path(name)); failure != nil {
			return &fs.PathError{Op: op, Path: name, Err: failure}
		}
	}
	return err
}

func (f *folder) Open(name string, flag int) (vfs.File, error) {
	d := f.d
	d.mu.Lock()
	at := f.path(name)
	n := d.now[at]
	creates := n == nil && flag&os.O_CREATE != 0
	d.mu.Unlock()
	var h *handle
	err := f.call("open", name, creates, func(string) error {
		switch {
		case n == nil && !creates:
			return syscall.ENOENT
		case n == nil && (d.now[path.Dir(at)] == nil || !d.now[path.Dir(at)].folder):
			return syscall.ENOENT
		case n != nil && n.folder:
			return vfs.ErrNotRegular
		case n != nil && flag&os.O_EXCL != 0:
			return syscall.EEXIST
		case n == nil:
			n = &node{changed: time.Now()}
			d.now[at] = n
		}
		if flag&os.O_TRUNC != 0 {
			n.truncate(0)
		}
		h = &handle{d: d, n: n, name: at, flag: flag}
		d.open[h] = at
		return nil
	})
	if err != nil {
		if h != nil {
			d.mu.Lock()
			delete(d.open, h)
			d.mu.Unlock()
		}
		return nil, err
	}
	return h, nil
}

func (f *folder) Stat(name string) (info fs.FileInfo, err error) {
	err = f.call("lstat", name, false, func(at string) error {
		n := f.d.now[at]
		if n == nil {
			return syscall.ENOENT
		}
		info = n.info(at)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

func (f *folder) List(name string, yield func(fs.DirEntry) bool) error {
	var entries []fs.DirEntry
	err := f.call("readdir", name, false, func(at string) error {
		if n := f.d.now[at]; n == nil || !n.folder {
			return syscall.ENOENT
		}
		for _, name := range slices.Sorted(maps.Keys(f.d.now)) {
			if name != at && path.Dir(name) == at {
				entries = append(entries, fs.FileInfoToDirEntry(f.d.now[name].info(name)))
			}
		}
		return nil
	})
	if err != nil {
		// A folder that can be read in part is worse than one that cannot be read at all.
		entries = entries[:len(entries)/2]
	}
	for _, e := range entries {
		if !yield(e) {
			return nil
		}
	}
	return err
}

func (f *folder) Mkdir(name string) error {
	return f.call("mkdir", name, true, func(at string) error {
		f.d.makeLocked(at)
		return nil
	})
}

func (f *folder) Remove(name string) error {
	return f.call("remove", name, false, func(at string) error {
		n := f.d.now[at]
		if n == nil {
			return syscall.ENOENT
		}
		for other := range f.d.now {
			if n.folder && strings.HasPrefix(other, at+"/") {
				return syscall.ENOTEMPTY
			}
		}
		delete(f.d.now, at)
		return nil
	})
}

func (f *folder) RemoveAll(name string) error {
	return f.call("removeall", name, false, func(at string) error {
		for other := range f.d.now {
			if other == at || strings.HasPrefix(other, at+"/") {
				delete(f.d.now, other)
			}
		}
		return nil
	})
}

func (f *folder) Rename(from, to string) error {
	return f.call("rename", from, true, func(at string) error {
		n := f.d.now[at]
		if n == nil {
			return syscall.ENOENT
		}
		delete(f.d.now, at)
		f.d.now[f.path(to)] = n
		return nil
	})
}

func (f *folder) Chtimes(name string, changed time.Time) error {
	return f.call("chtimes", name, false, func(at string) error {
		n := f.d.now[at]
		if n == nil {
			return syscall.ENOENT
		}
		n.changed = changed
		return nil
	})
}

func (f *folder) SyncFolder(name string) error {
	return f.call("sync folder", name, true, func(at string) error {
		d := f.d
		in := func(name string) bool { return name == at || path.Dir(name) == at }
		maps.DeleteFunc(d.safe, func(name string, _ *node) bool { return in(name) && d.now[name] == nil })
		for name, n := range d.now {
			if in(name) {
				d.safe[name] = n
			}
		}
		return nil
	})
}

// Close closes the folder whatever it returns, as systems do.
func (f *folder) Close() error {
	err := f.call("close", ".", false, func(string) error { return nil })
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	delete(f.d.open, f.self)
	return err
}

// handle is an open file.
type handle struct {
	d    *Disk
	n    *node
	name string
	flag int
	at   int64
}

func (h *handle) call(op string, grows bool, do func(part bool) error) error {
	d := h.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.open[h]; !open {
		return &fs.PathError{Op: op, Path: h.name, Err: fs.ErrClosed}
	}
	done, part, err := d.begin(op, h.name, grows)
	if done || part {
		if failure := do(part); failure != nil {
			return failure
		}
	}
	return err
}

func (h *handle) read(p []byte, at int64) (n int, err error) {
	err = h.call("read", false, func(bool) error {
		if at < int64(len(h.n.data)) {
			n = copy(p, h.n.data[at:])
		}
		if n < len(p) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

func (h *handle) ReadAt(p []byte, at int64) (int, error) { return h.read(p, at) }

func (h *handle) Read(p []byte) (int, error) {
	n, err := h.read(p, h.at)
	h.at += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (h *handle) write(p []byte, at func() int64) (n int, err error) {
	err = h.call("write", true, func(part bool) error {
		if n = len(p); part {
			n /= 2
		}
		h.n.write(p[:n], int(at()))
		return nil
	})
	var failed *fs.PathError
	if errors.As(err, &failed) && failed.Err == syscall.EIO {
		n = 0
	}
	return n, err
}

func (h *handle) WriteAt(p []byte, at int64) (int, error) {
	if h.flag&os.O_APPEND != 0 {
		return 0, errors.New("vfstest: WriteAt of a file that is appended to")
	}
	return h.write(p, func() int64 { return at })
}

func (h *handle) Write(p []byte) (int, error) {
	n, err := h.write(p, func() int64 {
		if h.flag&os.O_APPEND != 0 {
			h.at = int64(len(h.n.data))
		}
		return h.at
	})
	h.at += int64(n)
	return n, err
}

func (h *handle) Seek(offset int64, whence int) (int64, error) {
	err := h.call("seek", false, func(bool) error {
		switch whence {
		case io.SeekStart:
			h.at = offset
		case io.SeekCurrent:
			h.at += offset
		case io.SeekEnd:
			h.at = int64(len(h.n.data)) + offset
		}
		return nil
	})
	return h.at, err
}

func (h *handle) Stat() (info fs.FileInfo, err error) {
	err = h.call("fstat", false, func(bool) error {
		info = h.n.info(h.name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

func (h *handle) Sync() error {
	err := h.call("sync", false, func(bool) error {
		h.n.sync()
		return nil
	})
	if err != nil {
		h.d.mu.Lock()
		h.n.dirty = nil
		h.d.mu.Unlock()
	}
	return err
}

func (h *handle) Truncate(size int64) error {
	return h.call("truncate", false, func(bool) error {
		h.n.truncate(int(size))
		return nil
	})
}

func (h *handle) TryLock() (ok bool, err error) {
	err = h.call("lock", false, func(bool) error {
		if ok = h.n.lock == nil || h.n.lock == h; ok {
			h.n.lock = h
		}
		return nil
	})
	if err != nil && ok { // as a system does that reports an error: the lock is not held
		h.d.mu.Lock()
		h.n.lock = nil
		h.d.mu.Unlock()
	}
	return ok && err == nil, err
}

func (h *handle) Unlock() error {
	return h.call("unlock", false, func(bool) error {
		h.unlock()
		return nil
	})
}

func (h *handle) unlock() {
	if h.n.lock == h {
		h.n.lock = nil
	}
}

// Close closes the file whatever it returns, as systems do.
func (h *handle) Close() error {
	err := h.call("close", false, func(bool) error { return nil })
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	delete(h.d.open, h)
	h.unlock()
	return err
}

func (n *node) write(p []byte, at int) {
	if grown := at + len(p); grown > len(n.data) {
		n.data = append(n.data, make([]byte, grown-len(n.data))...)
	}
	copy(n.data[at:], p)
	n.dirty = append(n.dirty, [2]int{at, at + len(p)})
	n.changed = time.Now()
}

func (n *node) truncate(size int) {
	if size < len(n.data) {
		n.data = n.data[:size:size]
	} else {
		n.data = append(n.data, make([]byte, size-len(n.data))...)
	}
	n.changed = time.Now()
}

// sync makes durable what is dirty. What was dirty when a sync failed no longer is.
func (n *node) sync() {
	safe := make([]byte, len(n.data))
	copy(safe, n.safe)
	for _, part := range n.dirty {
		if to := min(part[1], len(n.data)); part[0] < to {
			copy(safe[part[0]:to], n.data[part[0]:to])
		}
	}
	n.safe, n.dirty = safe, nil
}

// info describes a node.
type info struct {
	name string
	n    *node
	size int64
	at   time.Time
}

func (n *node) info(name string) fs.FileInfo {
	return info{path.Base(name), n, int64(len(n.data)), n.changed}
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return i.at }
func (i info) IsDir() bool        { return i.n.folder }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.n.folder {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

func (i info) SameFile(as fs.FileInfo) bool {
	other, ok := as.(info)
	return ok && other.n == i.n
}

// Each runs a life first on a disk that does not fail, and then with the faults of each call that the life makes: once, and until the
// life mends the disk. It stops at the first failure. The short form leaves out the faults that others cover mostly.
func Each(t *testing.T, life func(t *testing.T, d *Disk)) {
	t.Helper()
	calls, runs := once(t, Fault{}, "no fault", life), 0
	for first := 1; first <= calls; first++ {
		for kind := range kinds {
			for count, name := range []string{"until it is mended", "once"} {
				if !longtest.Nightly() && (kind == Done && count == 0 || kind == Full && count == 1) {
					continue
				}
				once(t, Fault{first, count, kind}, fmt.Sprintf("call %d of %d, %v, %s", first, calls, kind, name), life)
				runs++
			}
		}
	}
	t.Logf("%d calls, %d runs", calls, runs)
}

// once runs a life with one fault, and returns how many calls it has made.
func once(t *testing.T, f Fault, name string, life func(t *testing.T, d *Disk)) int {
	t.Helper()
	d := New()
	defer func() {
		if t.Failed() {
			t.Fatalf("%s: %s", name, d.Hit())
		}
	}()
	d.Fail(f)
	life(t, d)
	return d.Calls()
}
