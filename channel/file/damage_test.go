package file_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel/file"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
)

// DO-06: whatever bytes of a segment are flipped, zeroed, overwritten, cut out or cut off, Check and the log name the segment, and each event
// whose record is unchanged at its place is still there.
//
// No check can see that whole records are missing, for nothing counts them. Zeros between records, and in their heads, have no checksum and say
// nothing.
func TestDO_06_EachDamageOfAJournalIsFoundAndCostsNothingElse(t *testing.T) {
	root := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		dir := filepath.Join(root, fmt.Sprint(n))
		defer os.RemoveAll(dir)
		j := open(t, dir, file.JournalOptions{})
		events := rapid.IntRange(1, 12).Draw(r, "events")
		for i := range events {
			accept(t, j, key(i), fmt.Sprint(i, " ", strings.Repeat("x", rapid.SampledFrom([]int{0, 10, 100, 1000}).Draw(r, "long"))))
		}
		all := pending(t, j)
		for i := range rapid.IntRange(0, events-1).Draw(r, "settled") {
			settle(t, j, key(i))
		}
		j.Abandon()
		paths, err := filepath.Glob(filepath.Join(dir, "*.events"))
		if err != nil || len(paths) != 1 {
			r.Fatalf("%q, %v", paths, err)
		}
		old, err := os.ReadFile(paths[0])
		if err != nil {
			r.Fatal(err)
		}
		d := vfstest.DrawDamage(r, old)
		if err := os.WriteFile(paths[0], d.Text, 0o600); err != nil {
			r.Fatal(err)
		}
		name := filepath.Base(paths[0])
		visible := false
		var must []string
		var records [][]byte
		file.Scan(old, func(offset, size int, again, raw []byte, _ bool) {
			const zeros = 40 // of the head, up to 48
			payload := offset + 48 + bytes.Index(old[offset+48:offset+size], raw) + len(raw)
			records = append(records, old[offset:min(offset+size, len(old))])
			kept := d.Keeps(old, offset, min(offset+size, len(old)))
			switch {
			case len(d.Text) < len(old):
				visible = visible || offset < d.First && d.First < payload
			default:
				visible = visible || !d.Keeps(old, offset, offset+zeros) || !d.Keeps(old, offset+48, payload)
			}
			if kept && slices.Contains(all, string(raw)) {
				must = append(must, string(raw))
			}
		})
		if consistsOf(d.Text, records) { // a cut that begins and ends in the same bytes of two records takes out whole ones
			visible = false
		}
		var list []string
		if _, err := file.Check(dir, func(file string, offset int64, what string) {
			list = append(list, fmt.Sprint(file, ":", offset, ": ", what))
		}); err != nil {
			r.Fatal(err)
		}
		var said bytes.Buffer
		next := open(t, dir, file.JournalOptions{Log: slog.New(slog.NewTextHandler(&said, nil))})
		left := pending(t, next)
		next.Abandon()
		what := fmt.Sprintf("%s of %d–%d", d.Kind, d.First, d.Last)
		for _, raw := range left {
			if !slices.Contains(all, raw) {
				r.Fatalf("%s: nobody has accepted %q", what, raw)
			}
		}
		for _, raw := range must {
			var i int
			if _, err := fmt.Sscan(raw, &i); err != nil {
				r.Fatal(err)
			}
			if state, err := next.Peek(t.Context(), key(i)); err == nil && state == "" && !slices.Contains(left, raw) {
				r.Fatalf("%s: %q is missing", what, raw)
			}
		}
		if visible && (len(list) == 0 || !strings.HasPrefix(list[0], name) || !strings.Contains(said.String(), name)) {
			r.Fatalf("%s: Check says %q, the log %q", what, list, said.String())
		}
	})
}

// consistsOf says whether a text is some of the pieces, one behind another.
func consistsOf(text []byte, pieces [][]byte) bool {
	for len(text) > 0 {
		i := slices.IndexFunc(pieces, func(p []byte) bool { return bytes.HasPrefix(text, p) })
		if i < 0 {
			return false
		}
		text = text[len(pieces[i]):]
	}
	return true
}
