// Package recent keeps the logs of a space in the order in which they were updated, the last first. A page of a list costs what the page is
// long, and not what the space has.
package recent

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/lingserve/lingserve/store"
)

// Row is what [Rows] know of a log, with the value that the engine keeps beside it.
type Row[V any] struct {
	Name, Label string
	Updated     int64 // µs since 1970
	Value       V
}

// Rows are logs. They need some 130 bytes and the name for each, and some 100 for each label. The zero value is empty. They are not safe for
// concurrent use.
type Rows[V any] struct {
	rows   map[string]*row[V]
	labels map[string]*label[V]
	all    list[V]

	// The lists are made with the first page, and brought up to date with the later ones: most logs are used many times between two.
	built bool
	moved []*row[V] // their place is not that of their last update; some may be here twice, or have their place
}

type row[V any] struct {
	name    string
	label   *label[V]
	updated int64
	placed  int64 // what updated was when the row got its place in the lists; nowhere before
	value   V
}

// label has the logs of a label, which share its text.
type label[V any] struct {
	text string
	rows int
	list list[V]
}

const (
	nowhere = math.MinInt64
	// mostMoved bounds the rows that the next page has to move.
	mostMoved = 1024
)

func (r *row[V]) copy() Row[V] {
	return Row[V]{Name: r.name, Label: r.label.text, Updated: r.updated, Value: r.value}
}

// Len is the number of logs.
func (x *Rows[V]) Len() int { return len(x.rows) }

// Get finds a log.
func (x *Rows[V]) Get(name string) (Row[V], bool) {
	if r := x.rows[name]; r != nil {
		return r.copy(), true
	}
	return Row[V]{}, false
}

// All yields the logs in no order.
func (x *Rows[V]) All() iter.Seq[Row[V]] {
	return func(yield func(Row[V]) bool) {
		for _, r := range x.rows {
			if !yield(r.copy()) {
				return
			}
		}
	}
}

// Put adds a log, or replaces what is known of it. It keeps none of the strings.
func (x *Rows[V]) Put(now Row[V]) {
	if x.rows == nil {
		x.rows, x.labels = map[string]*row[V]{}, map[string]*label[V]{}
	}
	r := x.rows[now.Name]
	if r != nil && r.label.text != now.Label {
		x.Remove(now.Name)
		r = nil
	}
	switch {
	case r == nil:
		r = &row[V]{name: strings.Clone(now.Name), placed: nowhere}
		if r.label = x.labels[now.Label]; r.label == nil {
			r.label = &label[V]{text: strings.Clone(now.Label)}
			x.labels[r.label.text] = r.label
		}
		r.label.rows++
		x.rows[r.name] = r
		if x.built {
			x.moved = append(x.moved, r)
		}
	case r.updated != now.Updated && r.placed == r.updated && x.built:
		x.moved = append(x.moved, r)
	}
	r.updated, r.value = now.Updated, now.Value
	if len(x.moved) > mostMoved {
		x.settle()
	}
}

// Remove removes a log, if it is there.
func (x *Rows[V]) Remove(name string) {
	r := x.rows[name]
	if r == nil {
		return
	}
	x.unplace(r)
	r.updated = nowhere // it needs no place any more
	delete(x.rows, name)
	if r.label.rows--; r.label.rows == 0 {
		delete(x.labels, r.label.text)
	}
}

func (x *Rows[V]) place(r *row[V]) {
	r.placed = r.updated
	x.all.insert(r)
	r.label.list.insert(r)
}

func (x *Rows[V]) unplace(r *row[V]) {
	if r.placed != nowhere {
		x.all.remove(r)
		r.label.list.remove(r)
		r.placed = nowhere
	}
}

// settle gives all rows their places.
func (x *Rows[V]) settle() {
	if !x.built || len(x.moved) > mostMoved+len(x.rows)/8 {
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

// build makes the lists.
func (x *Rows[V]) build() {
	rows := make([]*row[V], 0, len(x.rows))
	for _, r := range x.rows {
		r.placed = r.updated
		rows = append(rows, r)
	}
	slices.SortFunc(rows, byUpdate[V])
	x.all.fill(rows)
	of := make(map[*label[V]][]*row[V], len(x.labels))
	for _, r := range rows {
		of[r.label] = append(of[r.label], r)
	}
	for label, rows := range of {
		label.list.fill(rows)
	}
	x.built = true
}

// Page returns the next logs of a listing, at most so many; 0: all.
func (x *Rows[V]) Page(l *store.Listing, most int) (page []Row[V]) {
	x.settle()
	rows := &x.all
	if l.Label != "" {
		of := x.labels[l.Label]
		if of == nil {
			return nil
		}
		rows = &of.list
	}
	from := &row[V]{placed: math.MaxInt64}
	if l.After.Name != "" {
		from.name, from.placed = l.After.Name, l.After.Updated.UnixMicro()
	}
	for r := range rows.behind(from) {
		if !l.Has(store.Info{Name: r.name, Label: r.label.text}) {
			continue
		}
		if page = append(page, r.copy()); len(page) == most {
			break
		}
	}
	return page
}

// After is the cursor behind a row.
func (r *Row[V]) After() store.Info {
	return store.Info{Name: r.Name, Updated: time.UnixMicro(r.Updated)}
}

// Count returns how many logs a listing has, wherever it begins.
func (x *Rows[V]) Count(l *store.Listing) (n int) {
	for _, r := range x.rows {
		if l.Has(store.Info{Name: r.name, Label: r.label.text}) {
			n++
		}
	}
	return n
}

// byUpdate orders rows as lists have them.
func byUpdate[V any](a, b *row[V]) int {
	return cmp.Or(cmp.Compare(b.placed, a.placed), strings.Compare(a.name, b.name))
}

// list holds rows in order, in blocks: so a row is found by two binary searches, and few others move for it.
type list[V any] struct {
	blocks [][]*row[V] // none is empty
}

const (
	blockMost = 256           // rows
	blockFull = blockMost / 2 // two neighbors that have fewer together become one
	blockFill = blockMost * 3 / 4
)

// seek finds the first row that is not before r.
func (l *list[V]) seek(r *row[V]) (block, at int, found bool) {
	block = sort.Search(len(l.blocks), func(i int) bool {
		b := l.blocks[i]
		return byUpdate[V](b[len(b)-1], r) >= 0
	})
	if block < len(l.blocks) {
		at, found = slices.BinarySearchFunc(l.blocks[block], r, byUpdate[V])
	}
	return block, at, found
}

func (l *list[V]) insert(r *row[V]) {
	block, at, _ := l.seek(r)
	switch {
	case len(l.blocks) == 0:
		l.blocks = [][]*row[V]{{r}}
		return
	case block == len(l.blocks):
		block--
		at = len(l.blocks[block])
	}
	b := slices.Insert(l.blocks[block], at, r)
	if len(b) > blockMost {
		half := len(b) / 2
		l.blocks = slices.Insert(l.blocks, block+1, slices.Clone(b[half:]))
		clear(b[half:])
		b = b[:half]
	}
	l.blocks[block] = b
}

func (l *list[V]) remove(r *row[V]) {
	block, at, found := l.seek(r)
	if !found {
		return
	}
	l.blocks[block] = slices.Delete(l.blocks[block], at, at+1)
	if len(l.blocks[block]) == 0 {
		l.blocks = slices.Delete(l.blocks, block, block+1)
		return
	}
	for _, left := range [...]int{block, block - 1} {
		if left >= 0 && left+1 < len(l.blocks) && len(l.blocks[left])+len(l.blocks[left+1]) < blockFull {
			l.blocks[left] = append(l.blocks[left], l.blocks[left+1]...)
			l.blocks = slices.Delete(l.blocks, left+1, left+2)
		}
	}
}

// fill replaces what is in the list by rows that are in order.
func (l *list[V]) fill(rows []*row[V]) {
	l.blocks = nil
	for b := range slices.Chunk(rows, blockFill) {
		l.blocks = append(l.blocks, slices.Clone(b))
	}
}

// behind yields the rows that come after r, which need not be in the list.
func (l *list[V]) behind(r *row[V]) iter.Seq[*row[V]] {
	return func(yield func(*row[V]) bool) {
		block, at, found := l.seek(r)
		if found {
			at++
		}
		for ; block < len(l.blocks); block, at = block+1, 0 {
			for _, next := range l.blocks[block][at:] {
				if !yield(next) {
					return
				}
			}
		}
	}
}
