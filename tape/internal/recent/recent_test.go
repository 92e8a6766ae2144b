package recent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/tape"
)

// model lists the sessions as tape.Page does, which sorts all of them.
func model(m map[string]Session[int], q tape.SessionQuery) (page []Session[int]) {
	var infos []tape.Info
	for _, s := range m {
		infos = append(infos, tape.Info{Tape: s.Tape, Session: s.Session, Workspace: s.Workspace, Updated: time.UnixMicro(s.Updated)})
	}
	for i := range tape.Page(infos, q) {
		page = append(page, m[i.Tape])
	}
	return page
}

// check reports what is wrong with the lists.
func (x *Index[V]) check() error {
	sum := 0
	for _, s := range x.spaces {
		sum += s.rows
		for _, l := range []*list[V]{&s.all, &s.groups} {
			if err := l.check(); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	if sum != len(x.rows) {
		return fmt.Errorf("the workspaces have %d rows, the index has %d", sum, len(x.rows))
	}
	return x.all.check()
}

func (l *list[V]) check() error {
	var rows []*row[V]
	for i, b := range l.blocks {
		if len(b) == 0 || len(b) > blockMost {
			return fmt.Errorf("block %d has %d rows", i, len(b))
		}
		rows = append(rows, b...)
	}
	if len(l.blocks) > 2+4*len(rows)/blockMost {
		return fmt.Errorf("%d blocks for %d rows", len(l.blocks), len(rows))
	}
	if !slices.IsSortedFunc(rows, l.order) {
		return fmt.Errorf("%d rows are out of order", len(rows))
	}
	return nil
}

// DO-03
func TestPagesAreThoseOfAListThatIsSortedAnew(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var x Index[int]
		m := map[string]Session[int]{}
		n := 0
		names := rapid.SampledFrom([]int{5, 50, 2000}).Draw(r, "names")
		put := func(r *rapid.T, date *rapid.Generator[int64]) {
			i := rapid.IntRange(0, names).Draw(r, "name")
			n++
			s := Session[int]{
				Tape: fmt.Sprint("t", i), Session: []string{"", "a", "web:x#", "web:xy#", "web:x", "web:x#1#"}[i%6] + fmt.Sprint(i), Workspace: fmt.Sprint("/w", i%3),
				Updated: date.Draw(r, "date"), Value: n,
			}
			if rapid.IntRange(0, 20).Draw(r, "another session") == 0 {
				s.Session, s.Workspace = "web:x#other", "/other"
			}
			x.Put(s)
			m[s.Tape] = s
		}
		r.Repeat(map[string]func(*rapid.T){
			"put": func(r *rapid.T) { put(r, rapid.Int64Range(0, 20)) },
			"many": func(r *rapid.T) {
				for range rapid.IntRange(1, 50).Draw(r, "many") {
					put(r, rapid.Int64Range(-6e16, 2e17)) // of the years 1 to 9999
				}
			},
			"delete": func(r *rapid.T) {
				name := fmt.Sprint("t", rapid.IntRange(0, names).Draw(r, "name"))
				x.Delete(name)
				delete(m, name)
			},
			"list": func(r *rapid.T) {
				q := tape.SessionQuery{
					Workspace: rapid.SampledFrom([]string{"", "/w0", "/w1", "/none"}).Draw(r, "workspace"),
					Prefix:    rapid.SampledFrom([]string{"", "a", "web:x", "web:x#", "web:xy#", "web:x#1", "web:z#", "#"}).Draw(r, "prefix"),
					Limit:     rapid.IntRange(0, 7).Draw(r, "limit"),
				}
				for {
					last, err := q.Last()
					if err != nil {
						r.Fatal(err)
					}
					want, got := model(m, q), x.Page(q, last, q.Limit)
					if diff := cmp.Diff(want, got); diff != "" {
						r.Fatalf("%+v (-want +got):\n%s", q, diff)
					}
					if len(got) == 0 || q.Limit == 0 || rapid.IntRange(0, 9).Draw(r, "stop") == 0 {
						break
					}
					end := got[len(got)-1]
					q.After = tape.Info{Tape: end.Tape, Updated: time.UnixMicro(end.Updated)}.Cursor()
				}
				if err := x.check(); err != nil {
					r.Fatal(err)
				}
			},
			"": func(r *rapid.T) {
				if x.Len() != len(m) {
					r.Fatalf("%d sessions, want %d", x.Len(), len(m))
				}
				for name := range m {
					if s, ok := x.Get(name); !ok || s != m[name] {
						r.Fatalf("%s is %+v, want %+v", name, s, m[name])
					}
					return // one of them
				}
			},
		})
	})
}

func TestListsStayDenseWhileSessionsMove(t *testing.T) {
	const sessions = 20_000
	var x Index[struct{}]
	for i := range sessions {
		x.Put(Session[struct{}]{Tape: fmt.Sprintf("%05d", i), Session: fmt.Sprintf("web:%d#s", i%100), Workspace: "/w", Updated: int64(i)})
	}
	x.Page(tape.SessionQuery{}, tape.Info{}, 1)
	for i := range 5 * sessions { // to the front, in an order that has nothing to do with the one before
		n := i * 7919 % sessions
		x.Put(Session[struct{}]{Tape: fmt.Sprintf("%05d", n), Session: fmt.Sprintf("web:%d#s", n%100), Workspace: "/w", Updated: int64(sessions + i)})
	}
	if page := x.Page(tape.SessionQuery{}, tape.Info{}, 0); len(page) != sessions || page[0].Updated != 6*sessions-1 {
		t.Errorf("%d sessions, the first of %d", len(page), page[0].Updated)
	}
	if err := x.check(); err != nil {
		t.Error(err)
	}
	for i := range sessions {
		x.Delete(fmt.Sprintf("%05d", i))
	}
	if x.Len() != 0 || len(x.spaces) != 0 || len(x.all.blocks) != 0 {
		t.Errorf("%d sessions, %d workspaces and %d blocks are left", x.Len(), len(x.spaces), len(x.all.blocks))
	}
}

func TestAnIndexKeepsNoStringOfTheCaller(t *testing.T) {
	var x Index[struct{}]
	buffer := strings.Repeat("x", 1<<20)
	x.Put(Session[struct{}]{Tape: buffer[:10], Workspace: buffer[:20]})
	x.Put(Session[struct{}]{Tape: buffer[:10], Workspace: buffer[:20], Updated: 1})
	for name, r := range x.rows {
		if len(name) != 10 || len(r.text) != 10 || r.space.name != buffer[:20] {
			t.Errorf("%q is %+v", name, r)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	const sessions = 100_000
	var x Index[struct{}]
	all := make([]Session[struct{}], sessions)
	for i := range all {
		all[i] = Session[struct{}]{Tape: fmt.Sprintf("%016x__%016x", 7, i*7919), Session: fmt.Sprintf("web:%d#s%d", i%100, i), Workspace: "/w", Updated: int64(i)}
		x.Put(all[i])
	}
	x.Page(tape.SessionQuery{}, tape.Info{}, 1)
	at := int64(sessions)
	b.ReportAllocs()
	for b.Loop() {
		at++
		s := all[at*7919%sessions]
		s.Updated = at
		x.Put(s)
	}
}

func BenchmarkPage(b *testing.B) {
	const sessions = 100_000
	var x Index[struct{}]
	for i := range sessions {
		x.Put(Session[struct{}]{Tape: fmt.Sprintf("%016x__%016x", 7, i*7919), Session: fmt.Sprintf("web:%d#s%d", i%1000, i), Workspace: "/w", Updated: int64(i)})
	}
	for name, q := range map[string]tape.SessionQuery{"all": {Workspace: "/w"}, "owner": {Workspace: "/w", Prefix: "web:77#"}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if page := x.Page(q, tape.Info{Tape: "0", Updated: time.UnixMicro(sessions / 2)}, 50); len(page) != 50 {
					b.Fatal(len(page))
				}
			}
		})
	}
}
