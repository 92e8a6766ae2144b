package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/crcline"
	"github.com/lingserve/lingserve/tape"
)

// readLog is what a store says while a tape is read, and the entries.
func readLog(t testing.TB, dir string, q tape.Query) (said string, entries []string) {
	t.Helper()
	var log bytes.Buffer
	s, err := OpenFolder(dir, FolderOptions{Sync: SyncNone, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for e, err := range s.Read(t.Context(), "a", q) {
		if errors.Is(err, tape.ErrNotFound) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, string(e.AppendJSON(nil)))
	}
	return log.String(), entries
}

// written is a line as it was written.
type written struct {
	offset, end int64
	entry       string
	ends        bool // its batch
}

func linesOf(t testing.TB, text []byte) (list []written) {
	t.Helper()
	at := int64(0)
	for line := range bytes.Lines(text) {
		e, err := lines{}.ParseLine(bytes.Clone(bytes.TrimSuffix(line, []byte("\n"))))
		if err != nil {
			t.Fatal(err)
		}
		end := at + int64(len(line))
		list = append(list, written{at, end, string(e.Data), !e.More})
		at = end
	}
	return list
}

// drawTape writes the tape "a": with ids that rise by one, or of an import whose ids have gaps.
func drawTape(r *rapid.T, ctx context.Context, s *Store) error {
	text := rapid.SampledFrom([]string{"", "word", strings.Repeat("天气", 200), `{"id":7,"crc":"00000000"}`, `,"crc":"`, "\n", strings.Repeat("x", 5000)})
	draw := func() tape.Entry {
		switch rapid.IntRange(0, 5).Draw(r, "kind") {
		case 0:
			return tape.NewAnchor("phase", text.Draw(r, "state"))
		case 1:
			return tape.NewEvent("e", map[string]any{"id": 7, "crc": text.Draw(r, "data")})
		}
		return tape.NewMessage("user", text.Draw(r, "text"))
	}
	if rapid.Bool().Draw(r, "import") {
		id := int64(0)
		err := s.Import(ctx, "a", "chat:1", "/srv", func(yield func(tape.Entry, error) bool) {
			for range rapid.IntRange(1, 8).Draw(r, "entries") {
				e := draw()
				id += rapid.Int64Range(1, 3).Draw(r, "gap")
				if e.ID = id; !yield(e, nil) {
					return
				}
			}
		})
		if err != nil {
			return err
		}
	}
	for i := range rapid.IntRange(1, 8).Draw(r, "batches") {
		var b tape.Batch
		for range rapid.IntRange(1, 3).Draw(r, "entries") {
			b.Entries = append(b.Entries, draw())
		}
		_, err := s.Append(ctx, "a", b)
		if i == 0 && errors.Is(err, tape.ErrNotFound) {
			b.Create = true
			_, err = s.Append(ctx, "a", b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drawDamage changes a text. inPlace says that what is not changed is where it was, and first and last bound the change in the text
// before it.
func drawDamage(r *rapid.T, old []byte) (text []byte, kind string, first, last int) {
	at := func(label string, n int) int { return rapid.IntRange(0, n).Draw(r, label) }
	text = bytes.Clone(old)
	first = at("offset", len(old)-1)
	last = min(len(old), first+1+rapid.SampledFrom([]int{0, 0, 1, 10, 100, 400, 1 << 20}).Draw(r, "size"))
	size := last - first
	other := at("other", len(old)-size)
	kind = rapid.SampledFrom([]string{"flip", "zero", "cut", "cut lines", "insert", "copy over", "swap", "end"}).Draw(r, "damage")
	switch kind {
	case "flip":
		last = first + 1
		text[first] ^= 1 << at("bit", 7)
	case "zero":
		clear(text[first:last])
	case "cut lines":
		first = bytes.LastIndexByte(old[:first], '\n') + 1
		last += bytes.IndexByte(append(old[last-1:len(old):len(old)], '\n'), '\n')
		last = min(last, len(old))
		fallthrough
	case "cut":
		text = slices.Delete(text, first, last)
	case "insert":
		text = slices.Insert(text, other, old[first:last]...)
		first, last = other, other
	case "copy over":
		copy(text[other:], old[first:last])
		first, last = other, other+size
	case "swap":
		copy(text[other:], old[first:last])
		copy(text[first:], old[other:other+size])
		first, last = min(first, other), max(first, other)+size
	case "end":
		text, last = text[:first], len(old)
	}
	return text, kind, first, last
}

// DO-06: whatever bytes of a tape are flipped, zeroed, cut out, cut off, repeated or swapped, reading says so; what is
// read was written, and of what was not damaged nothing is missing: neither forwards nor backwards, nor after the next append.
//
// One change is like what the end of a machine may leave: a tape that ends earlier, and whose index is gone. Where it ends in a part of a
// batch, the next append moves that away and says so. The end of a tape that has no line feed is such a part, if there is no index.
func TestDO_06_EachDamageOfATapeIsFoundAndCostsNothingElse(t *testing.T) {
	root := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		dir := filepath.Join(root, fmt.Sprint(n))
		path := filepath.Join(dir, "a.jsonl")
		s, err := OpenFolder(dir, FolderOptions{Sync: SyncNone})
		if err == nil {
			err = errors.Join(drawTape(r, t.Context(), s), s.Close())
		}
		if err != nil {
			r.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if said, _ := readLog(t, dir, tape.Query{}); said != "" {
			r.Fatalf("nothing is damaged: %q", said)
		}
		old, err := os.ReadFile(path)
		if err != nil {
			r.Fatal(err)
		}
		text, kind, first, last := drawDamage(r, old)
		if bytes.Equal(old, text) {
			return
		}
		err = os.WriteFile(path, text, 0o600)
		index := rapid.Bool().Draw(r, "index")
		if !index {
			err = errors.Join(err, os.Remove(filepath.Join(dir, "a.index")))
		}
		if err != nil {
			r.Fatal(err)
		}
		var must, all []string
		whole, almost := len(text) == 0, false // it ends with a batch, or with one but for its line feed
		ended := 0                             // of must, up to the last batch whose end is there
		for _, line := range linesOf(t, old) {
			all = append(all, line.entry)
			from, to := int(line.offset), int(line.end)
			intact := to <= first || from >= last
			if kind == "swap" && to <= len(text) {
				intact = bytes.Equal(old[from:to], text[from:to])
			}
			if intact {
				must = append(must, line.entry)
			}
			if intact && line.ends {
				ended = len(must)
			}
			whole = whole || line.ends && to == len(text)
			almost = almost || line.ends && to-1 == len(text)
		}
		shorter := bytes.HasPrefix(old, text)
		if shorter || !bytes.HasSuffix(text, []byte("\n")) {
			must = must[:ended] // a batch that is cut off is not seen
		}
		look := func(q tape.Query, extra int) (said string, got []string) {
			said, got = readLog(t, dir, q)
			if q.Newest {
				slices.Reverse(got)
			}
			for _, e := range got[:len(got)-extra] {
				if !slices.Contains(all, e) {
					r.Fatalf("nobody has written %s", e)
				}
			}
			for _, e := range must {
				if kind == "swap" && len(got) >= len(must) { // the middle may be smaller than what was put in the places around it
					break
				}
				if !slices.Contains(got, e) {
					r.Fatalf("%s of %d–%d: %.90s is not damaged, and missing with %+v", kind, first, last, e, q)
				}
			}
			return said, got
		}
		said, got := look(tape.Query{}, 0)
		if !strings.Contains(said, "is damaged") && (index || bytes.HasSuffix(text, []byte("\n")) && !shorter) {
			r.Fatalf("%s of %d–%d: the log says nothing: %q", kind, first, last, said)
		}
		if _, back := look(tape.Query{Newest: true}, 0); !slices.Equal(got, back) {
			r.Fatalf("%s: backwards: %s", kind, cmp.Diff(got, back))
		}
		var log bytes.Buffer
		s, err = OpenFolder(dir, FolderOptions{Sync: SyncNone, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			r.Fatal(err)
		}
		next := tape.Batch{Entries: []tape.Entry{message("new")}}
		if _, err = s.Append(t.Context(), "a", next); errors.Is(err, tape.ErrNotFound) {
			next.Create = true
			_, err = s.Append(t.Context(), "a", next)
		}
		if err = errors.Join(err, s.Close()); err != nil {
			r.Fatal(err)
		}
		if said += log.String(); said == "" && !(shorter && (whole || almost)) {
			r.Fatalf("%s of %d–%d: the log says nothing, not even when something is appended", kind, first, last)
		}
		for _, q := range []tape.Query{{}, {Newest: true}} {
			if _, after := look(q, 1); len(after) <= len(got) || !strings.Contains(after[len(after)-1], `"new"`) {
				r.Fatalf("%s of %d–%d: before %q, after an append %q", kind, first, last, got, after)
			}
		}
	})
}

// DO-06: lines without checksums, as people write them, are read as they are; lines written behind them have checksums.
func TestDO_06_LinesWithoutChecksumsAreRead(t *testing.T) {
	const line = `{"id":%d,"kind":"message","payload":{"role":"user","content":"%d"},"meta":{},"date":"2026-03-01T09:00:00.000000Z"}` + "\n"
	dir := t.TempDir()
	old := fmt.Sprintf(line, 3, 3) + fmt.Sprintf(strings.Replace(line, "}\n", `,"more":true}`+"\n", 1), 7, 7) + fmt.Sprintf(line, 8, 8)
	path := filepath.Join(dir, "a.jsonl")
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, FolderOptions{})
	add(t, s, "a", "nine", "ten")
	if diff := cmp.Diff([]string{"3 3", "7 7", "8 8", "9 nine", "10 ten"}, texts(t, s, "a", tape.Query{})); diff != "" {
		t.Error(diff)
	}
	text, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(text, []byte(old)) {
		t.Fatalf("%s, %v", text, err)
	}
	for line := range bytes.Lines(text[len(old):]) {
		if _, summed, matches := crcline.Cut(bytes.TrimSuffix(line, []byte("\n"))); !summed || !matches || !json.Valid(line) {
			t.Errorf("%s", line)
		}
	}
}

// DO-06: a blob is compared with its name when it is read, and written again where the same is kept once more.
func TestDO_06_ABlobThatIsDamagedIsNotReadAndCanBeWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	s := open(t, dir, FolderOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	create(t, s, "a")
	data := []byte("what a tool has returned")
	handle, err := s.PutBlob(t.Context(), "a", data)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a+b+"+handle+".log")
	bad, err := os.ReadFile(path)
	if err == nil {
		bad[bytes.Index(bad, data)+20] ^= 1
		err = os.WriteFile(path, bad, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.ReadBlob(t.Context(), "a", handle, 0, 4); !errors.Is(err, tape.ErrDamaged) || got != nil {
		t.Errorf("%q, %v", got, err)
	}
	if !strings.Contains(log.String(), handle) {
		t.Errorf("the log lacks it: %s", log.String())
	}
	if _, err := s.PutBlob(t.Context(), "a", data); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.ReadBlob(t.Context(), "a", handle, 0, 4); err != nil || string(got) != "what" {
		t.Errorf("%q, %v", got, err)
	}
}
