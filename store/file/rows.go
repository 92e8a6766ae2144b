package file

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/lingserve/lingserve/store"
)

// rows are the logs of a space in the order of their updates. A log needs some 150 bytes and its name and label. A page costs what it is
// long, and not what there is.
type rows struct {
	byName map[string]*row
	order  rowList
	built  bool // the order is kept; it is made with the first page
}

type row struct {
	text    string // the log's name and its label
	name    int32  // bytes of the name
	updated int64  // µs
	mark    mark
}

func (r *row) log() string   { return r.text[:r.name] }
func (r *row) label() string { return r.text[r.name:] }

// byUpdate orders rows by their updates, the newest first, and those of one moment by name.
func byUpdate(a, b *row) int {
	return cmp.Or(cmp.Compare(b.updated, a.updated), strings.Compare(a.log(), b.log()))
}

func (x *rows) get(name string) *row { return x.byName[name] }

// put adds a log, or replaces it.
func (x *rows) put(name, label string, updated int64, m mark) {
	r := x.byName[name]
	if r != nil && r.label() == label && r.updated == updated {
		r.mark = m
		return
	}
	x.remove(name)
	if x.byName == nil {
		x.byName = map[string]*row{}
	}
	r = &row{text: name + label, name: int32(len(name)), updated: updated, mark: m}
	if label == "" { // the sum is the caller's string
		r.text = strings.Clone(name)
	}
	x.byName[r.log()] = r
	if x.built {
		x.order.insert(r)
	}
}

// remove removes a log, if it is there.
func (x *rows) remove(name string) {
	r := x.byName[name]
	if r == nil {
		return
	}
	delete(x.byName, name)
	if x.built {
		x.order.remove(r)
	}
}

// page returns at most so many of the logs behind after that l selects; 0 returns all of them.
func (x *rows) page(l store.Listing, after row, most int) (page []row) {
	if !x.built {
		all := make([]*row, 0, len(x.byName))
		for _, r := range x.byName {
			all = append(all, r)
		}
		slices.SortFunc(all, byUpdate)
		x.order.fill(all)
		x.built = true
	}
	for r := range x.order.behind(&after) {
		if l.Has(store.Info{Name: r.log(), Label: r.label()}) {
			if page = append(page, *r); len(page) == most {
				break
			}
		}
	}
	return page
}

// beforeAll is before all rows.
func beforeAll() row { return row{updated: math.MaxInt64} }

// rowList holds rows in order, in blocks: so a row is found by two binary searches, and few others move for it.
type rowList struct {
	blocks [][]*row // none is empty
}

const (
	blockMost = 256           // rows
	blockFull = blockMost / 2 // two neighbors that have fewer together become one
	blockFill = blockMost * 3 / 4
)

// seek finds the first row that is not before r.
func (l *rowList) seek(r *row) (block, at int, found bool) {
	block = sort.Search(len(l.blocks), func(i int) bool {
		b := l.blocks[i]
		return byUpdate(b[len(b)-1], r) >= 0
	})
	if block < len(l.blocks) {
		at, found = slices.BinarySearchFunc(l.blocks[block], r, byUpdate)
	}
	return block, at, found
}

func (l *rowList) insert(r *row) {
	block, at, _ := l.seek(r)
	switch {
	case len(l.blocks) == 0:
		l.blocks = [][]*row{{r}}
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

func (l *rowList) remove(r *row) {
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
func (l *rowList) fill(rows []*row) {
	l.blocks = nil
	for b := range slices.Chunk(rows, blockFill) {
		l.blocks = append(l.blocks, slices.Clone(b))
	}
}

// behind yields the rows that come after r, which need not be in the list.
func (l *rowList) behind(r *row) iter.Seq[*row] {
	return func(yield func(*row) bool) {
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
