package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/lingserve/lingserve/tape"
)

// source is a tape as it was at one moment. It needs no lock: what it covers never changes.
type source struct {
	log   *log
	file  handle
	index handle
	kept  int64
	extra []byte
	state state

	known   []place // anchors that were passed
	damaged []int64 // offsets of lines that were met and cannot be read
}

// tell lets the tape count its lines anew, where reading has met more that cannot be read than its state knows of: the file was damaged after
// its index was written.
func (s *source) tell() {
	if int64(len(s.damaged)) > s.state.Unreadable && s.log != nil {
		s.log.recount(int64(len(s.damaged)))
	}
}

// met notes a line that cannot be read, once however often it is passed.
func (s *source) met(ln line) {
	if !slices.Contains(s.damaged, ln.offset) && len(s.damaged) <= maxMet {
		s.damaged = append(s.damaged, ln.offset)
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
			e, ok := readable(ln)
			if !ok || e.ID <= last { // seen when the state was made, and counted, or damaged since
				s.met(ln)
				continue
			}
			if last = e.ID; e.ID >= before || !yield(e, nil) {
				return
			}
		}
	}
}

func (s *source) backward(after, before int64) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		end := s.state.Bytes
		if before <= s.state.LastID {
			var err error
			if end, err = s.seek(before); err != nil {
				yield(tape.Entry{}, s.explain(err))
				return
			}
		}
		in := backward{r: s.file, begin: end, end: end}
		skip, err := s.misplaced()
		if err != nil {
			yield(tape.Entry{}, s.explain(err))
			return
		}
		defer s.tell()
		for {
			ln, err := in.line()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(tape.Entry{}, s.explain(err))
				return
			}
			e, ok := readable(ln)
			if !ok || e.ID >= before || skip[ln.offset] {
				if !ok {
					s.met(ln)
				}
				continue
			}
			if e.ID <= after || !yield(e, nil) {
				return
			}
		}
	}
}

// readable is the entry of a line, in memory of its own.
func readable(ln line) (tape.Entry, bool) {
	if ln.text == nil {
		return tape.Entry{}, false
	}
	e, _, err := parse(bytes.Clone(ln.text))
	return e, err == nil
}

// seek finds the first line whose entry has at least this id.
func (s *source) seek(id int64) (int64, error) {
	if id <= 1 {
		return 0, nil
	}
	low, high := int64(0), s.state.Bytes
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
	if s.state.Unreadable > 0 { // ids may be out of order there
		return s.scan(id, low, high)
	}
	return s.bisect(id, low, high)
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
		if ln, err = in.line(); err == nil && ln.text != nil {
			if e, _, err := parse(ln.text); err == nil {
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
		if e, _, err := parse(ln.text); ln.text != nil && err == nil && e.ID >= id {
			return ln.offset, nil
		}
	}
}

// misplaced finds the lines whose ids are not above those before them: they are none of the tape's. Forwards they show by
// themselves; backwards they are to be known first. Only a tape that somebody has damaged has any.
func (s *source) misplaced() (map[int64]bool, error) {
	if s.state.Unreadable == 0 {
		return nil, nil
	}
	buf := getBuffer()
	defer putBuffer(buf)
	in := forward{r: s.file, end: s.state.Bytes, buf: *buf}
	defer func() { *buf = in.buf }()
	found := map[int64]bool{}
	for last := int64(0); ; {
		ln, err := in.line()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		switch e, _, err := parse(ln.text); {
		case ln.text == nil || err != nil:
		case e.ID <= last:
			found[ln.offset] = true
		default:
			last = e.ID
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
	return fmt.Errorf("read tape %s: %w", s.state.Tape, err)
}
