package tapetest

import (
	"bufio"
	"bytes"
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
	if err != nil || in.Entries != int64(len(all)) || in.LastID != all[len(all)-1].ID {
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
	rounds := 8
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
	batches := 60
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
