package file

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// reading is what a part of a log holds.
type reading struct {
	state        // with all lines up to the last whole batch
	extra []byte // marks
	// anew says that the log was read from its beginning, since it is damaged.
	anew bool
	skip map[int64]bool // see misplaced
}

var errMisplaced = errors.New("its number does not follow the one before")

// take reads the log from the state on, up to size.
func (l *log) take(s state, size int64) (reading, error) {
	t, damaged, err := l.scan(l.file, s, size, nil)
	if err != nil || !damaged {
		return t, err
	}
	return l.takeDamaged(l.file, size)
}

// takeDamaged reads a log from its beginning.
func (l *log) takeDamaged(r io.ReaderAt, size int64) (reading, error) {
	skip, err := misplaced(l, r, size)
	if err != nil {
		return reading{}, err
	}
	t, _, err := l.scan(r, l.framing.begin(l.name, l.readSide()), size, skip)
	t.anew, t.skip = true, skip
	return t, err
}

// scan reads the log from the state on. skip are the lines that are passed over, as far as that is known: where it is nil, scan ends at the
// first sign of damage.
func (l *log) scan(r io.ReaderAt, s state, size int64, skip map[int64]bool) (t reading, damaged bool, err error) {
	buf := getBuffer()
	defer putBuffer(buf)
	in := forward{r: r, f: l.framing, next: s.bytes, end: size, buf: *buf}
	defer func() { *buf = in.buf }()
	_, chained := l.framing.(coded) // a damaged line may have been the end of a batch
	s.found = damage{}
	t.state = s
	next := s
	var marks []byte // of the batch
	count := func(line int64, d damage) {
		next.damaged(d)
		if l.framing.damaged(&next, d.why); l.onDamage != nil && skip != nil {
			l.onDamage(line, d)
		}
	}
	for line := int64(1); ; line++ {
		ln, err := in.line()
		if errors.Is(err, io.EOF) || err == nil && !ln.whole() && ln.end == size || errors.Is(err, errCut) { // taken back in this moment
			if t.found = next.found; !t.there() { // there is nothing that what is damaged lies behind
				t.lines = next.lines
			}
			if t.rebuilt != nil {
				t.head, t.rebuilt = t.rebuilt.Text(), nil
			}
			return t, false, nil
		}
		if err != nil {
			return t, false, err
		}
		rec, err := ln.parse(l.framing)
		switch {
		case err != nil:
		case rec.entry() && rec.N <= next.last || skip[ln.offset]:
			err = errMisplaced
		case rec.entry() && rec.Before > int64(next.last) && !next.broken:
			count(line, damage{ln.offset, fmt.Errorf("entries %d to %d are missing before it", next.last+1, rec.Before)})
		}
		if skip == nil && (err != nil || rec.entry() && rec.Before > int64(next.last)) {
			return t, true, nil
		}
		more := rec.More
		if err != nil {
			next.broken = true
			// It may have been the end of a batch: what lies before it is not given up with it.
			count(line, damage{ln.offset, err})
			if next.hurt = true; !chained || next.entries == 0 {
				continue
			}
			more = false
			next.count++
		} else {
			if rec.entry() {
				next.broken = false
				e := rec.Entry
				if next.add(&e, ln.extent); e.Mark {
					marks = appendMark(marks, spot{e.N, ln.extent})
				}
			}
			l.framing.apply(&next, &rec)
		}
		if more {
			continue
		}
		if !chained && next.hurt { // only a batch behind it shows that this one was acknowledged
			next.hurt = false
			continue
		}
		next.bytes, next.hurt = ln.end, false
		t.extra, marks = append(t.extra, marks...), marks[:0]
		if next.rebuilt != nil {
			next.rebuilt.Keep()
		}
		t.state = next
	}
}

// misplaced finds the lines that lie where they do not belong: those that are left over when as many lines as possible are chosen whose
// numbers rise.
func misplaced(l *log, r io.ReaderAt, size int64) (map[int64]bool, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	in := forward{r: r, f: l.framing, end: size, buf: *buf}
	defer func() { *buf = in.buf }()
	var numbers []uint64
	var offsets []int64
	rising := true
	for {
		ln, err := in.line()
		if errors.Is(err, io.EOF) || errors.Is(err, errCut) {
			break
		}
		if err != nil {
			return nil, err
		}
		if e, err := ln.parse(l.framing); err == nil && e.entry() && (ln.whole() || ln.end < size) {
			rising = rising && (len(numbers) == 0 || e.N > numbers[len(numbers)-1])
			numbers, offsets = append(numbers, e.N), append(offsets, ln.offset)
		}
	}
	skip := map[int64]bool{}
	if rising {
		return skip, nil
	}
	kept := longestRise(numbers)
	for i, offset := range offsets {
		if len(kept) > 0 && kept[0] == i {
			kept = kept[1:]
		} else {
			skip[offset] = true
		}
	}
	return skip, nil
}

// longestRise returns the places of a longest row of numbers of which each is above the one before.
func longestRise(numbers []uint64) []int {
	var ends []int // by length: the place of the lowest number that ends a row
	before := make([]int, len(numbers))
	for i, number := range numbers {
		n, _ := slices.BinarySearchFunc(ends, number, func(at int, number uint64) int { return cmp.Compare(numbers[at], number) })
		if before[i] = -1; n > 0 {
			before[i] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, i)
		} else {
			ends[n] = i
		}
	}
	row := make([]int, len(ends))
	for at, n := ends[len(ends)-1], len(ends)-1; n >= 0; at, n = before[at], n-1 {
		row[n] = at
	}
	return row
}
