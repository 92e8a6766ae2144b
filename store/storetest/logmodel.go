package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/store"
)

// machine is a space of an engine, used by two processes, and what it must be like.
type machine struct {
	t       *testing.T
	place   Place
	o       store.LogOptions
	engines []store.Engine
	logs    []store.Log
	model   store.Log
	revs    map[store.Rev]store.Rev // of the engine: those of the model
	current map[string]store.Rev    // of the engine
	old     map[string][]store.Rev  // all that a name ever had
	last    map[string]store.Batch  // the batch that was written last
	trimmed map[string]uint64       // below it entries may be gone
	first   map[string]uint64       // below it they are gone
}

// testLogModel holds a space, used by two processes which begin anew at times, to the model.
func testLogModel(t *testing.T, s Setup) {
	place := s.New(t)
	engines := []store.Engine{place.Open(t), place.Open(t)}
	var drawn atomic.Int64
	rapid.Check(t, func(r *rapid.T) {
		model, _ := NewModel().Log(t.Context(), store.LogOptions{Space: "model"})
		m := &machine{
			t: t, place: place, engines: engines, logs: make([]store.Log, 2), model: model, revs: map[store.Rev]store.Rev{},
			current: map[string]store.Rev{}, old: map[string][]store.Rev{}, last: map[string]store.Batch{},
			trimmed: map[string]uint64{}, first: map[string]uint64{},
			o: store.LogOptions{Space: fmt.Sprint("model", drawn.Add(1)), Indexed: rapid.Bool().Draw(r, "indexed")},
		}
		for i, e := range engines {
			m.logs[i] = logs(t, e, m.o)
		}
		actions := map[string]func(*rapid.T){
			"append": m.append, "again": m.again, "info": m.info, "read": m.read,
			"delete": m.delete, "list": m.list, "reopen": m.reopen,
		}
		if !s.NoTrim {
			actions["trim"] = m.trim
		}
		r.Repeat(actions)
	})
}

func drawName(r *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "b/c", "b/c/d", "bc"}).Draw(r, "name")
}

// writer is the space as a process that may write to it has it.
func (m *machine) writer(r *rapid.T) store.Log {
	if !m.o.Indexed {
		return m.logs[0]
	}
	return m.reader(r)
}

func (m *machine) reader(r *rapid.T) store.Log {
	return m.logs[rapid.IntRange(0, 1).Draw(r, "process")]
}

func drawBatch(r *rapid.T, last uint64) store.Batch {
	b := store.Batch{ID: NewID()}
	for range rapid.IntRange(0, 4).Draw(r, "entries") {
		e := store.Entry{Mark: rapid.IntRange(0, 4).Draw(r, "mark") == 0, Data: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(r, "data")}
		if rapid.IntRange(0, 15).Draw(r, "large") == 0 {
			e.Data = bytes.Repeat(append(e.Data, '\n'), 9000)
		}
		if rapid.IntRange(0, 5).Draw(r, "given") == 0 {
			e.N = last + uint64(rapid.IntRange(0, 6).Draw(r, "number"))
		}
		last = max(last+1, e.N)
		b.Entries = append(b.Entries, e)
	}
	if rapid.Bool().Draw(r, "head") {
		b.Head = rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(r, "summary")
	}
	return b
}

// kind is what callers tell errors apart by.
func kind(err error) error {
	for _, kind := range []error{store.ErrMoved, store.ErrNotFound, store.ErrInvalid, store.ErrExpired, store.ErrDeleted} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return err
}

func (m *machine) append(r *rapid.T) {
	name := drawName(r)
	was, _ := m.model.Info(m.t.Context(), name)
	b := drawBatch(r, was.Last)
	b.After = m.current[name]
	switch after := rapid.IntRange(0, 9).Draw(r, "after"); {
	case after == 0:
		b.After = store.Any
	case after == 1:
		b.After = store.New
	case after == 2 && len(m.old[name]) > 0:
		b.After = rapid.SampledFrom(m.old[name]).Draw(r, "old")
	case after == 3:
		b.After = "x"
	}
	if b.After == store.New && rapid.Bool().Draw(r, "labelled") {
		b.Label = rapid.SampledFrom([]string{"red", "green"}).Draw(r, "label")
	}
	m.write(r, name, b)
}

func (m *machine) again(r *rapid.T) {
	name := drawName(r)
	if b, ok := m.last[name]; ok && b.After != store.Any {
		m.write(r, name, b)
	}
}

// write appends a batch to the engine and to the model, and compares their answers.
func (m *machine) write(r *rapid.T, name string, b store.Batch) {
	got, err := m.writer(r).Append(m.t.Context(), name, b)
	forModel := b
	if after, ok := m.revs[b.After]; ok {
		forModel.After = after
	}
	want, wantErr := m.model.Append(m.t.Context(), name, forModel)
	if kind(err) != kind(wantErr) {
		r.Fatalf("append %d entries after %q to %s, which has %q: %+v, %v, want %+v, %v",
			len(b.Entries), b.After, name, m.current[name], got, err, want, wantErr)
	}
	var moved *store.MovedLog
	if errors.As(err, &moved) && moved.Rev != m.current[name] {
		r.Fatalf("%s has moved to %q, want %q", name, moved.Rev, m.current[name])
	}
	if err != nil {
		return
	}
	was, known := m.revs[got.Rev]
	again := slices.Contains(slices.Collect(maps.Values(m.revs)), want.Rev)
	if known != again || known && was != want.Rev || got.Rev == store.New || got.Rev == store.Any {
		r.Fatalf("revision %q of %s", got.Rev, name)
	}
	if !known {
		m.revs[got.Rev], m.current[name], m.last[name] = want.Rev, got.Rev, b
		m.old[name] = append(m.old[name], got.Rev)
	}
	if !known || m.trimmed[name] == 0 { // the answer to a batch that is sent again may be as old as the batch
		m.compare(r, got, want)
	}
}

// entries returns all that were appended to a log.
func (m *machine) entries(name string) (entries []store.Entry) {
	for e, err := range m.model.Read(m.t.Context(), name, store.Range{}) {
		if err == nil {
			entries = append(entries, e)
		}
	}
	return entries
}

// begins returns the numbers with which a log may begin.
func (m *machine) begins(name string) []uint64 {
	all := m.entries(name)
	if len(all) == 0 {
		return []uint64{0}
	}
	var numbers []uint64
	for _, e := range append(all, store.Entry{N: all[len(all)-1].N + 1}) {
		if numbers = append(numbers, e.N); e.N >= m.trimmed[name] {
			break
		}
	}
	return numbers
}

// surely returns the lowest number that can surely be read of a log.
func (m *machine) surely(name string) uint64 {
	if m.trimmed[name] == 0 {
		return 0
	}
	return slices.Max(m.begins(name))
}

// compare compares what is known of a log. Below trimmed entries may be gone.
func (m *machine) compare(r *rapid.T, got, want store.Info) {
	name := want.Name
	all := m.entries(name)
	numbers := m.begins(name)
	if got.First < m.first[name] || !slices.Contains(numbers, got.First) {
		r.Fatalf("%s begins with %d; it began with %d and may begin with %d", name, got.First, m.first[name], numbers)
	}
	m.first[name] = got.First
	if m.trimmed[name] > 0 {
		want.First, want.Entries, want.Bytes, want.LastMark = got.First, 0, 0, 0
		for _, e := range all {
			if e.N < got.First {
				continue
			}
			want.Entries, want.Bytes = want.Entries+1, want.Bytes+int64(len(e.Data))
			if e.Mark {
				want.LastMark = e.N
			}
		}
	}
	want.Rev, want.Created, want.Updated = m.current[name], got.Created, got.Updated
	if !sameInfo(got, want) {
		r.Fatalf("%+v, want %+v", got, want)
	}
}

func (m *machine) info(r *rapid.T) {
	name := drawName(r)
	got, err := m.reader(r).Info(m.t.Context(), name)
	want, wantErr := m.model.Info(m.t.Context(), name)
	if kind(err) != kind(wantErr) {
		r.Fatalf("info of %s: %v, want %v", name, err, wantErr)
	}
	if err == nil {
		m.compare(r, got, want)
	}
}

// fits reports whether entries are those of a range in a log of which some may be gone.
func (m *machine) fits(name string, o store.Range, got []string) bool {
	all := m.entries(name)
	for begin := 0; begin <= len(all); begin++ {
		if begin > 0 && all[begin-1].N >= m.trimmed[name] {
			return false
		}
		var want []string
		for _, e := range Select(all[begin:], o) {
			want = append(want, show(e))
		}
		if slices.Equal(got, want) {
			return true
		}
	}
	return false
}

func (m *machine) read(r *rapid.T) {
	name := drawName(r)
	was, _ := m.model.Info(m.t.Context(), name)
	number := rapid.Uint64Range(0, was.Last+3)
	o := store.Range{
		From: number.Draw(r, "from"), Before: number.Draw(r, "before"), Newest: rapid.Bool().Draw(r, "newest"),
		Marks: rapid.IntRange(0, 3).Draw(r, "marks") == 0, Limit: rapid.IntRange(0, 5).Draw(r, "limit"),
	}
	got, err := tryRead(m.t.Context(), m.reader(r), name, o)
	switch {
	case was.Name == "":
		if kind(err) != store.ErrNotFound {
			r.Fatalf("read %s: %q, %v", name, got, err)
		}
	case errors.Is(err, store.ErrExpired):
		if o.From == 0 || o.From >= m.surely(name) || len(got) > 0 {
			r.Fatalf("read %+v of %s: %q, %v", o, name, got, err)
		}
	case err != nil || !m.fits(name, o, got):
		r.Fatalf("read %+v of %s: %q, %v, want of %+v", o, name, got, err, m.entries(name))
	}
}

func (m *machine) trim(r *rapid.T) {
	name := drawName(r)
	was, _ := m.model.Info(m.t.Context(), name)
	below := rapid.Uint64Range(0, was.Last+2).Draw(r, "below")
	if err := m.writer(r).Trim(m.t.Context(), name, below); err != nil {
		r.Fatalf("trim: %v", err)
	}
	if was.Entries > 0 && below > was.First {
		m.trimmed[name] = max(m.trimmed[name], min(below, was.Last+1))
	}
}

func (m *machine) delete(r *rapid.T) {
	if rapid.IntRange(0, 2).Draw(r, "really") > 0 {
		return
	}
	name := drawName(r)
	if err := m.writer(r).Delete(m.t.Context(), name); err != nil {
		r.Fatalf("delete %s: %v", name, err)
	}
	_ = m.model.Delete(m.t.Context(), name)
	for other := range m.old {
		if other == name || strings.HasPrefix(other, name+"/") {
			delete(m.current, other)
			delete(m.last, other)
			delete(m.trimmed, other)
			delete(m.first, other)
		}
	}
}

func (m *machine) list(r *rapid.T) {
	if !m.o.Indexed {
		return
	}
	l := m.reader(r)
	o := store.Listing{
		Prefix: rapid.SampledFrom([]string{"", "b", "b/", "x"}).Draw(r, "prefix"), Label: rapid.SampledFrom([]string{"", "red"}).Draw(r, "label"),
	}
	all := list(m.t, l, o)
	var want []string
	for info := range m.model.List(m.t.Context(), o) {
		want = append(want, info.Name)
	}
	got := names(all)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || !slices.IsSortedFunc(all, CompareInfos) {
		r.Fatalf("list %+v: %q, want %q", o, names(all), want)
	}
	for _, info := range all {
		want, _ := m.model.Info(m.t.Context(), info.Name)
		m.compare(r, info, want)
	}
	if n, err := l.Count(m.t.Context(), o.Prefix); err != nil || o.Label == "" && n != len(all) {
		r.Fatalf("%d logs below %q, %v, want %d", n, o.Prefix, err, len(all))
	}
	if len(all) > 0 {
		at := rapid.IntRange(0, len(all)-1).Draw(r, "after")
		o.After, o.Limit = all[at], rapid.IntRange(0, 3).Draw(r, "limit")
		rest := all[at+1:]
		if o.Limit > 0 {
			rest = rest[:min(o.Limit, len(rest))]
		}
		if got := list(m.t, l, o); !slices.Equal(names(got), names(rest)) {
			r.Fatalf("list %+v: %q, want %q", o, names(got), names(rest))
		}
	}
}

// reopen ends a process, and begins another.
func (m *machine) reopen(r *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(r, "process")
	if err := m.engines[i].Close(); err != nil {
		r.Fatalf("close: %v", err)
	}
	m.engines[i] = m.place.Open(m.t)
	m.logs[i] = logs(m.t, m.engines[i], m.o)
}
