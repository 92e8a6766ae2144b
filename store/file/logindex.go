package file

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"hash/crc32"
	"hash/fnv"
	"io"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/store"
)

// The index of a log is one file:
//
//	slot 0, slot 1   the newest state, written in turn, so that one is whole whatever happens to the other
//	slot 2, slot 3   the state at each mebibyte, in turn: it serves where the log turns out shorter than the newest says
//	marks            24 bytes for each marked entry: where it lies
//
// The slots answer what is asked of a log without reading it. Slots have 512 bytes, or a power of two more where the head needs it.
//
// Nothing is believed: a slot names its log by its checksum and the log's bytes before its length by their hash. An index that is torn, of
// another log or of an earlier log of the same name is passed over, and what is not covered is read.

const (
	slots     = 4
	leastSlot = 512
	mostSlot  = 16 << 10
	slotMagic = "LSI1"
	markSize  = 24
	// tailSize is how much of the log before a slot's length is compared.
	tailSize = 128
	// checkEvery is the length after which a state is kept: what must be read again when the newest does not fit.
	checkEvery = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// state is what is known of a log of a certain length without reading it.
type state struct {
	name                  string
	bytes                 int64 // of the file, up to the end of the last whole batch
	first, last, lastMark uint64
	entries, size         int64  // of those that are kept
	mark                  extent // the line of the last mark
	marks                 int64  // marked entries in the file
	created, updated      int64  // µs
	life, count           uint64
	id                    [16]byte // of the last batch
	label                 string
	head                  []byte
	trimmed               bool
	lines                 int64 // damaged ones
	tail                  uint64
	side                  uint64 // hash of the side file

	// What a slot does not have.
	broken bool   // the last line cannot be read
	hurt   bool   // damage was met behind the last whole batch
	found  damage // the first that was met when the log was read last

	rebuilt Head // while the lines of a codec are read; nil: it is the head
}

// damage is what is wrong with a log at a place.
type damage struct {
	offset int64
	why    error // nil is no damage
}

// extent is where a line lies.
type extent struct{ offset, end int64 }

func newLife() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// add takes in an entry.
func (s *state) add(e *store.Entry, at extent) {
	if s.entries == 0 {
		s.first = e.N
	}
	if s.last = e.N; e.N < s.first { // it was trimmed
		return
	}
	s.entries++
	s.size += int64(len(e.Data))
	if e.Mark {
		s.lastMark, s.mark = e.N, at
		s.marks++
	}
}

// trimTo takes in that the entries below a number are gone.
func (s *state) trimTo(first uint64, entries, size int64) {
	s.first, s.entries, s.size, s.trimmed = first, entries, size, true
	if s.lastMark < first {
		s.lastMark = 0
	}
}

// count takes in damage.
func (s *state) damaged(d damage) {
	if s.lines++; s.found.why == nil {
		s.found = d
	}
}

// there reports whether there is a log.
func (s *state) there() bool { return s.count > 0 }

func (s *state) rev() store.Rev {
	var text [48]byte
	return store.Rev(s.appendRev(text[:0], s.count))
}

func (s *state) appendRev(dst []byte, count uint64) []byte {
	if count == 0 {
		return dst // store.New
	}
	return strconv.AppendUint(append(strconv.AppendUint(dst, s.life, 36), '.'), count, 10)
}

// isAt reports whether a revision is that of a count of batches.
func (s *state) isAt(r store.Rev, count uint64) bool {
	var text [48]byte
	return string(s.appendRev(text[:0], count)) == string(r)
}

func (s *state) info() store.Info {
	return store.Info{
		Name: s.name, Label: s.label, Rev: s.rev(), First: s.first, Last: s.last, LastMark: s.lastMark, Entries: s.entries, Bytes: s.size,
		Head: s.head, Created: time.UnixMicro(s.created), Updated: time.UnixMicro(s.updated),
	}
}

func hashOf(text []byte) uint64 {
	h := fnv.New64a()
	h.Write(text)
	return h.Sum64()
}

// numbers are those of a slot.
func (s *state) numbers() []*int64 {
	return []*int64{
		&s.bytes, &s.entries, &s.size, &s.mark.offset, &s.mark.end, &s.marks, &s.created, &s.updated, &s.lines,
	}
}

func (s *state) unsigned() []*uint64 {
	return []*uint64{&s.first, &s.last, &s.lastMark, &s.life, &s.count, &s.tail, &s.side}
}

// appendTo appends the state as a slot has it, without its padding.
func (s *state) appendTo(dst []byte) []byte {
	start := len(dst)
	dst = append(append(dst, slotMagic...), make([]byte, 8)...) // the checksum and the length
	for _, n := range s.numbers() {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(*n))
	}
	for _, n := range s.unsigned() {
		dst = binary.LittleEndian.AppendUint64(dst, *n)
	}
	trimmed := byte(0)
	if s.trimmed {
		trimmed = 1
	}
	dst = append(append(dst, trimmed), s.id[:]...)
	dst = appendBytes(appendBytes(dst, []byte(s.label)), s.head)
	binary.LittleEndian.PutUint32(dst[start+8:], uint32(len(dst)-start))
	end := len(dst)
	dst = append(dst, s.name...)
	binary.LittleEndian.PutUint32(dst[start+4:], sumOfSlot(dst[start:end], dst[end:]))
	return dst[:end]
}

func sumOfSlot(slot, name []byte) uint32 {
	return crc32.Update(crc32.Checksum(name, castagnoli), castagnoli, slot[8:])
}

// parseState reads a slot; it is false when it is none of this log.
func parseState(slot []byte, name string) (s state, ok bool) {
	if len(slot) < 12 || string(slot[:4]) != slotMagic {
		return s, false
	}
	n := binary.LittleEndian.Uint32(slot[8:])
	if n < 12 || int64(n) > int64(len(slot)) || binary.LittleEndian.Uint32(slot[4:]) != sumOfSlot(slot[:n], []byte(name)) {
		return s, false
	}
	s.name = name
	r := reader{rest: slot[12:n]}
	for _, n := range s.numbers() {
		*n = int64(binary.LittleEndian.Uint64(r.take(8)))
	}
	for _, n := range s.unsigned() {
		*n = binary.LittleEndian.Uint64(r.take(8))
	}
	s.trimmed = r.take(1)[0] == 1
	s.id = [16]byte(r.take(16))
	s.label = string(r.bytes())
	s.head = bytes.Clone(r.bytes())
	sane := !r.bad && s.bytes >= 0 && s.count > 0 && s.entries >= 0 && s.marks >= 0 && 0 <= s.mark.offset && s.mark.offset <= s.mark.end &&
		s.mark.end <= s.bytes
	return s, sane
}

// tailOf hashes what lies before the length in the log; it is false where the log is shorter.
func tailOf(r io.ReaderAt, length int64) (uint64, bool) {
	var buf [tailSize]byte
	n := min(length, tailSize)
	if read, _ := r.ReadAt(buf[:n], length-n); int64(read) < n {
		return 0, false
	}
	return hashOf(buf[:n]), true
}

// fits says whether the log still begins as it did when the state was written down.
func (s *state) fits(r io.ReaderAt, size int64) bool {
	if s.bytes > size {
		return false
	}
	tail, ok := tailOf(r, s.bytes)
	return ok && tail == s.tail
}

// newer reports whether a state says more than another of the same log.
func (s *state) newer(than *state) bool {
	if s.bytes != than.bytes {
		return s.bytes > than.bytes
	}
	return s.count > than.count || s.count == than.count && s.lines > than.lines
}

// slotMark is the beginning of a slot, with its checksum: another state has another one.
type slotMark [12]byte

// indexed is what an index says.
type indexed struct {
	best state       // the newest that fits the log; the empty state, which fits every log, if there is none
	last state       // the newest, whether it fits or not
	slot int         // that of last
	size int         // of the slots; 0: there are none
	seen [2]slotMark // slots 0 and 1
}

// readIndex finds the newest state in an index that fits the log.
func readIndex(index io.ReaderAt, name string, r io.ReaderAt, size int64) (x indexed) {
	x.best.name, x.last.name = name, name
	buf := make([]byte, slots*leastSlot)
	for slotSize := leastSlot; slotSize <= mostSlot; slotSize *= 2 {
		if slotSize > leastSlot {
			buf = make([]byte, slots*slotSize)
		}
		n, _ := index.ReadAt(buf, 0)
		for i := range slots {
			s, ok := parseState(buf[min(n, i*slotSize):min(n, (i+1)*slotSize)], name)
			if !ok {
				continue
			}
			x.size = slotSize
			if s.newer(&x.last) {
				x.last, x.slot = s, i
			}
			if s.newer(&x.best) && s.fits(r, size) {
				x.best = s
			}
		}
		if x.size != 0 || n < len(buf) {
			for i := range x.seen {
				copy(x.seen[i][:], buf[i*x.size:])
			}
			return x
		}
	}
	return x
}

// spot is where the line of an entry lies.
type spot struct {
	n  uint64
	at extent
}

func appendMark(dst []byte, p spot) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, p.n)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(p.at.offset))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(p.at.end-p.at.offset))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

func parseMark(text []byte) (p spot, ok bool) {
	p.n, p.at.offset = binary.LittleEndian.Uint64(text), int64(binary.LittleEndian.Uint64(text[8:]))
	p.at.end = p.at.offset + int64(binary.LittleEndian.Uint32(text[16:]))
	return p, binary.LittleEndian.Uint32(text[20:]) == crc32.Checksum(text[:20], castagnoli)
}
