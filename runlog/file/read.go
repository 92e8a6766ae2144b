package file

import (
	"bytes"
	"cmp"
	"encoding/binary"
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

// readAll reads what the files have of runs that were not dropped, those that began first first. Damaged parts of a file are skipped.
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
		name := segmentName(s.number)
		text, err := readFile(l.folder, name)
		if err != nil {
			return nil, nil, err
		}
		s.size = int64(len(text))
		for _, d := range known.file(s.number, text) {
			if d.torn {
				l.log.Info("file of running runs is incomplete after a crash", "file", name, "whole", d.at, "error", d.why)
			} else {
				l.log.Warn("skipped damage in running runs", "file", name, "offset", d.at, "bytes", d.end-d.at, "error", d.why)
			}
		}
	}
	for _, r := range known.byHandle {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b *replayed) int { return cmp.Compare(a.order, b.order) })
	return runs, files, nil
}

func readFile(d folder, name string) ([]byte, error) {
	f, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	return io.ReadAll(f)
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

// damage is a part of a file that cannot be read.
type damage struct {
	at, end int64
	why     string
	torn    bool // as a write that a crash has cut off
}

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
}

// file reads a file, and returns what of it is damaged.
func (k *reader) file(number uint64, text []byte) []damage {
	begin := func(boot [8]byte) { k.boot, k.number = boot, number }
	return frames(number, text, begin, k.records)
}

const headSize = int64(len(mark) + 8)

// frames reads the frames of a file: begin takes the file's head, and records takes what each frame holds; records returns false for a
// form that it does not know. frames skips what is damaged, and returns it.
func frames(number uint64, text []byte, begin func(boot [8]byte), records func([]byte) bool) (list []damage) {
	size := int64(len(text))
	if size < headSize || string(text[:len(mark)]) != mark {
		return []damage{{0, size, "it does not start with the format's header", size < headSize || isZero(text)}}
	}
	boot := [8]byte(text[len(mark):])
	begin(boot)
	for at := headSize; at < size; {
		end, why := frame(boot, number, text, at)
		if why == "" {
			if !records(text[at+frameHead : end]) {
				return append(list, damage{at, size, "a record of no known form", false})
			}
			at = end
			continue
		}
		next := nextFrame(boot, number, text, at, end)
		torn := next == size && (end > size || isZero(text[at:]))
		list = append(list, damage{at, next, why, torn})
		at = next
	}
	return list
}

// frame returns where the frame at an offset ends, and why it cannot be read; "" if it can. The end may lie behind that of the text.
func frame(boot [8]byte, number uint64, text []byte, at int64) (end int64, why string) {
	if int64(len(text))-at < frameHead {
		return at + frameHead, "the head of a frame is cut off"
	}
	length := binary.LittleEndian.Uint32(text[at:])
	end = at + frameHead + int64(length)
	switch {
	case length == 0 || length > maxFrameRead:
		return at, "no frame"
	case end > int64(len(text)):
		return end, "a frame is cut off"
	case checksum(boot, number, at, text[at+frameHead:end]) != binary.LittleEndian.Uint32(text[at+4:]):
		return end, "a frame's checksum does not match"
	}
	return end, ""
}

// maxSearched bounds the bytes whose checksum nextFrame computes, when the length of a frame is damaged.
const maxSearched = 1 << 30

// nextFrame returns where the first readable frame behind the damaged one at an offset begins, or the end of the text. The damaged frame
// says that it ends at end.
func nextFrame(boot [8]byte, number uint64, text []byte, at, end int64) int64 {
	size := int64(len(text))
	if at < end && end < size {
		if _, why := frame(boot, number, text, end); why == "" {
			return end
		}
	}
	searched := int64(0)
	for at++; at+frameHead < size && searched < maxSearched; at++ {
		end, why := frame(boot, number, text, at)
		if why == "" {
			return at
		}
		if end <= size {
			searched += end - at
		}
	}
	return size
}

func isZero(text []byte) bool { return len(bytes.Trim(text, "\x00")) == 0 }

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
			id, from := string(text()), number()
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
