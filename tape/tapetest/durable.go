package tapetest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tape"
)

// These say of each damage the same three things: what was acknowledged is there, no batch is there in part, and the next
// append works and continues the ids.
var durableTests = []test{
	{"TA-11: a writer that is killed loses nothing that was acknowledged", killedWriter},
	{"TA-62: two processes append to one tape", twoProcesses},
	{"TA-63: the last batch is cut at every byte", cutAtEveryByte},
	{"TA-12: the disk fills at every byte", fullDisk},
	{"TA-60: the index is lost, old, damaged or another tape's", badIndex},
}

// writer is a process that appends batches.
type writer struct {
	cmd    *exec.Cmd
	out    *bufio.Scanner
	stderr bytes.Buffer
}

// start starts a process that appends n batches, or with 0 goes on until it is killed.
func (b *bench) start(by string, n int) *writer {
	b.Helper()
	path, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	w := &writer{cmd: exec.Command(path)}
	w.cmd.Env = append(os.Environ(), envDir+"="+b.dir, envTape+"="+name, envBy+"="+by, envN+"="+strconv.Itoa(n))
	w.cmd.Stderr = &w.stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	w.out = bufio.NewScanner(out)
	if err := w.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return w
}

// acknowledged reads the first id of the next batch that was; ok is false at the end.
func (w *writer) acknowledged() (first int64, ok bool) {
	if !w.out.Scan() {
		return 0, false
	}
	first, err := strconv.ParseInt(w.out.Text(), 10, 64)
	return first, err == nil
}

// whole fails unless the tape is in order and its next append works, and returns its entries.
func (b *bench) whole(s tape.Store, when string) []tape.Entry {
	b.Helper()
	all := b.read(s, name, tape.Query{})
	if err := checkBatches(all); err != nil {
		b.Fatalf("%s: %v", when, err)
	}
	in, err := s.Info(b.Context(), name)
	if err != nil || in.Entries != int64(len(all)) || in.LastID != all[len(all)-1].ID || in.Unreadable != 0 {
		b.Fatalf("%s: %d entries up to id %d are read, info is %+v, %v", when, len(all), all[len(all)-1].ID, in, err)
	}
	return all
}

// goesOn appends to the tape, and sees that it continues.
func (b *bench) goesOn(s tape.Store, when string) {
	b.Helper()
	before := b.read(s, name, tape.Query{})
	next := before[len(before)-1].ID + 1
	first, err := s.Append(b.Context(), name, tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", when)}})
	if err != nil || first != next {
		b.Fatalf("%s: the next append gives id %d, %v, want %d", when, first, err, next)
	}
	after := b.read(s, name, tape.Query{})
	if diff := cmp.Diff(lines(before), lines(after[:len(after)-1])); diff != "" || len(after) != len(before)+1 {
		b.Fatalf("%s: after the next append (-before +after):\n%s", when, diff)
	}
}

func killedWriter(t *testing.T, b *bench) {
	rounds := b.times(8)
	if testing.Short() {
		rounds = 2
	}
	s := b.open()
	b.create(s, name)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	acknowledged := map[int64]string{}
	for round := range rounds {
		by := fmt.Sprint("round ", round)
		w := b.start(by, 0)
		last := int64(0)
		for range 5 + 20*round {
			first, ok := w.acknowledged()
			if !ok {
				t.Fatalf("the writer ended by itself: %s", w.stderr.String())
			}
			acknowledged[first], last = by, first
		}
		if err := w.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for first, ok := w.acknowledged(); ok; first, ok = w.acknowledged() { // what it said before it died
			acknowledged[first], last = by, first
		}
		_ = w.cmd.Wait() // killed

		s, err := b.f.Open(b.dir)
		if err != nil {
			t.Fatalf("after %s: %v", by, err)
		}
		all := b.whole(s, by)
		if end := all[len(all)-1].ID; end < last+2 {
			t.Fatalf("%s: the tape ends at %d, and a batch from %d on was acknowledged", by, end, last)
		}
		for _, e := range all {
			if who, ok := acknowledged[e.ID]; ok && !bytes.Contains(e.Payload, []byte(`"`+who+`"`)) {
				t.Fatalf("%s: entry %d is %s, and was acknowledged to %s", by, e.ID, e.Payload, who)
			}
		}
		b.goesOn(s, by)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func twoProcesses(t *testing.T, b *bench) {
	if b.f.Exclusive {
		t.Skip("one process at a time has the store")
	}
	batches := b.times(60)
	s := b.open()
	b.create(s, name)
	var wg sync.WaitGroup
	for _, by := range []string{"one", "two"} {
		w := b.start(by, batches)
		wg.Go(func() {
			n := 0
			for _, ok := w.acknowledged(); ok; _, ok = w.acknowledged() {
				n++
			}
			if err := w.cmd.Wait(); err != nil || n != batches {
				t.Errorf("process %s: %d of %d batches, %v: %s", by, n, batches, err, w.stderr.String())
			}
		})
	}
	for i := range batches {
		b.append(s, name, batch("here", i)...)
		if err := checkBatches(b.read(s, name, tape.Query{})); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if all := b.whole(s, "at the end"); len(all) != 1+9*batches {
		t.Errorf("the tape has %d entries, want %d", len(all), 1+9*batches)
	}
	b.goesOn(s, "at the end")
}

func cutAtEveryByte(t *testing.T, b *bench) {
	if b.f.File == nil {
		t.Skip("the store has no file")
	}
	s := b.open()
	b.create(s, name, batch("me", 0)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := b.f.File(b.dir, name)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	index := b.save()
	s = b.open()
	b.append(s, name, batch("me", 1)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(after, before) {
		t.Fatal("the file did not grow at its end")
	}
	for n := len(before); n <= len(after); n++ {
		if testing.Short() && n%7 != 0 && n < len(after)-2 {
			continue
		}
		when := fmt.Sprintf("cut after %d of %d bytes", n-len(before), len(after)-len(before))
		b.restore(index)
		if err := os.WriteFile(path, after[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := b.f.Open(b.dir)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		want := 4
		if n == len(after) {
			want = 7
		}
		if n == len(after)-1 {
			// The line feed alone is missing: a reader may wait for it, the next writer writes it.
			if first := b.append(s, name, tape.NewMessage("user", when)); first != 8 {
				t.Fatalf("%s: the next id is %d, want 8", when, first)
			}
			want = 8
		}
		if all := b.whole(s, when); len(all) != want {
			t.Fatalf("%s: there are %d entries, want %d", when, len(all), want)
		}
		b.goesOn(s, when)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// save returns the tape's derived files as they are; restore puts them back.
func (b *bench) save() map[string][]byte {
	b.Helper()
	saved := map[string][]byte{}
	if b.f.Index == nil {
		return saved
	}
	for _, path := range b.f.Index(b.dir, name) {
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			b.Fatal(err)
		}
		if err == nil {
			saved[path] = data
		}
	}
	return saved
}

func (b *bench) restore(saved map[string][]byte) {
	b.Helper()
	if b.f.Index == nil {
		return
	}
	for _, path := range b.f.Index(b.dir, name) {
		err := os.Remove(path)
		if data, ok := saved[path]; ok {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			b.Fatal(err)
		}
	}
}

func fullDisk(t *testing.T, b *bench) {
	if b.f.OpenFull == nil {
		t.Skip("the store has no disk")
	}
	s, room, err := b.f.OpenFull(b.dir, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	b.create(s, name)
	want := len(b.read(s, name, tape.Query{}))
	n := 0
	for size := int64(0); ; size++ {
		if size > 4096 {
			t.Fatal("a batch of three small entries takes more than 4096 bytes")
		}
		when := fmt.Sprintf("with room for %d bytes", size)
		room(size)
		first, err := s.Append(t.Context(), name, tape.Batch{Entries: batch("me", n)})
		if err == nil {
			if first != int64(want+1) {
				t.Fatalf("%s: the batch that fits has id %d, want %d", when, first, want+1)
			}
			break
		}
		if all := b.whole(s, when); len(all) != want {
			t.Fatalf("%s: the failed append left %d entries, want %d", when, len(all), want)
		}
		if size%50 != 0 {
			continue
		}
		// There is room again: the next batch gets the ids that the failed one would have had.
		room(1 << 30)
		if first := b.append(s, name, batch("me", n)...); first != int64(want+1) {
			t.Fatalf("%s, then again: id %d, want %d", when, first, want+1)
		}
		n, want = n+1, want+3
	}
	room(1 << 30)
	b.goesOn(s, "at the end")
	again := b.open()
	if got, want := len(b.whole(again, "opened again")), want+4; got != want {
		t.Errorf("opened again, the tape has %d entries, want %d", got, want)
	}
}

func badIndex(t *testing.T, b *bench) {
	if b.f.Index == nil {
		t.Skip("the store has no index")
	}
	s := b.open()
	b.create(s, "other", batch("other", 0)...)
	b.append(s, "other", tape.NewAnchor("other", nil))
	if _, err := tape.Open(t.Context(), s, b.dir, "s"); err != nil {
		t.Fatal(err)
	}
	b.create(s, name, tape.NewMessage("user", "the title"))
	b.append(s, name, tape.NewAnchor("two", nil))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	old := b.save()
	s = b.open()
	b.append(s, name, batch("me", 0)...)
	b.append(s, name, tape.NewAnchor("three", nil), tape.NewMessage("user", "after"))
	want, err := s.Info(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	all := b.read(s, name, tape.Query{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	now := b.save()

	damaged := func(change func(path string, data []byte) []byte) map[string][]byte {
		all := map[string][]byte{}
		for path, data := range now {
			if data = change(path, bytes.Clone(data)); data != nil {
				all[path] = data
			}
		}
		return all
	}
	others := map[string][]byte{}
	mine, foreign := b.f.Index(b.dir, name), b.f.Index(b.dir, "other")
	for i, path := range mine {
		if data, err := os.ReadFile(foreign[i]); err == nil {
			others[path] = data
		}
	}
	for when, files := range map[string]map[string][]byte{
		"as it is":       now,
		"lost":           {},
		"old":            old,
		"another tape's": others,
		"empty":          damaged(func(string, []byte) []byte { return []byte{} }),
		"cut":            damaged(func(_ string, data []byte) []byte { return data[:len(data)/2] }),
		"with noise":     damaged(func(_ string, data []byte) []byte { return append(data, "\x00noise\n{}"...) }),
		"of noise":       damaged(func(string, []byte) []byte { return bytes.Repeat([]byte("\xff\x00{"), 100) }),
		"all spaces":     damaged(func(_ string, data []byte) []byte { return bytes.Repeat([]byte(" "), len(data)) }),
	} {
		b.restore(files)
		s, err := b.f.Open(b.dir)
		if err != nil {
			t.Errorf("the index is %s: %v", when, err)
			continue
		}
		got, err := s.Info(t.Context(), name)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("the index is %s: info: %v (-want +got):\n%s", when, err, diff)
		}
		if diff := cmp.Diff(lines(all), lines(b.read(s, name, tape.Query{}))); diff != "" {
			t.Errorf("the index is %s (-want +got):\n%s", when, diff)
		}
		if got := b.read(s, name, tape.Query{FromLast: true}); len(got) == 0 || got[0].ID != want.LastAnchor.ID {
			t.Errorf("the index is %s: the %d entries from the last anchor on do not begin with it", when, len(got))
		}
		if got := b.read(s, name, tape.Query{AfterAnchor: "two", UntilAnchor: "three"}); len(got) != 3 {
			t.Errorf("the index is %s: %d entries between the anchors, want 3", when, len(got))
		}
		found, err := collect(s.Sessions(t.Context(), tape.SessionQuery{}))
		if err != nil || len(found) != 3 {
			t.Errorf("the index is %s: %d tapes are listed, %v, want 3", when, len(found), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		// The tape goes on with that index, too.
		b.restore(files)
		s = b.open()
		if first := b.append(s, name, tape.NewMessage("user", when)); first != all[len(all)-1].ID+1 {
			t.Errorf("the index is %s: the next id is %d, want %d", when, first, all[len(all)-1].ID+1)
		}
		all = b.read(s, name, tape.Query{})
		want, _ = s.Info(t.Context(), name)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
