package logs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tape"
)

// Whatever lies in a file: reading it does not panic and changes nothing, the same comes backwards as forwards, the next append
// works, what a reader saw before is there after it, and nothing of the file is lost.
func FuzzTape(f *testing.F) {
	one := appendLine(nil, tape.Entry{ID: 1, Kind: "message", Payload: message("one").Payload}, 0, false)
	two := appendLine(nil, tape.Entry{ID: 2, Kind: "anchor", Payload: tape.NewAnchor("n", 1).Payload}, 1, true)
	three := appendLine(nil, tape.Entry{ID: 3, Kind: "x", Payload: []byte(`{"more":true}`)}, 2, false)
	for _, parts := range [][][]byte{
		{one},
		{one, two, three},
		{one, two},
		{one, three, two},
		{one, one},
		{one, []byte("\n"), two, three},
		{[]byte("{}\n"), one},
		{one, two, three[:20]},
		{one, two, three[:len(three)-1]},
		{bytes.Repeat([]byte{0}, 100)},
		{[]byte(",\"more\":true}\n")},
	} {
		f.Add(bytes.Join(parts, nil), []byte{})
	}
	f.Fuzz(func(t *testing.T, text, index []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.jsonl")
		for name, content := range map[string][]byte{"a.jsonl": text, "a.index": index} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, dir, FolderOptions{Sync: SyncNone})
		lines := func(q tape.Query) (list []string) {
			for e, err := range s.Read(t.Context(), "a", q) {
				if err == nil {
					list = append(list, string(e.AppendJSON(nil)))
				}
			}
			return list
		}
		before := lines(tape.Query{})
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
			t.Fatalf("a reader has changed the tape: %q, %v", now, err)
		}
		i, err := s.Info(t.Context(), "a")
		if (err == nil) != (len(before) > 0) || i.Entries != int64(len(before)) {
			t.Fatalf("%+v, %v, but there are %q", i, err, before)
		}
		first, err := s.Append(t.Context(), "a", tape.Batch{Create: len(before) == 0, Entries: []tape.Entry{message("new")}})
		if i.LastID == 1<<63-1 {
			return // there is no id above
		}
		if err != nil {
			if len(before) == 0 { // one line without a line feed is a tape for who writes
				first, err = s.Append(t.Context(), "a", tape.Batch{Entries: []tape.Entry{message("new")}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		after := lines(tape.Query{})
		if len(after) <= len(before) {
			t.Fatalf("before %q, after %q", before, after)
		}
		for n, line := range before {
			if after[n] != line {
				t.Fatalf("%s became %s", line, after[n])
			}
		}
		last := int64(0)
		for e, err := range s.Read(t.Context(), "a", tape.Query{}) {
			if err != nil || e.ID <= last {
				t.Fatalf("%d follows %d, %v", e.ID, last, err)
			}
			last = e.ID
		}
		if last != first {
			t.Fatalf("the new id is %d, the last one %d", first, last)
		}
		back := lines(tape.Query{Newest: true})
		for n := range back {
			if back[n] != after[len(after)-1-n] {
				t.Fatalf("backwards: %q, forwards %q", back, after)
			}
		}
		// Of what was there, each byte is on the tape or in the file of what was torn.
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		torn, _ := os.ReadFile(filepath.Join(dir, "a.torn"))
		if kept := len(text) - len(torn); !bytes.HasPrefix(now, text[:kept]) || !bytes.Equal(torn, text[kept:]) {
			t.Fatalf("the tape is %q, torn %q", now, torn)
		}
		again := open(t, dir, FolderOptions{Sync: SyncNone})
		if was, is := info(t, s, "a"), info(t, again, "a"); was != is {
			t.Fatalf("%+v, opened again %+v", was, is)
		}
	})
}

// Nothing that lies in an index makes a wrong answer; see FuzzTape for what lies in a tape.
func FuzzIndex(f *testing.F) {
	dir := f.TempDir()
	s := open(f, dir, FolderOptions{Sync: SyncNone})
	anchored(f, s, "a")
	text, err := os.ReadFile(filepath.Join(dir, "a.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(dir, "a.index"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(index, 0, byte(0))
	f.Add(index[:300], 150, byte(7))
	f.Add([]byte{}, 0, byte(0))
	f.Fuzz(func(t *testing.T, index []byte, at int, change byte) {
		if len(index) > 0 {
			index = bytes.Clone(index)
			index[uint(at)%uint(len(index))] ^= change
		}
		dir := t.TempDir()
		for name, content := range map[string][]byte{"a.jsonl": text, "a.index": index} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(answers(t, s, "a"), answers(t, open(t, dir, FolderOptions{}), "a")); diff != "" {
			t.Fatal(diff)
		}
	})
}
