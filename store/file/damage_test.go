package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/store/storetest"
)

// DO-06: whatever bytes of a table are flipped, zeroed, overwritten, cut out or cut off, no record is read that was not written, each record
// whose frame is unchanged at its place is read.
func TestDO_06_EachDamageOfATableIsFoundAndCostsNothingElse(t *testing.T) { // ST-15
	root := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		dir := filepath.Join(root, fmt.Sprint(n))
		defer os.RemoveAll(dir)
		open := func(log *slog.Logger) (*file.Engine, store.Table) {
			e, err := file.Open(vfs.At(dir), file.Options{Log: log})
			if err != nil {
				r.Fatal(err)
			}
			tab, err := e.Table(t.Context(), store.TableOptions{Name: "t"})
			if err != nil {
				_ = e.Close()
				return nil, nil
			}
			return e, tab
		}
		path := filepath.Join(dir, "t.table")
		e, tab := open(nil)
		type place struct{ first, last int }
		frames := map[string]place{}
		for i := range rapid.IntRange(1, 12).Draw(r, "records") {
			before, err := os.Stat(path)
			if err != nil {
				r.Fatal(err)
			}
			body := fmt.Sprint(i, " ", strings.Repeat("x", rapid.SampledFrom([]int{0, 10, 100, 1000}).Draw(r, "long")))
			if _, errs := tab.Put(t.Context(), store.Put{Key: fmt.Sprint("k", i), ID: storetest.NewID(), Body: []byte(body)}); errs[0] != nil {
				r.Fatal(errs[0])
			}
			after, err := os.Stat(path)
			if err != nil {
				r.Fatal(err)
			}
			frames[body] = place{int(before.Size()), int(after.Size())}
		}
		if err := e.Close(); err != nil {
			r.Fatal(err)
		}
		old, err := os.ReadFile(path)
		if err != nil {
			r.Fatal(err)
		}
		d := vfstest.DrawDamage(r, old)
		if err := os.WriteFile(path, d.Text, 0o600); err != nil {
			r.Fatal(err)
		}
		what := fmt.Sprintf("%s of %d–%d", d.Kind, d.First, d.Last)
		var said bytes.Buffer
		e, tab = open(slog.New(slog.NewTextHandler(&said, nil)))
		if e == nil { // its head is damaged
			return
		}
		defer e.Close()
		for body, at := range frames {
			key, _, _ := strings.Cut(body, " ")
			rec, err := tab.Get(t.Context(), "k"+key)
			switch {
			case err == nil && string(rec.Body) != body:
				r.Fatalf("%s: %s is %q", what, key, rec.Body)
			case err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrDamaged):
				r.Fatalf("%s: %s: %v", what, key, err)
			case err != nil && d.Keeps(old, at.first, at.last):
				r.Fatalf("%s: %s is unchanged, and %v", what, key, err)
			}
		}
	})
}
