package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/store/storetest"
)

func appendTo(t testing.TB, l store.Log, name string, entries ...store.Entry) store.Info {
	t.Helper()
	info, err := l.Append(t.Context(), name, store.Batch{ID: storetest.NewID(), After: store.Any, Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestDamageHidesNoOtherEntry changes a log at random: what was not changed is read, in the order of the numbers, and the next batch is
// taken (ST-15).
func TestDamageHidesNoOtherEntry(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		disk := vfstest.New()
		o := store.LogOptions{Space: "s", Indexed: rapid.Bool().Draw(r, "indexed")}
		e, err := file.Open(disk.Dir, file.Options{})
		if err != nil {
			r.Fatal(err)
		}
		l, err := e.Log(t.Context(), o)
		if err != nil {
			r.Fatal(err)
		}
		type place struct{ from, to int }
		var places []place
		size := 0
		for i := range 8 {
			appendTo(t, l, "k", store.Entry{Data: fmt.Appendf(nil, "entry %d\n", i+1)})
			text := read(t, disk, "s.logs/k.log")
			at := size + bytes.Index(text[size:], []byte("entry"))
			at = bytes.LastIndexByte(text[:at], '\n') + 1
			places = append(places, place{at, at + bytes.IndexByte(text[at:], '\n') + 1})
			size = len(text)
		}
		if err := e.Close(); err != nil {
			r.Fatal(err)
		}
		text := read(t, disk, "s.logs/k.log")
		d := vfstest.DrawDamage(r, text[:places[6].from])
		changed := slices.Clone(d.Text)
		shift := len(d.Text) - places[6].from
		write(t, disk, "s.logs/k.log", append(changed, text[places[6].from:]...))
		e, err = file.Open(disk.Dir, file.Options{})
		if err != nil {
			r.Fatal(err)
		}
		defer e.Close()
		if l, err = e.Log(t.Context(), o); err != nil {
			r.Fatal(err)
		}
		for _, newest := range []bool{false, true} {
			got := map[uint64]string{}
			last := uint64(0)
			for e, err := range l.Read(context.Background(), "k", store.Range{Newest: newest}) {
				if err != nil && !errors.Is(err, store.ErrDamaged) {
					r.Fatalf("%+v: %v", d, err)
				}
				if last != 0 && (e.N <= last) != newest || e.N == 0 {
					r.Fatalf("%+v: entry %d behind %d", d, e.N, last)
				}
				last = e.N
				if err == nil {
					got[e.N] = string(e.Data)
				}
			}
			for i, p := range places {
				whole := i >= 7 || i == 6 && bytes.HasSuffix(d.Text, []byte("\n")) ||
					shift == 0 && d.Keeps(text, p.from-min(1, p.from), p.to) && d.Keeps(text, 0, 1)
				if want := fmt.Sprintf("entry %d\n", i+1); whole && got[uint64(i+1)] != want || got[uint64(i+1)] != "" && got[uint64(i+1)] != want {
					r.Fatalf("%s from %d to %d: entry %d is %q", d.Kind, d.First, d.Last, i+1, got[uint64(i+1)])
				}
			}
		}
		b := store.Batch{ID: storetest.NewID(), After: store.Any, Entries: []store.Entry{{Data: []byte("next")}}}
		info, err := l.Append(t.Context(), "k", b)
		if err != nil || info.Last != 9 {
			r.Fatalf("%+v, %v", info, err)
		}
	})
}
