package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"slices"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
)

// source is a log as it was at one moment. It needs no lock: what it covers never changes.
type source struct {
	log      *log
	file     vfs.File
	index    vfs.File
	slotSize int
	extra    []byte
	unmarked bool // the index does not have all marks
	state    state

	examined bool           // damage was met, or known before
	skip     map[int64]bool // see misplaced
	met      []int64        // offsets of lines that were met and cannot be read

	copies []byte // of lines that were read; see readable
}

// maxMet bounds the damaged lines that are noted.
const maxMet = 1024

// examine finds out which lines are to be passed over, where the log is damaged.
func (s *source) examine() (err error) {
	if !s.examined {
		s.skip, err = s.log.examine(s)
	}
	s.examined = true
	return err
}

// tell lets the log be examined again, where more lines were met that cannot be read than are known of: it was damaged since.
func (s *source) tell() {
	if int64(len(s.met)) > s.state.lines {
		s.log.recount(int64(len(s.met)))
	}
}

// meet notes a line that cannot be read, once however often it is passed.
func (s *source) meet(ln line) {
	if !slices.Contains(s.met, ln.offset) && len(s.met) <= maxMet {
		s.met = append(s.met, ln.offset)
	}
}

// entries yields what a range selects, without its limit.
func (s *source) entries(r store.Range) iter.Seq2[store.Entry, error] {
	from, before := max(r.From, s.state.first), r.Before
	if before == 0 || before > s.state.last {
		before = math.MaxUint64
	}
	switch {
	case s.state.entries == 0 || from > s.state.last:
		return func(func(store.Entry, error) bool) {}
	case r.Marks:
		return s.marked(from, before, r.Newest)
	case r.Newest:
		return s.backward(from, before)
	}
	return s.forward(from, before, nil)
}

// mostCopies is the memory that short lines share.
const mostCopies = 4 << 10

// readable is the entry of a line, in memory that is not used again.
func (s *source) readable(ln line) (record, error) {
	switch size := len(ln.text); {
	case size > mostCopies/4:
		ln.text = bytes.Clone(ln.text)
	case size > 0:
		if cap(s.copies)-len(s.copies) < size {
			s.copies = make([]byte, 0, min(mostCopies, max(2*size, 2*cap(s.copies))))
		}
		s.copies = append(s.copies, ln.text...)
		end := len(s.copies)
		ln.text = s.copies[end-size : end : end]
	}
	return ln.parse(s.log.framing)
}

// forward yields the entries from a number on, below another one. at gets where the line of the entry that it yields lies.
func (s *source) forward(from, before uint64, at *int64) iter.Seq2[store.Entry, error] {
	if before == 0 {
		before = math.MaxUint64
	}
	return func(yield func(store.Entry, error) bool) {
		start, err := s.seek(from)
		if err == nil && s.state.lines > 0 {
			err = s.examine()
		}
		if err != nil {
			yield(store.Entry{}, s.explain(err))
			return
		}
		buf := getBuffer()
		defer putBuffer(buf)
		in := forward{r: s.file, f: s.log.framing, next: start, end: s.state.bytes, buf: *buf}
		defer func() { *buf = in.buf }()
		defer s.tell()
		for last, bad := from-1, 0; ; {
			ln, err := in.line()
			if errors.Is(err, io.EOF) {
				if bad > 0 && before > s.state.last {
					yieldDamaged(last, s.state.last, bad, before, yield)
				}
				return
			}
			if err != nil {
				yield(store.Entry{}, s.explain(err))
				return
			}
			e, err := s.readable(ln)
			if err == nil && !e.entry() {
				continue
			}
			if damaged := err != nil || e.N <= last || e.Before > int64(last); damaged && !s.examined {
				if err = s.examine(); err == nil {
					start, err = s.seek(last + 1) // what led here may lie in another place
				}
				if err != nil {
					yield(store.Entry{}, s.explain(err))
					return
				}
				in = forward{r: s.file, f: s.log.framing, next: start, end: s.state.bytes, buf: in.buf[:0]}
				bad = 0
				continue
			}
			if err != nil || e.N <= last || s.skip[ln.offset] {
				s.meet(ln)
				bad++
				continue
			}
			lost := e.Before
			if lost < 0 && bad > 0 {
				lost = int64(e.N) - 1
			}
			if lost > int64(last) && !yieldDamaged(last, uint64(lost), bad, before, yield) || e.N >= before {
				return
			}
			if at != nil {
				*at = ln.offset
			}
			if last, bad = e.N, 0; !yield(e.Entry, nil) {
				return
			}
		}
	}
}

// yieldDamaged yields the numbers of entries that cannot be read: as many as damaged lines were met, up to one number and above another.
func yieldDamaged(above, last uint64, lines int, before uint64, yield func(store.Entry, error) bool) bool {
	for n := max(above+1, last+1-min(last, uint64(max(1, lines)))); n <= last && n < before; n++ {
		if !yield(store.Entry{N: n}, fmt.Errorf("entry %d: %w", n, store.ErrDamaged)) {
			return false
		}
	}
	return true
}

// backward yields the entries below a number, the highest first, down to another one.
func (s *source) backward(from, before uint64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		defer s.tell()
		next := int64(-1) // the number of the next entry; -1 where that is not known
		if before > s.state.last {
			next = int64(s.state.last)
		}
		for {
			again, err := s.backwardFrom(from, &before, &next, yield)
			if err != nil {
				yield(store.Entry{}, s.explain(err))
			}
			if !again || err != nil {
				return
			}
		}
	}
}

// backwardFrom yields the entries below a number. again says that damage was met: what is left is to be read another time.
func (s *source) backwardFrom(from uint64, before *uint64, next *int64, yield func(store.Entry, error) bool) (again bool, err error) {
	end := s.state.bytes
	if *before <= s.state.last {
		if end, err = s.seek(*before); err != nil {
			return false, err
		}
	} else if s.state.lines > 0 {
		if err := s.examine(); err != nil {
			return false, err
		}
	}
	in := backward{r: s.file, f: s.log.framing, begin: end, end: end}
	for bad := 0; ; {
		ln, err := in.line()
		if errors.Is(err, io.EOF) {
			if bad > 0 && *next >= int64(from) {
				s.lostBackward(from, from-1, bad, before, next, yield)
			}
			return false, nil
		}
		if err != nil {
			return false, err
		}
		e, err := s.readable(ln)
		if err == nil && !e.entry() {
			continue
		}
		if damaged := err != nil || e.N >= *before || *next >= 0 && int64(e.N) != *next; damaged && !s.examined {
			return true, s.examine()
		}
		if err != nil || e.N >= *before || s.skip[ln.offset] {
			s.meet(ln)
			bad++
			continue
		}
		if !s.lostBackward(from, e.N, bad, before, next, yield) {
			return false, nil
		}
		bad, *before, *next = 0, e.N, e.Before
		if e.N < from || !yield(e.Entry, nil) {
			return false, nil
		}
	}
}

// lostBackward yields the numbers of entries that cannot be read between the one that was to come next and the one that came.
func (s *source) lostBackward(from, came uint64, bad int, before *uint64, next *int64, yield func(store.Entry, error) bool) bool {
	expected := *next
	if expected < 0 && bad > 0 && *before <= s.state.last {
		expected = int64(*before) - 1
	}
	for left := max(1, bad); left > 0 && expected > int64(came) && uint64(expected) >= from; left-- {
		n := uint64(expected)
		*before = n
		if expected--; !yield(store.Entry{N: n}, fmt.Errorf("entry %d: %w", n, store.ErrDamaged)) {
			return false
		}
	}
	return true
}

// seek finds the first line whose entry has at least this number.
func (s *source) seek(n uint64) (int64, error) {
	low, high := int64(0), s.state.bytes
	if n <= 1 || n <= s.state.first && !s.state.trimmed {
		return 0, nil
	}
	if s.examined && s.state.lines == 0 { // damage was met now: lines may not be where the state says
		return s.scan(n, low, high)
	}
	if last := s.state.lastMark; last > 0 {
		switch {
		case last == n:
			return s.state.mark.offset, nil
		case last < n:
			low = s.state.mark.offset
		default:
			high = s.state.mark.offset
		}
		if last == n-1 { // what follows the last mark
			low = s.state.mark.end
		}
	}
	if s.state.lines == 0 {
		return s.bisect(n, low, high)
	}
	if err := s.examine(); err != nil { // numbers may be out of order there
		return 0, err
	}
	return s.scan(n, low, high)
}

// bisect finds the first line with at least this number between two lines; the one at low has a lower number, or is the first.
func (s *source) bisect(n uint64, low, high int64) (int64, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	for open := high; open-low > blockSize; { // undecided are the lines that begin from low to open
		middle := low + (open-low)/2
		in := forward{r: s.file, f: s.log.framing, next: middle - 1, end: high, buf: (*buf)[:0]}
		found, err := s.firstEntry(&in)
		*buf = in.buf
		switch {
		case err != nil:
			return 0, err
		case found.n == 0 || found.at.offset >= open:
			open = middle
		case found.n < n:
			low = found.at.offset
		default:
			open, high = middle, found.at.offset
		}
	}
	return s.scan(n, low, high)
}

// firstEntry is the place of the first entry that begins behind where in is.
func (s *source) firstEntry(in *forward) (spot, error) {
	_, err := in.line() // its end, at least
	for err == nil {
		var ln line
		if ln, err = in.line(); err == nil {
			if e, err := ln.parse(s.log.framing); err == nil && e.entry() {
				return spot{e.N, ln.extent}, nil
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return spot{}, err
}

// scan finds the first line with at least this number between two lines by reading all of them.
func (s *source) scan(n uint64, low, high int64) (int64, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	in := forward{r: s.file, f: s.log.framing, next: low, end: high, buf: *buf}
	defer func() { *buf = in.buf }()
	for {
		ln, err := in.line()
		if errors.Is(err, io.EOF) {
			return high, nil
		}
		if err != nil {
			return 0, err
		}
		if e, err := ln.parse(s.log.framing); err == nil && e.entry() && e.N >= n && !s.skip[ln.offset] {
			return ln.offset, nil
		}
	}
}

// marked yields marked entries: by the index as far as it goes, the rest by reading all entries.
func (s *source) marked(from, before uint64, newest bool) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if s.state.lastMark < from || s.state.lastMark == 0 {
			return
		}
		if !s.unmarked {
			done, err := s.indexedMarks(&from, &before, newest, yield)
			if err != nil {
				yield(store.Entry{}, s.explain(err))
			}
			if done || err != nil {
				return
			}
		}
		rest := s.forward(from, before, nil)
		if newest {
			rest = s.backward(from, before)
		}
		for e, err := range rest {
			if err == nil && !e.Mark || errors.Is(err, store.ErrDamaged) {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// indexedMarks yields the marked entries whose marks are in the index. done says that no others are left; else the range is what is left.
func (s *source) indexedMarks(from, before *uint64, newest bool, yield func(store.Entry, error) bool) (done bool, err error) {
	at, step := int64(0), int64(1)
	if newest {
		at, step = s.state.marks-1, -1
	}
	first, ok := s.findMark(*from)
	if !ok {
		return false, nil
	}
	if !newest {
		at = first
	}
	for ; at >= first && at < s.state.marks; at += step {
		p, ok := s.markAt(at)
		if !ok || p.n < *from {
			return false, nil
		}
		if p.n >= *before {
			if newest {
				continue
			}
			return true, nil
		}
		text := make([]byte, p.at.end-p.at.offset)
		if n, err := s.file.ReadAt(text, p.at.offset); n < len(text) {
			if err == nil || errors.Is(err, io.EOF) {
				err = errCut
			}
			return false, err
		}
		e, err := line{text: text}.parse(s.log.framing)
		if err != nil || e.N != p.n || !e.Mark {
			return false, nil
		}
		if newest {
			*before = e.N
		} else {
			*from = e.N + 1
		}
		if !yield(e.Entry, nil) {
			return true, nil
		}
	}
	return true, nil
}

// findMark returns the place in the index of the first mark with at least this number.
func (s *source) findMark(n uint64) (int64, bool) {
	low, high := int64(0), s.state.marks
	for low < high {
		middle := low + (high-low)/2
		p, ok := s.markAt(middle)
		if !ok {
			return 0, false
		}
		if p.n < n {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, true
}

// markAt reads a mark of the index.
func (s *source) markAt(i int64) (p spot, ok bool) {
	if kept := s.state.marks - int64(len(s.extra))/markSize; i >= kept {
		return parseMark(s.extra[(i-kept)*markSize:])
	}
	var text [markSize]byte
	if s.index == nil {
		return p, false
	}
	if n, _ := s.index.ReadAt(text[:], int64(slots*s.slotSize)+i*markSize); n < markSize {
		return p, false
	}
	p, ok = parseMark(text[:])
	return p, ok && p.at.offset >= 0 && p.at.end > p.at.offset && p.at.end <= s.state.bytes
}

// explain says why the log cannot be read on.
func (s *source) explain(err error) error {
	if errors.Is(err, errCut) || errors.Is(err, fs.ErrClosed) {
		return s.log.gone(err)
	}
	return fmt.Errorf("read log %s: %w", s.log.name, vfs.Explain(err))
}

// Read implements [store.Log].
func (s *Space) Read(ctx context.Context, name string, r store.Range) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		l, src, err := s.hold(ctx, name)
		if err == nil {
			defer s.release(l)
			if src.state.trimmed && r.From != 0 && r.From < src.state.first {
				err = store.ErrExpired
			}
		}
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		n := 0
		for e, err := range src.entries(r) {
			if ctx.Err() != nil {
				e, err = store.Entry{}, context.Cause(ctx)
			}
			if !yield(e, err) || err != nil && !errors.Is(err, store.ErrDamaged) {
				return
			}
			if n++; n == r.Limit {
				return
			}
		}
	}
}
