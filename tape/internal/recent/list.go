package recent

import (
	"iter"
	"slices"
	"sort"
)

// list holds rows in order, in blocks: so a row is found by two binary searches, and few others move for it.
type list[V any] struct {
	order  func(a, b *row[V]) int
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
		return l.order(b[len(b)-1], r) >= 0
	})
	if block < len(l.blocks) {
		at, found = slices.BinarySearchFunc(l.blocks[block], r, l.order)
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
