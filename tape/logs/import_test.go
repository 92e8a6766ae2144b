package logs

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tape"
)

// list is an import of these entries, with an error at its end.
func list(end error, entries ...tape.Entry) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
		if end != nil {
			yield(tape.Entry{}, end)
		}
	}
}

func numbered(entries ...tape.Entry) []tape.Entry {
	for i := range entries {
		entries[i].ID = int64(i + 1)
		entries[i].Date = time.Date(2026, 3, 1, 9, 0, i, 0, time.UTC)
	}
	return entries
}

// TA-40
func TestAnImportBelongsToItsSessionHoweverOftenTheIndexIsMade(t *testing.T) {
	dir := t.TempDir()
	name := tape.Name(dir, "new")
	old := tape.NewAnchor(tape.AnchorStart, nil).With(tape.Meta{Session: "old", Workspace: "/elsewhere"})
	long := strings.Repeat("n", 3*maxAnchor) // Handoff takes none of this length, another program did
	s := open(t, dir, FolderOptions{Sync: SyncNone})
	if err := s.Import(t.Context(), name, "new", dir, list(nil, numbered(old, message("hello"), tape.NewAnchor(long, nil), message("x"))...)); err != nil {
		t.Fatal(err)
	}
	want := info(t, s, name)
	if want.Session != "new" || want.Workspace != dir || want.Title != "hello" || want.LastAnchor.Name != long || want.Entries != 4 {
		t.Fatalf("%+v", want)
	}
	for _, without := range []string{"", indexEnd} {
		if without != "" {
			if err := os.Remove(filepath.Join(dir, name+without)); err != nil {
				t.Fatal(err)
			}
		}
		again := open(t, dir, FolderOptions{Sync: SyncNone})
		if diff := cmp.Diff(want, info(t, again, name)); diff != "" {
			t.Error(without, diff)
		}
		for i, err := range again.Sessions(t.Context(), tape.SessionQuery{}) {
			if diff := cmp.Diff(want, i); err != nil || diff != "" {
				t.Error(err, diff)
			}
		}
		if got := texts(t, again, name, tape.Query{FromAnchor: long}); len(got) != 2 {
			t.Errorf("%q", got)
		}
	}
	if first := add(t, s, name, "next"); first != 5 {
		t.Errorf("the id is %d", first)
	}
}

// TA-40: whole or not at all.
func TestAnImportThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, FolderOptions{Sync: SyncNone})
	create(t, s, "full")
	before := files(t, dir)
	why := errors.New("line 3 is bad")
	good := numbered(message("1"), message("2"))
	for _, c := range []struct {
		name, tape string
		entries    iter.Seq2[tape.Entry, error]
		want       error
	}{
		{"the entries end with an error", "a", list(why, good...), why},
		{"an id does not rise", "a", list(nil, good[1], good[0]), tape.ErrInvalid},
		{"an entry is none", "a", list(nil, good[0], tape.Entry{ID: 2, Kind: "x", Payload: []byte("[]")}), tape.ErrInvalid},
		{"there is none", "a", list(nil), tape.ErrInvalid},
		{"the tape is there", "full", list(nil, good...), tape.ErrNotEmpty},
		{"the name is none", "../a", list(nil, good...), tape.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := s.Import(t.Context(), c.tape, "", "", c.entries); !errors.Is(err, c.want) {
				t.Error(err)
			}
			if diff := cmp.Diff(before, files(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
	// What a crash left of an import is no tape, and in nobody's way.
	if err := os.WriteFile(filepath.Join(dir, "a.import"), []byte(strings.Repeat("rubbish", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Info(t.Context(), "a"); !errors.Is(err, tape.ErrNotFound) {
		t.Error(err)
	}
	if err := s.Import(t.Context(), "a", "", "", list(nil, good...)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 1", "2 2"}, texts(t, s, "a", tape.Query{})); diff != "" {
		t.Error(diff)
	}
	if slices.Contains(files(t, dir), "a.import") {
		t.Error("a.import is left")
	}
}

// AG-29: a blob is whole, or not there.
func TestABlobIsAFileOfTheTape(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, FolderOptions{})
	create(t, s, "a")
	handle, err := s.PutBlob(t.Context(), "a", []byte("0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	// One that a crash of the machine left empty is written again.
	if err := os.Truncate(filepath.Join(dir, "a+b+"+handle+".log"), 0); err != nil {
		t.Fatal(err)
	}
	if again, err := s.PutBlob(t.Context(), "a", []byte("0123456789")); err != nil || again != handle {
		t.Errorf("%q, %v", again, err)
	}
	data, size, err := s.ReadBlob(t.Context(), "a", handle, 3, 4)
	if string(data) != "3456" || size != 10 || err != nil {
		t.Errorf("%q of %d, %v", data, size, err)
	}
	for _, bad := range []string{"", "..", "../a.jsonl", strings.ToUpper(handle), handle[:10], handle + "00", handle + partEnd} {
		if _, _, err := s.ReadBlob(t.Context(), "a", bad, 0, 1); !errors.Is(err, tape.ErrNotFound) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	names := slices.DeleteFunc(files(t, dir), func(name string) bool { return !strings.Contains(name, handle) })
	if want := []string{"a+b+" + handle + ".index", "a+b+" + handle + ".log"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
