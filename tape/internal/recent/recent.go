// Package recent keeps the sessions of a store in the order of their last entries. A page of the list costs what the page is long,
// and not what the store holds.
package recent

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/tape"
)

// Session is a session of an [Index], with the value that the store keeps beside it.
type Session[V any] struct {
	Tape, Session, Workspace string
	Updated                  int64 // date of the last entry, in µs since 1970
	Value                    V
}

// Index holds sessions. It needs some 150 bytes and the two names for each. The zero value is empty and ready. It is not safe for
// concurrent use.
type Index[V any] struct {
	rows   map[string]*row[V]   // by the tape's name
	spaces map[string]*space[V] // by the workspace
	all    list[V]              // by use

	// The lists are made with the first page, and brought up to date with the later ones: most sessions are used many times between
	// two pages.
	built bool
	moved []*row[V] // rows whose place in the lists is not that of their last entry; some may be there twice, or have their place
}

// maxMoved bounds the rows that the next page has to move.
const maxMoved = 1024

// space is a workspace. Its sessions share its name.
type space[V any] struct {
	name   string
	rows   int
	all    list[V] // by use
	groups list[V] // those with a group, by group and then by use
}

type row[V any] struct {
	text    string // the tape's name and the session's id
	name    int32  // bytes of the name
	group   int32  // bytes of the session's group, see groupOf
	space   *space[V]
	updated int64
	placed  int64 // what updated was when the row got its place in the lists; nowhere before
	value   V
}

const nowhere = math.MinInt64

func (r *row[V]) tape() string    { return r.text[:r.name] }
func (r *row[V]) session() string { return r.text[r.name:] }
func (r *row[V]) groupID() string { return r.text[r.name : r.name+r.group] }

// groupOf is the part of a session's id that ends with the first '#': the conversation of a channel, whose threads follow the mark. All
// sessions of an owner have one group.
func groupOf(session string) string { return session[:strings.IndexByte(session, '#')+1] }

// byUse orders rows by their last entries, the newest first, and those of one moment by the tape's name.
func byUse[V any](a, b *row[V]) int {
	if c := cmp.Compare(b.placed, a.placed); c != 0 {
		return c
	}
	return cmp.Compare(a.tape(), b.tape())
}

func byGroup[V any](a, b *row[V]) int {
	if c := cmp.Compare(a.groupID(), b.groupID()); c != 0 {
		return c
	}
	return byUse(a, b)
}

// Len is the number of sessions.
func (x *Index[V]) Len() int { return len(x.rows) }

// Get finds a session by its tape's name.
func (x *Index[V]) Get(name string) (s Session[V], ok bool) {
	if r := x.rows[name]; r != nil {
		return r.copy(), true
	}
	return s, false
}

func (r *row[V]) copy() Session[V] {
	return Session[V]{Tape: r.tape(), Session: r.session(), Workspace: r.space.name, Updated: r.updated, Value: r.value}
}

// Put adds a session, or replaces the one of the same tape. It keeps none of the strings.
func (x *Index[V]) Put(s Session[V]) {
	r := x.rows[s.Tape]
	if r != nil && (r.session() != s.Session || r.space.name != s.Workspace) {
		x.Delete(s.Tape)
		r = nil
	}
	if r == nil {
		r = x.add(s)
	} else if r.value = s.Value; r.updated == s.Updated {
		return
	} else if r.placed == r.updated && x.built {
		x.moved = append(x.moved, r)
	}
	r.updated = s.Updated
	if len(x.moved) > maxMoved {
		x.settle()
	}
}

func (x *Index[V]) add(s Session[V]) *row[V] {
	if x.rows == nil {
		x.rows, x.spaces, x.all.order = map[string]*row[V]{}, map[string]*space[V]{}, byUse[V]
	}
	in := x.spaces[s.Workspace]
	if in == nil {
		in = &space[V]{name: strings.Clone(s.Workspace), all: list[V]{order: byUse[V]}, groups: list[V]{order: byGroup[V]}}
		x.spaces[in.name] = in
	}
	in.rows++
	r := &row[V]{
		text: s.Tape + s.Session, name: int32(len(s.Tape)), group: int32(len(groupOf(s.Session))),
		space: in, placed: nowhere, value: s.Value,
	}
	if s.Session == "" { // the sum is the caller's string
		r.text = strings.Clone(s.Tape)
	}
	x.rows[r.tape()] = r
	if x.built {
		x.moved = append(x.moved, r)
	}
	return r
}

// Delete removes the session of a tape, if there is one.
func (x *Index[V]) Delete(name string) {
	r := x.rows[name]
	if r == nil {
		return
	}
	x.unplace(r)
	r.updated = nowhere // it needs no place any more
	delete(x.rows, name)
	if r.space.rows--; r.space.rows == 0 {
		delete(x.spaces, r.space.name)
	}
}

// place puts a row into the lists, where its last entry says.
func (x *Index[V]) place(r *row[V]) {
	r.placed = r.updated
	x.all.insert(r)
	r.space.all.insert(r)
	if r.group > 0 {
		r.space.groups.insert(r)
	}
}

func (x *Index[V]) unplace(r *row[V]) {
	if r.placed == nowhere {
		return
	}
	x.all.remove(r)
	r.space.all.remove(r)
	if r.group > 0 {
		r.space.groups.remove(r)
	}
	r.placed = nowhere
}

// settle gives all rows their places.
func (x *Index[V]) settle() {
	if !x.built || len(x.moved) > maxMoved+len(x.rows)/8 {
		x.build()
	}
	for i, r := range x.moved {
		x.moved[i] = nil
		if r.placed != r.updated {
			x.unplace(r)
			x.place(r)
		}
	}
	x.moved = x.moved[:0]
}

// build makes the lists from the rows.
func (x *Index[V]) build() {
	rows := make([]*row[V], 0, len(x.rows))
	for _, r := range x.rows {
		r.placed = r.updated
		rows = append(rows, r)
	}
	slices.SortFunc(rows, byUse)
	x.all.fill(rows)
	of := make(map[*space[V]][]*row[V], len(x.spaces))
	for _, r := range rows {
		of[r.space] = append(of[r.space], r)
	}
	for s, rows := range of {
		s.all.fill(rows)
		rows = slices.DeleteFunc(rows, func(r *row[V]) bool { return r.group == 0 })
		slices.SortFunc(rows, byGroup)
		s.groups.fill(rows)
	}
	x.built = true
}

// Page returns at most so many of the sessions behind last that q selects, in order. last is what [tape.SessionQuery.Last] returns, or
// the last session of the page before. 0 returns all of them.
func (x *Index[V]) Page(q tape.SessionQuery, last tape.Info, most int) (page []Session[V]) {
	x.settle()
	from := &row[V]{text: last.Tape, name: int32(len(last.Tape)), placed: last.Updated.UnixMicro()}
	if last.Tape == "" {
		from.placed = math.MaxInt64
	}
	rows := &x.all
	group := ""
	if q.Workspace != "" {
		in := x.spaces[q.Workspace]
		if in == nil {
			return nil
		}
		rows = &in.all
		if group = groupOf(q.Prefix); group != "" {
			rows = &in.groups
			from.text, from.group = last.Tape+group, int32(len(group))
		}
	}
	for r := range rows.behind(from) {
		switch {
		case group != "" && r.groupID() != group:
			return page
		case q.Workspace != "" && r.space.name != q.Workspace, !strings.HasPrefix(r.session(), q.Prefix):
			continue
		}
		if page = append(page, r.copy()); len(page) == most {
			break
		}
	}
	return page
}

// All yields the sessions in no order. They may be changed meanwhile as those of a map may.
func (x *Index[V]) All() iter.Seq[Session[V]] {
	return func(yield func(Session[V]) bool) {
		for _, r := range x.rows {
			if !yield(r.copy()) {
				return
			}
		}
	}
}
