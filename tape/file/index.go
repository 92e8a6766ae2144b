package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"io/fs"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// The index of a tape is one file of records of fixed size. Each record is the tape's state as it was when the tape had a
// certain length:
//
//	slot 0, slot 1   the newest state, written in turn, so that one is whole whatever happens to the other
//	slot 2, 3, 4…    a state for each anchor, the newest last, and one for each mebibyte
//
// The slots answer what is asked of a tape without reading it. The records behind them find anchors by name and serve when
// the tape turns out shorter than the slots say, which only the end of the machine can bring about.
//
// Nothing is believed: a record names its tape by its checksum and the tape's bytes before its length by their hash. So an
// index that is torn, of another tape or of an earlier tape of the same name is passed over, and what is not covered is read.

const (
	recordSize  = 256
	headSlots   = 2
	recordMagic = 0x4c54_4932 // "LTI2": another layout gets another number and is rebuilt
	maxAnchor   = 128         // bytes of an anchor's name; an import may have a longer one, which is then read from the tape
	// tailSize is how much of the tape before a record's length is compared: the date and the meta of an entry, as a rule.
	tailSize = 128
	// markEvery is the length after which a record is kept though there is no anchor: what must be read again when the
	// slots do not fit.
	markEvery = 1 << 20
)

// state is what is known of a tape of a certain length without reading it. Info.Bytes is that length: what ends with the last
// whole batch.
type state struct {
	tape.Info
	badAt  int64 // offset of the first damage
	anchor span  // line of the last anchor
	tail   uint64
	side   uint64 // hash of the session's file
	// unnamed says that the record had no room for the last anchor's name.
	unnamed bool

	// What a record does not have.
	broken bool   // the last line cannot be read
	found  damage // the first that was met when the tape was read last
}

// damage is what is wrong with a tape at a place.
type damage struct {
	offset int64
	why    error // nil is no damage
}

// count takes in damage.
func (s *state) count(d damage) {
	if s.Unreadable++; s.Unreadable == 1 {
		s.badAt = d.offset
	}
	if s.found.why == nil {
		s.found = d
	}
}

// span is where a line lies.
type span struct{ offset, end int64 }

func hashOf(text []byte) uint64 {
	h := fnv.New64a()
	h.Write(text)
	return h.Sum64()
}

// appendTo appends the state's record. What has no fixed size is in the session's file.
func (s *state) appendTo(dst []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, recordMagic)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	for _, n := range [...]int64{
		s.Bytes, s.LastID, s.Entries, s.Unreadable, s.badAt, s.Anchors, s.LastAnchor.ID, s.anchor.offset, s.anchor.end,
		s.Created.UnixMicro(), s.Updated.UnixMicro(), int64(s.tail), int64(s.side), s.LastAnchor.Date.UnixMicro(),
	} {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
	}
	if name := s.LastAnchor.Name; len(name) <= maxAnchor {
		dst = append(append(dst, byte(len(name))), name...)
	} else {
		dst = append(dst, maxAnchor+1)
	}
	dst = append(dst, make([]byte, recordSize-(len(dst)-start))...)
	binary.LittleEndian.PutUint32(dst[start+4:], sumOf(dst[start:], s.Tape))
	return dst
}

// parseState reads a record back; it is false when it is none of this tape.
func parseState(record []byte, name string) (s state, ok bool) {
	if len(record) != recordSize || binary.LittleEndian.Uint32(record) != recordMagic ||
		binary.LittleEndian.Uint32(record[4:]) != sumOf(record, name) {
		return s, false
	}
	var n [14]int64
	for i := range n {
		n[i] = int64(binary.LittleEndian.Uint64(record[8+8*i:]))
	}
	s = state{
		Info: tape.Info{
			Tape: name, Bytes: n[0], LastID: n[1], Entries: n[2], Unreadable: n[3], Anchors: n[5],
			LastAnchor: tape.AnchorRef{ID: n[6]}, Created: time.UnixMicro(n[9]).UTC(), Updated: time.UnixMicro(n[10]).UTC(),
		},
		badAt: n[4], anchor: span{n[7], n[8]}, tail: uint64(n[11]), side: uint64(n[12]),
	}
	if s.Anchors > 0 {
		s.LastAnchor.Date = time.UnixMicro(n[13]).UTC()
		name := record[8+8*len(n):]
		if size := int(name[0]); size <= maxAnchor {
			s.LastAnchor.Name = string(name[1 : 1+size])
		} else {
			s.unnamed = true
		}
	}
	sane := s.Bytes > 0 && s.LastID > 0 && s.Entries > 0 && s.Unreadable >= 0 && s.Anchors >= 0 &&
		0 <= s.anchor.offset && s.anchor.offset <= s.anchor.end && s.anchor.end <= s.Bytes && (s.Anchors > 0) == (s.anchor.end > 0)
	return s, sane
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf is the checksum of a record without the place where the checksum lies.
func sumOf(record []byte, name string) uint32 {
	sum := crc32.Update(0, castagnoli, []byte(name))
	sum = crc32.Update(sum, castagnoli, record[:4])
	return crc32.Update(sum, castagnoli, record[8:])
}

// tailOf hashes what lies before the length in the tape; it is false where the tape is shorter.
func tailOf(r io.ReaderAt, length int64) (uint64, bool) {
	var buf [tailSize]byte
	n := min(length, tailSize)
	if read, _ := r.ReadAt(buf[:n], length-n); int64(read) < n {
		return 0, false
	}
	return hashOf(buf[:n]), true
}

// fits says whether the tape still begins as it did when the state was written down.
func (s *state) fits(r io.ReaderAt, size int64) bool {
	if s.Bytes > size {
		return false
	}
	tail, ok := tailOf(r, s.Bytes)
	return ok && tail == s.tail
}

// records counts those behind the slots in an index of that size; a torn one at the end is written over.
func records(size int64) int64 { return max(0, size/recordSize-headSlots) }

func offsetOf(record int64) int64 { return (headSlots + record) * recordSize }

// lost says what is wrong with the end of a tape that the newest state in its index does not fit; nil is nothing. size is how much of the
// tape was read.
func (s *state) lost(last *state, f interface{ Stat() (fs.FileInfo, error) }, size int64) error {
	if s.Entries > 0 && !s.Created.Equal(last.Created) { // the index of an earlier tape of that name
		return nil
	}
	if last.Bytes > size { // or it has grown since
		if info, err := f.Stat(); err != nil || info.Size() >= last.Bytes {
			return err
		}
	}
	if last.Bytes <= s.Bytes {
		return errors.New("its checksum does not match")
	}
	return fmt.Errorf("it had %d bytes more, with %d entries", last.Bytes-s.Bytes, last.Entries-s.Entries)
}

// newest finds the newest state in an index that fits the tape, and how many of the records behind the slots hold with it.
// The empty state, which fits every tape, is the answer when there is none. last is the newest state whether it fits or not.
func newest(index io.ReaderAt, indexSize int64, name string, r io.ReaderAt, size int64) (best, last state, kept int64, slot int) {
	var buf [headSlots * recordSize]byte
	n, _ := index.ReadAt(buf[:], 0)
	lastSlot := 1
	for i := range headSlots {
		if (i+1)*recordSize > n {
			break
		}
		s, ok := parseState(buf[i*recordSize:(i+1)*recordSize], name)
		if ok && s.newer(&last) {
			last, lastSlot = s, i
		}
		if ok && s.newer(&best) && s.fits(r, size) {
			best, slot = s, i
		}
	}
	kept = records(indexSize)
	if best.Bytes > 0 {
		return best, last, kept, slot
	}
	slot = 1 - lastSlot // what does not fit is written over next
	for kept > 0 {
		if s, ok := readRecord(index, kept-1, name); ok && s.fits(r, size) {
			return s, last, kept, slot
		}
		kept--
	}
	return state{}, last, 0, slot
}

// newer reports whether a state says more than another: of a longer tape, or of more damage in the same one.
func (s *state) newer(than *state) bool {
	return s.Bytes > than.Bytes || s.Bytes == than.Bytes && s.Unreadable > than.Unreadable
}

func readRecord(index io.ReaderAt, record int64, name string) (state, bool) {
	var buf [recordSize]byte
	if n, _ := index.ReadAt(buf[:], offsetOf(record)); n < recordSize {
		return state{}, false
	}
	return parseState(buf[:], name)
}
