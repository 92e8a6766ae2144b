package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
)

// source is a tape as it was at one moment. It needs no lock: what it covers never changes.
type source struct {
	log   *log
	file  vfs.File
	index vfs.File
	kept  int64
	extra []byte
	state state

	known    []place        // anchors that were passed
	examined bool           // damage was met, or known before
	skip     map[int64]bool // see misplaced
	met      []int64        // offsets of lines that were met and cannot be read
}

// examine finds out which lines are to be passed over, where the tape is damaged.
func (s *source) examine() (err error) {
	switch {
	case s.examined:
	case s.log == nil:
		s.skip, err = misplaced(s.file, s.state.Bytes)
	default:
		s.skip, err = s.log.examine(s)
	}
	s.examined = true
	return err
}

// tell lets the tape be examined again, where more lines were met that cannot be read than are known of: it was damaged since.
func (s *source) tell() {
	if int64(len(s.met)) > s.state.Unreadable && s.log != nil {
		s.log.recount(int64(len(s.met)))
	}
}

// meet notes a line that cannot be read, once however often it is passed.
func (s *source) meet(ln line) {
	if !slices.Contains(s.met, ln.offset) && len(s.met) <= maxMet {
		s.met = append(s.met, ln.offset)
	}
}

// maxMet bounds the lines that are noted. A tape with more of them is a ruin, whose damage need not be counted to the last.
const maxMet = 1024

// place is where the line of an entry lies.
type place struct {
	id int64
	at span
}

// Entries implements tape.Source.
func (s *source) Entries(after, before int64, newest bool) iter.Seq2[tape.Entry, error] {
	if newest {
		return s.backward(after, before)
	}
	return s.forward(after, before)
}

func (s *source) forward(after, before int64) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		if after >= s.state.LastID {
			return
		}
		start, err := s.seek(after + 1)
		if err == nil && s.state.Unreadable > 0 {
			err = s.examine()
		}
		if err != nil {
			yield(tape.Entry{}, s.explain(err))
			return
		}
		buf := getBuffer()
		defer putBuffer(buf)
		in := forward{r: s.file, next: start, end: s.state.Bytes, buf: *buf}
		defer func() { *buf = in.buf }()
		defer s.tell()
		for last := after; ; {
			ln, err := in.line()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(tape.Entry{}, s.explain(err))
				return
			}
			e, err := readable(ln)
			if damaged := err != nil || e.ID <= last || e.before > last; damaged && !s.examined {
				if err = s.examine(); err == nil {
					start, err = s.seek(last + 1) // what led here may lie in another place
				}
				if err != nil {
					yield(tape.Entry{}, s.explain(err))
					return
				}
				in = forward{r: s.file, next: start, end: s.state.Bytes, buf: in.buf[:0]}
				continue
			}
			if err != nil || e.ID <= last || s.skip[ln.offset] {
				s.meet(ln)
				continue
			}
			if last = e.ID; e.ID >= before || !yield(e.Entry, nil) {
				return
			}
		}
	}
}

func (s *source) backward(after, before int64) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		defer s.tell()
		next := int64(-1) // id of the next entry; -1 where that is not known
		if before > s.state.LastID {
			next = s.state.LastID
		}
		for {
			again, err := s.backwardFrom(after, &before, &next, yield)
			if err != nil {
				yield(tape.Entry{}, s.explain(err))
			}
			if !again || err != nil {
				return
			}
		}
	}
}

// backwardFrom yields the entries before an id. again says that damage was met: what is left is to be read another time.
func (s *source) backwardFrom(after int64, before, next *int64, yield func(tape.Entry, error) bool) (again bool, err error) {
	end := s.state.Bytes
	if *before <= s.state.LastID {
		if end, err = s.seek(*before); err != nil {
			return false, err
		}
	} else if s.state.Unreadable > 0 {
		if err := s.examine(); err != nil {
			return false, err
		}
	}
	in := backward{r: s.file, begin: end, end: end}
	for {
		ln, err := in.line()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		e, err := readable(ln)
		if damaged := err != nil || e.ID >= *before || *next >= 0 && e.ID != *next; damaged && !s.examined {
			return true, s.examine()
		}
		if err != nil || e.ID >= *before || s.skip[ln.offset] {
			s.meet(ln)
			continue
		}
		*before, *next = e.ID, e.before
		if e.ID <= after || !yield(e.Entry, nil) {
			return false, nil
		}
	}
}

// readable is the entry of a line, in memory of its own.
func readable(ln line) (entry, error) {
	ln.text = bytes.Clone(ln.text)
	return ln.parse()
}

// seek finds the first line whose entry has at least this id.
func (s *source) seek(id int64) (int64, error) {
	if id <= 1 {
		return 0, nil
	}
	low, high := int64(0), s.state.Bytes
	if s.examined && s.state.Unreadable == 0 { // damage was met now: lines may not be where the state says
		return s.scan(id, low, high)
	}
	narrow := func(p place) {
		if p.id < id {
			low = max(low, p.at.offset)
		} else {
			high = min(high, p.at.offset)
		}
		if p.id == id-1 { // what follows an anchor
			low = max(low, p.at.end)
		}
	}
	if s.state.Anchors > 0 {
		narrow(place{s.state.LastAnchor.ID, s.state.anchor})
		if s.state.LastAnchor.ID == id {
			return s.state.anchor.offset, nil
		}
	}
	for _, p := range s.known {
		narrow(p)
		if p.id == id {
			return p.at.offset, nil
		}
	}
	if s.state.Unreadable == 0 {
		return s.bisect(id, low, high)
	}
	if err := s.examine(); err != nil { // ids may be out of order there
		return 0, err
	}
	return s.scan(id, low, high)
}

// bisect finds the first line with at least this id between two lines; the one at low has a lower id, or is the first.
func (s *source) bisect(id, low, high int64) (int64, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	for open := high; open-low > blockSize; { // undecided are the lines that begin from low to open
		middle := low + (open-low)/2
		in := forward{r: s.file, next: middle - 1, end: high, buf: (*buf)[:0]}
		found, err := firstEntry(&in)
		*buf = in.buf
		switch {
		case err != nil:
			return 0, err
		case found.id == 0 || found.at.offset >= open:
			open = middle
		case found.id < id:
			low = found.at.offset
		default:
			open, high = middle, found.at.offset
		}
	}
	return s.scan(id, low, high)
}

// firstEntry is the place of the first entry that begins behind where in stands.
func firstEntry(in *forward) (place, error) {
	_, err := in.line() // its end, at least
	for err == nil {
		var ln line
		if ln, err = in.line(); err == nil {
			if e, err := ln.parse(); err == nil {
				return place{e.ID, ln.span}, nil
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return place{}, err
}

// scan finds the first line with at least this id between two lines by reading all of them.
func (s *source) scan(id, low, high int64) (int64, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	in := forward{r: s.file, next: low, end: high, buf: *buf}
	defer func() { *buf = in.buf }()
	for {
		ln, err := in.line()
		if errors.Is(err, io.EOF) {
			return high, nil
		}
		if err != nil {
			return 0, err
		}
		if e, err := ln.parse(); err == nil && e.ID >= id && !s.skip[ln.offset] {
			return ln.offset, nil
		}
	}
}

// Anchors implements tape.Source.
func (s *source) Anchors() iter.Seq2[tape.AnchorRef, error] {
	return func(yield func(tape.AnchorRef, error) bool) {
		if s.state.Anchors == 0 {
			return
		}
		pass := func(ref tape.AnchorRef, at span) bool {
			s.known = append(s.known[:min(len(s.known), maxKnown)], place{ref.ID, at})
			return yield(ref, nil)
		}
		if !pass(s.state.LastAnchor, s.state.anchor) {
			return
		}
		before := place{s.state.LastAnchor.ID, s.state.anchor}
		left := s.state.Anchors - 1
		for record := range s.records() {
			if left == 0 {
				return
			}
			// Records of one anchor may be there twice, and some of what a crash took back.
			if record.Anchors != left || record.LastAnchor.ID >= before.id || record.anchor.end > before.at.offset {
				continue
			}
			ref, err := readAnchor(s.file, record.LastAnchor.ID, record.anchor)
			if err != nil {
				continue
			}
			if !pass(ref, record.anchor) {
				return
			}
			before = place{ref.ID, record.anchor}
			left--
		}
		if left == 0 {
			return
		}
		// The index does not have them all: the tape does.
		for e, err := range s.backward(0, before.id) {
			if err != nil {
				yield(tape.AnchorRef{}, err)
				return
			}
			if e.Kind == tape.KindAnchor && !yield(tape.AnchorOf(e), nil) {
				return
			}
		}
	}
}

// maxKnown bounds what is remembered of the anchors of a query: it ends at one of them, or begins behind it.
const maxKnown = 64

// records yields the index's records behind its slots, newest first.
func (s *source) records() iter.Seq[state] {
	return func(yield func(state) bool) {
		for end := len(s.extra); end >= recordSize; end -= recordSize {
			if r, ok := parseState(s.extra[end-recordSize:end], s.state.Tape); ok && !yield(r) {
				return
			}
		}
		if s.index == nil {
			return
		}
		const atOnce = 64
		buf := make([]byte, atOnce*recordSize)
		for end := s.kept; end > 0; {
			n := min(end, atOnce)
			part := buf[:n*recordSize]
			if read, _ := s.index.ReadAt(part, offsetOf(end-n)); read < len(part) {
				return
			}
			for ; len(part) > 0; part = part[:len(part)-recordSize] {
				if r, ok := parseState(part[len(part)-recordSize:], s.state.Tape); ok && !yield(r) {
					return
				}
			}
			end -= n
		}
	}
}

// explain says why the tape cannot be read on.
func (s *source) explain(err error) error {
	if errors.Is(err, errCut) || errors.Is(err, fs.ErrClosed) {
		return s.log.gone(err)
	}
	return fmt.Errorf("read tape %s: %w", s.state.Tape, vfs.Explain(err))
}
