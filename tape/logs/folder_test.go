package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

var factory = tapetest.Factory{
	Open:    func(dir string) (tape.Store, error) { return OpenFolder(dir, FolderOptions{Sync: SyncNone}) },
	Durable: true,
	File:    func(dir, name string) string { return filepath.Join(dir, name+tapeEnd) },
	Index: func(dir, name string) []string {
		return []string{filepath.Join(dir, name+indexEnd), filepath.Join(dir, name+sessionEnd)}
	},
	OpenFull: func(dir string, room int64) (tape.Store, func(int64), error) {
		d, err := vfs.At(dir).Open()
		if err != nil {
			return nil, nil, err
		}
		full := &testDisk{Folder: d, room: room}
		return openOn(full, FolderOptions{Sync: SyncNone}), func(room int64) { full.set(func() { full.room = room }) }, nil
	},
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(envLease); dir != "" {
		holdLease(dir)
		return
	}
	tapetest.Main(m, factory)
}

func TestTheStoreKeepsWhatPackageTapeSaysOfStores(t *testing.T) {
	tapetest.Run(t, factory)
}

// open opens a store that is closed when the test ends.
func open(t testing.TB, dir string, o FolderOptions) *Store {
	t.Helper()
	s, err := OpenFolder(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// message is a user's message of this text.
func message(text string) tape.Entry { return tape.NewMessage("user", text) }

// create makes a tape of one entry.
func create(t testing.TB, s *Store, name string) {
	t.Helper()
	if _, err := s.Append(t.Context(), name, tape.Batch{Entries: []tape.Entry{message("first")}, Create: true}); err != nil {
		t.Fatal(err)
	}
}

// add appends a batch of these texts.
func add(t testing.TB, s *Store, name string, texts ...string) int64 {
	t.Helper()
	var b tape.Batch
	for _, text := range texts {
		b.Entries = append(b.Entries, message(text))
	}
	first, err := s.Append(t.Context(), name, b)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// texts are what q selects, "id text" each.
func texts(t testing.TB, s tape.Store, name string, q tape.Query) []string {
	t.Helper()
	var list []string
	for e, err := range s.Read(t.Context(), name, q) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, text(e))
	}
	return list
}

func text(e tape.Entry) string {
	if e.Kind == tape.KindAnchor {
		return fmt.Sprint(e.ID, " anchor ", tape.AnchorOf(e).Name)
	}
	p := string(e.Payload)
	_, p, _ = strings.Cut(p, `"content":"`)
	p, _, _ = strings.Cut(p, `"`)
	return fmt.Sprint(e.ID, " ", p)
}

func info(t testing.TB, s tape.Store, name string) tape.Info {
	t.Helper()
	i, err := s.Info(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// files are the names in a folder and below it.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != dir {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TA-60
func TestATapeIsAFileOfLinesThatOnlyItsOwnerReads(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, FolderOptions{})
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	e := message("天气?")
	e.Date = at
	if _, err := s.Append(t.Context(), "a", tape.Batch{Create: true, Entries: []tape.Entry{e}}); err != nil {
		t.Fatal(err)
	}
	two := []tape.Entry{tape.NewEvent("x", nil), tape.NewEvent("y", nil)}
	for i := range two {
		two[i].Date = at
	}
	if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: two}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "a.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	// TA-61: all lines of a batch but the last say that it goes on.
	want := `{"id":1,"kind":"message","payload":{"role":"user","content":"天气?"},"meta":{},"date":"2026-03-01T09:00:00.000000Z","crc":"9cf7247b"}
{"id":2,"kind":"event","payload":{"name":"x"},"meta":{},"date":"2026-03-01T09:00:00.000000Z","more":true,"crc":"34436a1e"}
{"id":3,"kind":"event","payload":{"name":"y"},"meta":{},"date":"2026-03-01T09:00:00.000000Z","crc":"9795d274"}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if _, err := s.PutBlob(t.Context(), "a", []byte("large")); err != nil {
		t.Fatal(err)
	}
	for _, name := range files(t, dir) {
		at, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if at.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, at.Mode())
		}
	}
}

// TA-63
func TestRecoveryKeepsWholeBatchesAndMovesTheRestAway(t *testing.T) {
	const (
		one  = `{"id":1,"kind":"message","payload":{"role":"user","content":"one"},"meta":{},"date":"2026-03-01T09:00:00.000000Z"}`
		two  = `{"id":2,"kind":"message","payload":{"role":"user","content":"two"},"meta":{},"date":"2026-03-01T09:00:00.000000Z"}`
		half = `{"id":2,"kind":"message","payload":{"role":"user","content":"two"},"meta":{},"date":"2026-03-01T09:00:00.000000Z","more":true}`
		end  = `{"id":3,"kind":"message","payload":{"role":"user","content":"three"},"meta":{},"date":"2026-03-01T09:00:00.000000Z"}`
	)
	zeros := strings.Repeat("\x00", 5000)
	for _, c := range []struct {
		name, tape string
		before     []string // what a reader sees
		after      []string // and after the next append of "new"
		torn       string
	}{
		{"nothing is wrong", one + "\n" + two + "\n", []string{"1 one", "2 two"}, []string{"1 one", "2 two", "3 new"}, ""},
		{"the last line feed is missing", one + "\n" + two, []string{"1 one"}, []string{"1 one", "2 two", "3 new"}, ""},
		{
			"the last line feed of a batch is missing", one + "\n" + half + "\n" + end,
			[]string{"1 one"},
			[]string{"1 one", "2 two", "3 three", "4 new"},
			"",
		},
		{"a line is cut", one + "\n" + two[:40], []string{"1 one"}, []string{"1 one", "2 new"}, two[:40]},
		{"a batch is not whole", one + "\n" + half + "\n", []string{"1 one"}, []string{"1 one", "2 new"}, half + "\n"},
		{"a batch lacks its last line, and a line feed", one + "\n" + half, []string{"1 one"}, []string{"1 one", "2 new"}, half},
		{"a batch is cut", one + "\n" + half + "\n" + end[:50], []string{"1 one"}, []string{"1 one", "2 new"}, half + "\n" + end[:50]},
		{"the disk left zeros", one + "\n" + zeros, []string{"1 one"}, []string{"1 one", "2 new"}, zeros},
		{"the last line is rubbish", one + "\nrubbish\n", []string{"1 one"}, []string{"1 one", "2 new"}, ""},
		{
			"the last line of a batch is rubbish", one + "\n" + half + "\nrubbish\n",
			[]string{"1 one", "2 two"},
			[]string{"1 one", "2 two", "3 new"},
			"",
		},
		{"the last id is not above", one + "\n" + one, []string{"1 one"}, []string{"1 one", "2 new"}, one},
		{"the last entry is another kind of JSON", one + "\n[2]", []string{"1 one"}, []string{"1 one", "2 new"}, "[2]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(c.tape), 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, dir, FolderOptions{})
			if diff := cmp.Diff(c.before, texts(t, s, "a", tape.Query{})); diff != "" {
				t.Error("before:", diff)
			}
			if again, err := os.ReadFile(filepath.Join(dir, "a.jsonl")); err != nil || string(again) != c.tape {
				t.Errorf("a reader has changed it: %v", err)
			}
			add(t, s, "a", "new")
			for _, q := range []tape.Query{{}, {Newest: true}} {
				got := texts(t, s, "a", q)
				if q.Newest {
					for i := range len(got) / 2 {
						got[i], got[len(got)-1-i] = got[len(got)-1-i], got[i]
					}
				}
				if diff := cmp.Diff(c.after, got); diff != "" {
					t.Error("after:", diff)
				}
			}
			torn, err := os.ReadFile(filepath.Join(dir, "a.torn"))
			if c.torn == "" && !errors.Is(err, fs.ErrNotExist) || string(torn) != c.torn {
				t.Errorf("torn is %q, %v", torn, err)
			}
		})
	}
}
