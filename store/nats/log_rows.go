package nats

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/lingserve/lingserve/store"
)

// logRow is what is needed of a log to find and to order it.
type logRow struct {
	name    string
	label   *labelRows
	updated int64 // µs since 1970
	placed  int64 // what updated was when the row got its place in the lists; nowhere before
	seq     uint64
}

const nowhere = math.MinInt64

// labelRows are the logs of a label, which share its text.
type labelRows struct {
	text string
	rows int
	list rowList
}

// logRows keeps logs in the order in which they were updated, the last first: a page costs what the page is long. The zero value is empty.
// It needs some 150 bytes and the name for each.
type logRows struct {
	rows   map[string]*logRow
	labels map[string]*labelRows
	below  map[string]map[string]*logRow // logs with a "/" in their names, by what is before the first
	all    rowList

	// The lists are made with the first page, and brought up to date with the later ones: most logs are used many times between two.
	built bool
	moved []*logRow // their place is not that of their last update; some may be here twice, or have their place
}

// mostMoved bounds the rows that the next page has to move.
const mostMoved = 1024

func folder(name string) (string, bool) {
	first, _, below := strings.Cut(name, "/")
	return first, below
}

// put adds a log, or replaces what is known of it.
func (x *logRows) put(name, label string, updated int64, seq uint64) {
	if x.rows == nil {
		x.rows, x.labels, x.below = map[string]*logRow{}, map[string]*labelRows{}, map[string]map[string]*logRow{}
	}
	r := x.rows[name]
	if r != nil && r.seq >= seq {
		return
	}
	if r != nil && r.label.text != label {
		x.remove(name)
		r = nil
	}
	switch {
	case r == nil:
		r = &logRow{name: strings.Clone(name), placed: nowhere}
		if r.label = x.labels[label]; r.label == nil {
			r.label = &labelRows{text: strings.Clone(label)}
			x.labels[r.label.text] = r.label
		}
		r.label.rows++
		x.rows[r.name] = r
		if first, below := folder(r.name); below {
			if x.below[first] == nil {
				x.below[first] = map[string]*logRow{}
			}
			x.below[first][r.name] = r
		}
		if x.built {
			x.moved = append(x.moved, r)
		}
	case r.updated != updated && r.placed == r.updated && x.built:
		x.moved = append(x.moved, r)
	}
	r.updated, r.seq = updated, seq
	if len(x.moved) > mostMoved {
		x.settle()
	}
}

func (x *logRows) remove(name string) {
	r := x.rows[name]
	if r == nil {
		return
	}
	x.unplace(r)
	r.updated = nowhere // it needs no place any more
	delete(x.rows, name)
	if first, below := folder(name); below {
		if delete(x.below[first], name); len(x.below[first]) == 0 {
			delete(x.below, first)
		}
	}
	if r.label.rows--; r.label.rows == 0 {
		delete(x.labels, r.label.text)
	}
}

// removeAll removes a log and all below it that are older than a message.
func (x *logRows) removeAll(name string, seq uint64) {
	if r := x.rows[name]; r != nil && r.seq < seq {
		x.remove(name)
	}
	first, _ := folder(name)
	for other, r := range x.below[first] {
		if strings.HasPrefix(other, name+"/") && r.seq < seq {
			x.remove(other)
		}
	}
}

func (x *logRows) place(r *logRow) {
	r.placed = r.updated
	x.all.insert(r)
	r.label.list.insert(r)
}

func (x *logRows) unplace(r *logRow) {
	if r.placed != nowhere {
		x.all.remove(r)
		r.label.list.remove(r)
		r.placed = nowhere
	}
}

// settle gives all rows their places.
func (x *logRows) settle() {
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
func (x *logRows) build() {
	rows := make([]*logRow, 0, len(x.rows))
	for _, r := range x.rows {
		r.placed = r.updated
		rows = append(rows, r)
	}
	slices.SortFunc(rows, byUpdate)
	x.all.fill(rows)
	of := make(map[*labelRows][]*logRow, len(x.labels))
	for _, r := range rows {
		of[r.label] = append(of[r.label], r)
	}
	for label, rows := range of {
		label.list.fill(rows)
	}
	x.built = true
}

// page returns the next logs of a listing, at most so many; 0: all.
func (x *logRows) page(l *store.Listing, most int) (page []logRow) {
	x.settle()
	rows := &x.all
	if l.Label != "" {
		label := x.labels[l.Label]
		if label == nil {
			return nil
		}
		rows = &label.list
	}
	from := &logRow{placed: math.MaxInt64}
	if l.After.Name != "" {
		from.name, from.placed = l.After.Name, l.After.Updated.UnixMicro()
	}
	for r := range rows.behind(from) {
		if !listed(l, r.name) {
			continue
		}
		if page = append(page, *r); len(page) == most {
			break
		}
	}
	return page
}

// count returns how many logs a listing has.
func (x *logRows) count(l *store.Listing) (n int) {
	for name := range x.rows {
		if listed(l, name) {
			n++
		}
	}
	return n
}

// byUpdate orders rows as lists have them.
func byUpdate(a, b *logRow) int {
	return cmp.Or(cmp.Compare(b.placed, a.placed), strings.Compare(a.name, b.name))
}

// rowList holds rows in order, in blocks: so a row is found by two binary searches, and few others move for it.
type rowList struct {
	blocks [][]*logRow // none is empty
}

const (
	blockMost = 256           // rows
	blockFull = blockMost / 2 // two neighbors that have fewer together become one
	blockFill = blockMost * 3 / 4
)

// seek finds the first row that is not before r.
func (l *rowList) seek(r *logRow) (block, at int, found bool) {
	block = sort.Search(len(l.blocks), func(i int) bool {
		b := l.blocks[i]
		return byUpdate(b[len(b)-1], r) >= 0
	})
	if block < len(l.blocks) {
		at, found = slices.BinarySearchFunc(l.blocks[block], r, byUpdate)
	}
	return block, at, found
}

func (l *rowList) insert(r *logRow) {
	block, at, _ := l.seek(r)
	switch {
	case len(l.blocks) == 0:
		l.blocks = [][]*logRow{{r}}
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

func (l *rowList) remove(r *logRow) {
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
func (l *rowList) fill(rows []*logRow) {
	l.blocks = nil
	for b := range slices.Chunk(rows, blockFill) {
		l.blocks = append(l.blocks, slices.Clone(b))
	}
}

// behind yields the rows that come after r, which need not be in the list.
func (l *rowList) behind(r *logRow) iter.Seq[*logRow] {
	return func(yield func(*logRow) bool) {
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
