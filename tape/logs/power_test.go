package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
)

// Sizes of what a disk writes: a page is written whole or not at all, but for one that is torn between its sectors.
const (
	pageSize   = 4096
	sectorSize = 512
)

// powerTape is the tape that loses its power.
var powerTape = tape.Name("/srv", "chat:1")

// powerDisk is a disk that can say what could lie on it, had the power gone in this moment: what was synced, and of what was
// written since any page or none, in any order, in any of the lengths that the file had; zeros where a page is missing, a page torn
// between sectors. What was cut off does not come back in a file whose cut has reached the disk.
type powerDisk struct {
	vfs.Folder
	mu    sync.Mutex
	files map[string]*powerFile
}

// powerFile is what may lie on the disk of one file.
type powerFile struct {
	named  bool // its name outlasts the power
	epochs []powerEpoch
	now    []byte
}

// powerEpoch is a time between two cuts of a file.
type powerEpoch struct {
	pages [][][]byte // versions of each page; nil is one that was never written
	sizes []int
}

func (f *powerFile) page(i int) []byte {
	from := i * pageSize
	if from >= len(f.now) {
		return nil
	}
	return bytes.Clone(f.now[from:min(len(f.now), from+pageSize)])
}

// synced forgets what may lie there but for the newest.
func (f *powerFile) synced() {
	var e powerEpoch
	for i := 0; i*pageSize < len(f.now); i++ {
		e.pages = append(e.pages, [][]byte{f.page(i)})
	}
	e.sizes = []int{len(f.now)}
	f.epochs = []powerEpoch{e}
}

func (f *powerFile) written(p []byte, at int) {
	if grown := at + len(p); grown > len(f.now) {
		f.now = append(f.now, make([]byte, grown-len(f.now))...)
	}
	copy(f.now[at:], p)
	e := &f.epochs[len(f.epochs)-1]
	for i := at / pageSize; i*pageSize < at+len(p); i++ {
		for len(e.pages) <= i {
			e.pages = append(e.pages, [][]byte{nil})
		}
		e.pages[i] = append(e.pages[i], f.page(i))
	}
	e.sizes = append(e.sizes, len(f.now))
}

func (f *powerFile) truncated(size int) {
	if size > len(f.now) {
		return
	}
	f.now = f.now[:size:size]
	var next powerEpoch
	for i := 0; i*pageSize < size; i++ {
		versions := slices.Clone(f.epochs[len(f.epochs)-1].pages[i])
		for j, v := range versions {
			versions[j] = v[:min(len(v), size-i*pageSize)]
		}
		next.pages = append(next.pages, versions)
	}
	next.sizes = []int{size}
	f.epochs = append(f.epochs, next)
}

// left is what the power has left.
func (f *powerFile) left(r *rand.Rand) []byte {
	e := f.epochs[r.IntN(len(f.epochs))]
	if r.IntN(3) == 0 {
		e = f.epochs[len(f.epochs)-1]
	}
	out := make([]byte, e.sizes[r.IntN(len(e.sizes))])
	mostly := r.IntN(3) // all old, anything, all new
	for i, versions := range e.pages {
		if i*pageSize >= len(out) {
			break
		}
		at := out[i*pageSize : min(len(out), (i+1)*pageSize)]
		n := r.IntN(len(versions))
		if r.IntN(4) > 0 {
			n = []int{0, n, len(versions) - 1}[mostly]
		}
		copy(at, versions[n])
		if n+1 < len(versions) && r.IntN(4) == 0 { // torn
			for from := 0; from < len(at); from += sectorSize {
				if next := versions[n+1]; r.IntN(2) == 0 && from < len(next) {
					copy(at[from:min(len(at), from+sectorSize)], next[from:])
				}
			}
		}
	}
	return out
}

func newPowerDisk(t testing.TB, dir string) *powerDisk {
	t.Helper()
	d, err := vfs.At(dir).Open()
	if err != nil {
		t.Fatal(err)
	}
	p := &powerDisk{Folder: d, files: map[string]*powerFile{}}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		f := &powerFile{named: true, now: text}
		f.synced()
		p.files[filepath.ToSlash(strings.TrimPrefix(path, dir+string(filepath.Separator)))] = f
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (d *powerDisk) Open(name string, flag int) (vfs.File, error) {
	h, err := d.Folder.Open(name, flag)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] == nil {
		f := new(powerFile)
		f.synced()
		d.files[name] = f
	}
	return &powerHandle{h, d, d.files[name]}, nil
}

func (d *powerDisk) Remove(name string) error {
	d.mu.Lock()
	delete(d.files, name)
	d.mu.Unlock()
	return d.Folder.Remove(name)
}

func (d *powerDisk) Rename(from, to string) error {
	err := d.Folder.Rename(from, to)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.files[to] = d.files[from]
		delete(d.files, from)
	}
	return err
}

func (d *powerDisk) SyncFolder(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.files {
		f.named = true
	}
	return d.Folder.SyncFolder(name)
}

// lose writes what the power has left to a folder.
func (d *powerDisk) lose(t testing.TB, r *rand.Rand, dir string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	names := make([]string, 0, len(d.files))
	for name := range d.files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f := d.files[name]
		if !f.named && r.IntN(2) == 0 {
			continue
		}
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, f.left(r), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

type powerHandle struct {
	vfs.File
	d *powerDisk
	f *powerFile
}

func (h *powerHandle) WriteAt(p []byte, at int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	n, err := h.File.WriteAt(p, at)
	h.f.written(p[:n], int(at))
	return n, err
}

func (h *powerHandle) Truncate(size int64) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.f.truncated(int(size))
	return h.File.Truncate(size)
}

func (h *powerHandle) Sync() error { // the disk itself is spared
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.f.synced()
	return nil
}

// FT-24: the power goes at any moment, and leaves of what was not yet synced any pages, in any order, torn or full of zeros. What
// the policy has promised is there, to the byte. Of the rest there is never an entry that nobody has written, and never a part of a
// batch unless the disk has left a hole before something newer; such a hole is counted and told. The tape can be written as before,
// and then the power goes again.
func TestATapeOutlivesALossOfPower(t *testing.T) {
	longtest.Only(t, "many losses of power")
	images := longtest.Times(40, 200)
	for policy, name := range map[Sync]string{SyncNone: "none", SyncInterval: "interval", SyncTurn: "turn", SyncAlways: "always"} {
		t.Run(name, func(t *testing.T) {
			lost, gaps := 0, 0
			for seed := range uint64(images) {
				synctest.Test(t, func(t *testing.T) {
					p := power{t: t, r: rand.New(rand.NewPCG(seed, uint64(policy))), policy: policy}
					dir := t.TempDir()
					for range 1 + p.r.IntN(3) { // losses
						dir = p.round(dir)
						if t.Failed() {
							t.Fatalf("seed %d", seed)
						}
					}
					lost += p.lost
					gaps += p.gaps
				})
				if t.Failed() {
					return
				}
			}
			t.Logf("%d entries were lost, %d tapes had lines that cannot be read", lost, gaps)
			if lost == 0 && policy != SyncAlways {
				t.Error("nothing was ever lost")
			}
		})
	}
}

// power is a tape through losses of power.
type power struct {
	t      *testing.T
	r      *rand.Rand
	policy Sync
	n      int // batches so far
	said   []saidBatch
	wrote  map[int64][]string // all that was ever written, by id
	lost   int
	gaps   int
}

// saidBatch is a batch that was acknowledged.
type saidBatch struct {
	ids     []int64
	words   []string
	durable bool
}

// words are those of an entry: their number, and so many letters that each differ from batch to batch.
func (p *power) words(i, size int) string {
	return fmt.Sprintf("%d/%d ", p.n, i) + strings.Repeat(string(rune('a'+p.n%26)), size)
}

// round writes for a while, loses the power, checks what is left, and returns the folder of that.
func (p *power) round(dir string) string {
	t := p.t
	t.Helper()
	d := newPowerDisk(t, dir)
	s := openOn(d, FolderOptions{Sync: p.policy})
	defer s.Close()
	for range 1 + p.r.IntN(12) {
		p.n++
		var b tape.Batch
		if _, err := s.Info(t.Context(), powerTape); errors.Is(err, tape.ErrNotFound) {
			b.Create, b.Session, b.Workspace = true, "chat:1", "/srv"
		}
		said := saidBatch{}
		for i := range 1 + p.r.IntN(4) {
			text := p.words(i, []int{0, 100, 700, 5000}[p.r.IntN(4)])
			said.words = append(said.words, text)
			e := message(text)
			if p.r.IntN(6) == 0 {
				e = tape.Entry{Kind: tape.KindAnchor, Payload: json.RawMessage(fmt.Sprintf(`{"name":"phase","state":{"summary":%q}}`, text))}
			}
			b.Entries = append(b.Entries, e)
		}
		first, err := s.Append(t.Context(), powerTape, b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Entries {
			said.ids = append(said.ids, first+int64(i))
		}
		p.acknowledged(said)
		switch {
		case p.policy == SyncAlways:
			p.promised()
		case p.policy == SyncTurn && p.r.IntN(4) == 0:
			if err := s.TurnEnded(t.Context(), powerTape); err != nil {
				t.Fatal(err)
			}
			p.promised()
		case p.policy == SyncInterval && p.r.IntN(4) == 0:
			time.Sleep(syncInterval + time.Millisecond)
			synctest.Wait()
			p.promised()
		}
	}
	after := t.TempDir()
	d.lose(t, p.r, after)
	p.check(after)
	return after
}

func (p *power) acknowledged(b saidBatch) {
	p.said = append(p.said, b)
	if p.wrote == nil {
		p.wrote = map[int64][]string{}
	}
	for i, id := range b.ids {
		p.wrote[id] = append(p.wrote[id], b.words[i])
	}
}

func (p *power) promised() {
	for i := range p.said {
		p.said[i].durable = true
	}
}

// check looks at what is left, and takes it for what there is.
func (p *power) check(dir string) {
	t := p.t
	t.Helper()
	s := openOn(must(vfs.At(dir).Open()), FolderOptions{})
	defer func() { s.Close() }()
	at := map[int64]string{}
	var ids []int64
	read := func() {
		clear(at)
		ids = ids[:0]
		for e, err := range s.Read(t.Context(), powerTape, tape.Query{}) {
			if errors.Is(err, tape.ErrNotFound) { // not even its name is left
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var m struct {
				Content string
				State   struct{ Summary string }
			}
			if err := json.Unmarshal(e.Payload, &m); err != nil {
				t.Fatal(err)
			}
			at[e.ID] = m.Content + m.State.Summary
			ids = append(ids, e.ID)
		}
	}
	read()
	// look compares what is there with what was written, and returns what is left of it.
	look := func() (left []saidBatch, partly []int64, lost int) {
		t.Helper()
		read()
		for _, id := range ids {
			if !slices.Contains(p.wrote[id], at[id]) {
				t.Errorf("entry %d is one that nobody has written: %.50q", id, at[id])
			}
		}
		for _, b := range p.said {
			var whole saidBatch
			for i, id := range b.ids {
				if at[id] == b.words[i] {
					whole.ids, whole.words = append(whole.ids, id), append(whole.words, b.words[i])
				}
			}
			n := len(whole.ids)
			if lost += len(b.ids) - n; n < len(b.ids) {
				if b.durable {
					t.Errorf("of the batch %d…, which was promised, %d of %d entries are there", b.ids[0], n, len(b.ids))
				}
				if n > 0 {
					partly = append(partly, b.ids[0])
				}
			}
			if whole.durable = b.durable; n > 0 {
				left = append(left, whole)
			}
		}
		return left, partly, lost
	}
	look()
	// It can be written, and read by another process, with its index and without.
	again := tape.Batch{Entries: []tape.Entry{message("again")}}
	if len(ids) == 0 {
		again.Create, again.Session, again.Workspace = true, "chat:1", "/srv"
	}
	first, err := s.Append(t.Context(), powerTape, again)
	if err != nil {
		t.Fatal(err)
	}
	p.acknowledged(saidBatch{ids: []int64{first}, words: []string{"again"}, durable: true})
	left, partly, lost := look()
	p.said = left
	p.lost += lost
	info1, err := s.Info(t.Context(), powerTape)
	if err != nil || info1.LastID != first || info1.Entries != int64(len(ids)) {
		t.Errorf("there are %d entries up to %d, and the store says %+v, %v", len(ids), first, info1, err)
	}
	if p.policy == SyncAlways && info1.Session != "chat:1" {
		t.Errorf("the session's name is lost: %+v", info1)
	}
	if info1.Unreadable > 0 {
		p.gaps++
	} else if len(partly) > 0 {
		t.Errorf("of the batches %d… there is a part, and no line is said to be missing", partly)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, index := range []bool{true, false} {
		if !index {
			if err := os.Remove(filepath.Join(dir, powerTape+indexEnd)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		s = openOn(must(vfs.At(dir).Open()), FolderOptions{})
		before := slices.Clone(ids)
		read()
		if diff := cmp.Diff(before, ids); diff != "" {
			t.Errorf("with index %v: %s", index, diff)
		}
		info2, err := s.Info(t.Context(), powerTape)
		if err != nil || info2.LastID != info1.LastID || info2.Entries != info1.Entries || info2.Unreadable != info1.Unreadable {
			t.Errorf("with index %v: %+v, before %+v, %v", index, info2, info1, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
