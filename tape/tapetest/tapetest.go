// Package tapetest is one suite for every tape.Store: what package tape says of stores is tested here, and each test
// names the statement that it is about.
package tapetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strconv"
	"testing"

	"github.com/lingserve/lingserve/tape"
)

// Factory makes the stores that are tested.
type Factory struct {
	// Open opens a store on a folder: an empty one, or one that a store of this kind was opened on before.
	Open func(dir string) (tape.Store, error)

	// Durable says that tapes outlive Close and the process: a second Open of the folder finds them, also while another
	// process has it open. The test binary must call Main then.
	Durable bool

	// Exclusive says that one process at a time can open a folder. Open may return stores that share it in this process.
	Exclusive bool
}

// Environment of the child processes that Main runs.
const (
	envDir  = "TAPETEST_DIR"
	envTape = "TAPETEST_TAPE"
	envBy   = "TAPETEST_BY" // who appends
	envN    = "TAPETEST_N"  // how many batches; 0 goes on until it is killed
)

// Main is the TestMain of a durable store's tests. It makes the test binary the process that a test starts to kill it.
//
//	func TestMain(m *testing.M) { tapetest.Main(m, factory) }
func Main(m *testing.M, f Factory) {
	if os.Getenv(envDir) == "" {
		os.Exit(m.Run())
	}
	if err := child(f); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child appends batches of three entries and writes a line "first" to standard output for each that was acknowledged.
func child(f Factory) error {
	ctx := context.Background()
	store, err := f.Open(os.Getenv(envDir))
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(os.Getenv(envN))
	if err != nil {
		return err
	}
	for i := 0; n == 0 || i < n; i++ {
		first, err := store.Append(ctx, os.Getenv(envTape), tape.Batch{Entries: batch(os.Getenv(envBy), i)})
		if err != nil {
			return err
		}
		if _, err := fmt.Println(first); err != nil {
			return err
		}
	}
	return store.Close()
}

// batch is number i that a writer appends: three entries that say so.
func batch(by string, i int) []tape.Entry {
	entries := make([]tape.Entry, 3)
	for part := range entries {
		entries[part] = tape.NewEvent("batch", map[string]any{"by": by, "n": i, "part": part})
	}
	return entries
}

// Run tests the stores that f makes: what every store does, and what one does that outlives its process (TA-66).
func Run(t *testing.T, f Factory) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, &bench{T: t, f: f, dir: t.TempDir()})
		})
	}
	if !f.Durable {
		return
	}
	for _, test := range durableTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, &bench{T: t, f: f, dir: t.TempDir()})
		})
	}
}

type test struct {
	name string
	run  func(t *testing.T, b *bench)
}

// bench is what one test works on.
type bench struct {
	*testing.T
	f   Factory
	dir string
}

// open opens a store that is closed when the test ends.
func (b *bench) open() tape.Store {
	b.Helper()
	s, err := b.f.Open(b.dir)
	if err != nil {
		b.Fatalf("open the store: %v", err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// create makes a tape of one anchor and the entries.
func (b *bench) create(s tape.Store, name string, entries ...tape.Entry) {
	b.Helper()
	start := tape.NewAnchor("start", nil)
	if _, err := s.Append(b.Context(), name, tape.Batch{Create: true, Entries: append([]tape.Entry{start}, entries...)}); err != nil {
		b.Fatalf("create %s: %v", name, err)
	}
}

// append appends to a tape that exists, and returns the first id.
func (b *bench) append(s tape.Store, name string, entries ...tape.Entry) int64 {
	b.Helper()
	first, err := s.Append(b.Context(), name, tape.Batch{Entries: entries})
	if err != nil {
		b.Fatalf("append to %s: %v", name, err)
	}
	return first
}

// read returns the entries that q selects.
func (b *bench) read(s tape.Store, name string, q tape.Query) []tape.Entry {
	b.Helper()
	entries, err := collect(s.Read(b.Context(), name, q))
	if err != nil {
		b.Fatalf("read %s: %v", name, err)
	}
	return entries
}

// collect reads to the end. The error must be the last pair.
func collect[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for v, e := range seq {
		if err != nil {
			return all, fmt.Errorf("a pair follows the error %w", err)
		}
		if e != nil {
			err = e
			continue
		}
		all = append(all, v)
	}
	return all, err
}

// lines is what the entries are in a file: the form in which entries are compared here.
func lines(entries []tape.Entry) []string {
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = string(e.AppendJSON(nil))
	}
	return all
}

func ids(entries []tape.Entry) []int64 {
	all := []int64{}
	for _, e := range entries {
		all = append(all, e.ID)
	}
	return all
}

// wantErr fails unless err is want and says more than that.
func (b *bench) wantErr(what string, err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Errorf("%s: %v, want %v", what, err, want)
	}
}
