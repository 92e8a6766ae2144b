package file

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// replayed is a run as the files have it.
type replayed struct {
	id      string
	opening []byte
	replay  *tube.Replay
	head    []byte // nil where its end is not there
	segment uint64 // that it begins in
	order   int    // among those that have begun
	// stale says that something of it is missing: what follows cannot be used, until it is written anew.
	stale bool
}

func (r *replayed) left() *runlog.Left {
	return &runlog.Left{ID: r.id, Opening: r.opening, Tube: r.replay.Tube(), Head: r.head}
}

// readAll reads what the files have of runs that were not dropped, those that began first first. A file that is torn is read as far as it
// is whole.
func (l *Log) readAll() (runs []*replayed, files []segment, err error) {
	names, err := l.folder.names()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if number, ok := segmentNumber(name); ok {
			files = append(files, segment{number: number})
		}
	}
	slices.SortFunc(files, func(a, b segment) int { return cmp.Compare(a.number, b.number) })
	known := reader{tube: l.tube, byHandle: map[handle]*replayed{}, byRun: map[string]handle{}}
	for i := range files {
		s := &files[i]
		f, err := l.folder.open(segmentName(s.number))
		if err != nil {
			return nil, nil, err
		}
		s.size, err = known.file(s.number, f)
		_ = f.Close() // it was only read
		if torn, ok := errors.AsType[*tornError](err); ok {
			l.log.Info("a file of running runs is not whole; a crash can do that", "file", segmentName(s.number), "whole", torn.at, "error", torn.why)
		} else if err != nil {
			return nil, nil, err
		}
	}
	for _, r := range known.byHandle {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b *replayed) int { return cmp.Compare(a.order, b.order) })
	return runs, files, nil
}

// segmentNumber is that of a file's name.
func segmentNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 12 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// tornError says how far a file is whole.
type tornError struct {
	at  int64
	why string
}

func (e *tornError) Error() string { return fmt.Sprintf("not whole behind %d bytes: %s", e.at, e.why) }

// handle is the number of a run in the files of one process.
type handle struct {
	boot   [8]byte
	number uint64
}

// reader takes files, the oldest first.
type reader struct {
	tube     func() *tube.Options
	byHandle map[handle]*replayed
	byRun    map[string]handle
	began    int // runs

	// Of the file that is read.
	boot   [8]byte
	number uint64
	before bool // it is of the mark before
}

// file reads a file, and returns how far it is whole. A *tornError says that its end is not; others are those of the disk.
func (k *reader) file(number uint64, r io.Reader) (at int64, err error) {
	begin := func(boot [8]byte, before bool) { k.boot, k.number, k.before = boot, number, before }
	return frames(number, r, begin, k.records)
}

// frames reads the frames of a file: begin takes its head, and records what each frame holds; it is false for what has no known form.
func frames(number uint64, r io.Reader, begin func(boot [8]byte, before bool), records func([]byte) bool) (at int64, err error) {
	in := bufio.NewReaderSize(r, 256<<10)
	torn := func(why string) (int64, error) { return at, &tornError{at, why} }
	fill := func(into []byte) (bool, error) {
		_, err := io.ReadFull(in, into)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		return err == nil, err
	}
	var head [len(mark) + 8]byte
	if ok, err := fill(head[:]); err != nil {
		return at, err
	} else if m := string(head[:len(mark)]); !ok || m != mark && m != markBefore {
		return torn("it does not begin as one of ours")
	}
	boot := [8]byte(head[len(mark):])
	begin(boot, string(head[:len(mark)]) == markBefore)
	at = int64(len(head))
	var payload []byte
	for {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return at, nil
		}
		var frame [frameHead]byte
		if ok, err := fill(frame[:]); err != nil {
			return at, err
		} else if !ok {
			return torn("the head of a frame is cut off")
		}
		length := binary.LittleEndian.Uint32(frame[:])
		if length == 0 || length > maxFrameRead {
			return torn("no frame")
		}
		// What is not there is not made room for: a length may be anything.
		whole := bytes.NewBuffer(payload[:0])
		n, err := io.CopyN(whole, in, int64(length))
		if err != nil && !errors.Is(err, io.EOF) {
			return at, err
		}
		payload = whole.Bytes()
		if n < int64(length) {
			return torn("a frame is cut off")
		}
		if checksum(boot, number, at, payload) != binary.LittleEndian.Uint32(frame[4:]) {
			return torn("a frame is not what was written")
		}
		if !records(payload) {
			return torn("a record of no known form")
		}
		at += frameHead + int64(length)
	}
}

// records takes the records of a frame; false where one is of no known form.
func (k *reader) records(rest []byte) bool {
	ok := true
	number := func() uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			ok = false
			return 0
		}
		rest = rest[n:]
		return v
	}
	text := func() []byte {
		n := number()
		if !ok || n > uint64(len(rest)) {
			ok = false
			return nil
		}
		t := rest[:n:n]
		rest = rest[n:]
		return t
	}
	for len(rest) > 0 {
		kind := rest[0]
		rest = rest[1:]
		if kind == recordGone {
			if id := text(); ok {
				k.forget(string(id))
			}
			if !ok {
				return false
			}
			continue
		}
		h := handle{k.boot, number()}
		switch r := k.byHandle[h]; kind {
		case recordRun:
			var id string
			var from uint64
			if !k.before {
				id, from = string(text()), number()
			}
			opening, base := text(), text()
			if !ok || !k.begin(h, id, from, opening, base) {
				return false
			}
		case recordPiece:
			p := tube.Piece{First: number(), Offset: int(number() & (1<<31 - 1)), Data: text()}
			if ok && r != nil && !r.stale && r.head == nil {
				r.stale = r.replay.Piece(p) != nil
			}
		case recordEnd:
			head := text()
			if ok && r != nil && !r.stale && r.replay.Ended() {
				r.head = append([]byte{}, head...)
			}
		case recordDrop:
			if ok && r != nil {
				k.forget(r.id)
			}
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return true
}

func (k *reader) forget(run string) {
	if h, ok := k.byRun[run]; ok {
		delete(k.byHandle, h)
		delete(k.byRun, run)
	}
}

// begin takes the beginning of a run, or of what is written anew of it.
func (k *reader) begin(h handle, id string, from uint64, opening, base []byte) bool {
	if k.before {
		var said struct {
			Run  string
			From uint64
		}
		if json.Unmarshal(opening, &said) != nil {
			return false
		}
		id, from = said.Run, said.From
	}
	if id == "" || from > maxFrom {
		return false
	}
	o := *k.tube()
	o.From, o.Held = from, false
	k.began++
	r := &replayed{id: id, opening: bytes.Clone(opening), replay: tube.NewReplay(id, &o), segment: k.number, order: k.began}
	if len(base) > 0 && r.replay.Base(base) != nil {
		return false
	}
	if before, ok := k.byRun[id]; ok { // of an earlier process, or the same again
		r.order = k.byHandle[before].order
		delete(k.byHandle, before)
	}
	k.byHandle[h], k.byRun[id] = r, h
	return true
}
