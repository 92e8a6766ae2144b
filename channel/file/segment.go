package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/vfs"
)

const (
	segmentEnd = ".events"

	// align is what records begin at: the head of one, which is written over, is then within one sector of the disk.
	align      = 64
	headSize   = 48
	maxRaw     = 4 << 20
	maxPayload = maxRaw + 64<<10
	maxBuffer  = 1 << 20 // what is kept of a buffer for records
)

// A record is a head, the parts of the key, each with its length before it, and the event as the door got it; zeros fill it up to
// the next beginning. The head:
//
//	0  magic     what a record begins with
//	4  size      of what follows the head, without the zeros
//	8  at        when it was accepted, in Unix nanoseconds
//	16 flags     1: the id was made from content; 2: erased
//	20 sum       of 4 to 20, and of what follows the head
//	24 state     16 bytes, see putState
//	40           zeros
const magic = "Lev1"

const (
	flagSynthetic = 1
	flagErased    = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// id is a key in memory: half of a SHA-256, so nobody can make two keys with one.
type id [16]byte

func appendKey(dst []byte, k channel.EventKey) []byte {
	for _, part := range [...]string{k.Channel, k.Account, k.Conversation, k.Thread, k.ID} {
		dst = binary.AppendUvarint(dst, uint64(len(part)))
		dst = append(dst, part...)
	}
	return dst
}

func idOf(k channel.EventKey) (i id) {
	var buf [256]byte
	sum := sha256.Sum256(appendKey(buf[:0], k))
	return id(sum[:len(i)])
}

func cutKey(b []byte) (k channel.EventKey, rest []byte, ok bool) {
	for _, part := range [...]*string{&k.Channel, &k.Account, &k.Conversation, &k.Thread, &k.ID} {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return k, nil, false
		}
		*part = string(b[used : used+int(n)])
		b = b[used+int(n):]
	}
	return k, b, true
}

// state is what changes of a record.
type state struct {
	settled bool
	outcome channel.Outcome
	attempt uint8
	begun   bool      // a turn runs with it: of one that is read at the start, the process has died in it
	at      time.Time // of the change
}

// outcomes in the order of their numbers, which never change.
var outcomes = []channel.Outcome{
	"", channel.OutcomeVisible, channel.OutcomeSilent, channel.OutcomeObserved, channel.OutcomeDeferred, channel.OutcomeQueued,
	channel.OutcomeBlocked, channel.OutcomeMerged, channel.OutcomePartial, channel.OutcomeUnknown, channel.OutcomeFailed,
	channel.OutcomeCanceled,
}

const stateOffset, stateSize = 24, 16

// putState writes a state into a record: settled, outcome, attempt, begun, a sum, when.
func putState(record []byte, s state) {
	b := record[stateOffset : stateOffset+stateSize]
	b[0] = 0
	if s.settled {
		b[0] = 1
	}
	b[1] = byte(max(0, slices.Index(outcomes, s.outcome)))
	b[2], b[3] = s.attempt, 0
	if s.begun {
		b[3] = 1
	}
	binary.LittleEndian.PutUint64(b[8:], uint64(s.at.UnixNano()))
	binary.LittleEndian.PutUint32(b[4:], stateSum(b))
}

func stateSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:stateSize])
}

// getState reads a state. One that was torn says that something became of the event; what, is in the ledger at most.
func getState(record []byte) (s state, ok bool) {
	b := record[stateOffset : stateOffset+stateSize]
	if binary.LittleEndian.Uint32(b[4:]) != stateSum(b) || b[0] > 1 || int(b[1]) >= len(outcomes) || b[3] > 1 {
		return s, false
	}
	return state{b[0] == 1, outcomes[b[1]], b[2], b[3] == 1, time.Unix(0, int64(binary.LittleEndian.Uint64(b[8:])))}, true
}

func payloadSize(k channel.EventKey, raw []byte) int {
	n := len(raw)
	for _, part := range [...]string{k.Channel, k.Account, k.Conversation, k.Thread, k.ID} {
		n += len(part) + 1
		for l := len(part); l >= 0x80; l >>= 7 {
			n++
		}
	}
	return n
}

func recordSize(k channel.EventKey, raw []byte) int { return padded(headSize + payloadSize(k, raw)) }

func padded(n int) int { return (n + align - 1) / align * align }

// appendRecord appends the record of an event that was just accepted.
func appendRecord(dst []byte, k channel.EventKey, at time.Time, raw []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, headSize)...)
	dst = appendKey(dst, k)
	dst = append(dst, raw...)
	head := dst[start:]
	copy(head, magic)
	binary.LittleEndian.PutUint32(head[4:], uint32(len(head)-headSize))
	binary.LittleEndian.PutUint64(head[8:], uint64(at.UnixNano()))
	if k.Synthetic {
		binary.LittleEndian.PutUint32(head[16:], flagSynthetic)
	}
	binary.LittleEndian.PutUint32(head[20:], recordSum(head))
	putState(head, state{at: at})
	for len(dst)%align != start%align {
		dst = append(dst, 0)
	}
	return dst
}

func recordSum(record []byte) uint32 {
	return crc32.Update(crc32.Checksum(record[4:20], castagnoli), castagnoli, record[headSize:])
}

// record is what is read of an event.
type record struct {
	key    channel.EventKey
	raw    []byte
	at     time.Time
	state  state
	erased bool
	size   int // with the zeros
}

// errDamaged says that there is no record.
var errDamaged = errors.New("a record of the journal is damaged")

// parseHead reads how long a record is without the zeros.
func parseHead(head []byte) (size int, ok bool) {
	if len(head) < headSize || string(head[:4]) != magic {
		return 0, false
	}
	n := binary.LittleEndian.Uint32(head[4:])
	if n > maxPayload {
		return 0, false
	}
	return headSize + int(n), true
}

// parseRecord reads a record; behind it there may be anything.
func parseRecord(b []byte) (r record, err error) {
	size, ok := parseHead(b)
	if !ok || size > len(b) {
		return r, errDamaged
	}
	b = b[:size]
	flags := binary.LittleEndian.Uint32(b[16:])
	r.size = padded(size)
	r.at = time.Unix(0, int64(binary.LittleEndian.Uint64(b[8:])))
	r.erased = flags&flagErased != 0
	if binary.LittleEndian.Uint32(b[20:]) != recordSum(b) {
		return r, errDamaged
	}
	if r.erased {
		r.state.settled = true
		return r, nil
	}
	if r.key, r.raw, ok = cutKey(b[headSize:]); !ok {
		return r, errDamaged
	}
	r.key.Synthetic = flags&flagSynthetic != 0
	if r.state, ok = getState(b); !ok {
		r.state = state{at: r.at} // it may run again, if the ledger does not know better
	}
	return r, nil
}

// segment is a file of records. Its counts are guarded by the journal's mu.
type segment struct {
	number uint64
	file   vfs.File
	begun  time.Time
	size   int64 // up to the end of the last record
	dirty  atomic.Bool

	// Guarded by the journal's commit.
	torn   bool // events that were refused may follow the last record
	blanks []blank
	lost   error // of the last sync that has failed

	live int   // events that are not settled
	last int64 // when the last one was accepted or settled, in Unix nanoseconds
	ids  []id
}

// errSync says that what was written may be lost, though it can be read.
var errSync = errors.New("the disk failed to make durable what was written")

func (s *segment) name() string { return fmt.Sprintf("%016x%s", s.number, segmentEnd) }

// append writes records and makes them durable, or leaves the segment as it was.
func (s *segment) append(records []byte) error {
	if len(records) == 0 {
		return nil
	}
	if s.torn {
		if err := s.cut(); err != nil {
			return err
		}
	}
	if _, err := s.file.WriteAt(records, s.size); err != nil {
		return errors.Join(err, s.cut())
	}
	if err := s.sync(); err != nil {
		return errors.Join(err, s.cut())
	}
	s.size += int64(len(records))
	return nil
}

// sync makes durable what was written. After it has failed, a later one would not say what is lost.
func (s *segment) sync() error {
	s.dirty.Store(false)
	err := s.file.Sync()
	if err != nil {
		s.dirty.Store(true)
		s.lost = fmt.Errorf("%w: %w", errSync, err)
		return s.lost
	}
	return nil
}

// cut removes what stands behind the last record.
func (s *segment) cut() error {
	s.dirty.Store(true)
	err := s.file.Truncate(s.size)
	s.torn = err != nil
	return err
}

// write writes the state of a record over the one that it has.
func (s *segment) write(offset int64, st state) error {
	var head [headSize]byte
	putState(head[:], st)
	s.dirty.Store(true)
	_, err := s.file.WriteAt(head[stateOffset:stateOffset+stateSize], offset+stateOffset)
	return err
}

// read reads the record at an offset.
func (s *segment) read(offset int64) (record, error) {
	head := make([]byte, 1<<10)
	n, err := s.file.ReadAt(head, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return record{}, err
	}
	head = head[:n]
	size, ok := parseHead(head)
	if !ok {
		return record{}, errDamaged
	}
	if size > n {
		if n < 1<<10 {
			return record{}, errDamaged // cut off
		}
		b := make([]byte, size)
		if n, err = s.file.ReadAt(b, offset); n < size {
			if errors.Is(err, io.EOF) {
				err = errDamaged
			}
			return record{}, err
		}
		head = b
	}
	return parseRecord(head)
}

// blank is the record of an erased event whose overwriting may not be durable yet.
type blank struct {
	offset int64
	record []byte
}

// erase overwrites the records that match, and makes that durable. It returns their keys, also with an error. The next call does again
// what has failed.
func (s *segment) erase(match func(channel.EventKey) bool) (keys []channel.EventKey, err error) {
	if s.torn {
		if err := s.cut(); err != nil {
			return nil, err
		}
	}
	for _, b := range s.blanks {
		if _, err := s.file.WriteAt(b.record, b.offset); err != nil {
			return nil, err
		}
	}
	for offset := int64(0); offset < s.size; {
		r, err := s.read(offset)
		if errors.Is(err, errDamaged) {
			offset += align
			continue
		}
		if err != nil {
			return keys, err
		}
		if !r.erased && match(r.key) {
			record := make([]byte, r.size)
			copy(record, magic)
			binary.LittleEndian.PutUint32(record[4:], uint32(r.size-headSize))
			binary.LittleEndian.PutUint64(record[8:], uint64(r.at.UnixNano()))
			binary.LittleEndian.PutUint32(record[16:], flagErased)
			binary.LittleEndian.PutUint32(record[20:], recordSum(record))
			s.blanks = append(s.blanks, blank{offset, record})
			keys = append(keys, r.key)
			if _, err := s.file.WriteAt(record, offset); err != nil {
				return keys, err
			}
		}
		offset += int64(r.size)
	}
	if len(s.blanks) == 0 && !s.dirty.Load() { // a cut is to be durable, too
		return nil, nil
	}
	if err := s.sync(); err != nil {
		return keys, err
	}
	s.blanks = nil
	return keys, nil
}

// create makes a segment.
func (j *Journal) create(number uint64, now time.Time) (*segment, error) {
	s := &segment{number: number, begun: now, last: now.UnixNano()}
	f, err := j.root.Open(s.name(), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	if err := j.root.SyncFolder("."); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s.file = f
	return s, nil
}

// load reads all segments.
func (j *Journal) load() error {
	var numbers []uint64
	err := j.root.List(".", func(e fs.DirEntry) bool {
		if digits, ok := strings.CutSuffix(e.Name(), segmentEnd); ok && len(digits) == 16 {
			if n, err := strconv.ParseUint(digits, 16, 64); err == nil && n < math.MaxUint64 {
				numbers = append(numbers, n)
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	slices.Sort(numbers)
	now := time.Now()
	var old []*segment
	for _, n := range numbers {
		s := &segment{number: n}
		f, err := j.root.Open(s.name(), os.O_RDWR)
		if err != nil {
			return err
		}
		s.file = f
		j.segments = append(j.segments, s)
		info, err := f.Stat()
		if err != nil {
			return err
		}
		s.begun, s.last = now, info.ModTime().UnixNano() // of one without records
		if err := j.loadSegment(s, info.Size(), now); err != nil {
			return err
		}
	}
	for _, s := range j.segments {
		if s.live == 0 && now.UnixNano()-s.last >= int64(keyLife) {
			old = append(old, s)
		}
	}
	j.remove(old)
	return nil
}

// loadSegment takes in the records of a segment. What is damaged is stepped over: a record is found again at each beginning that
// there may be.
func (j *Journal) loadSegment(s *segment, size int64, now time.Time) error {
	text, err := readAll(s.file, size)
	if err != nil {
		return err
	}
	first := true
	scan(text, func(r record, offset int) {
		if first {
			first, s.begun, s.last = false, r.at, r.at.UnixNano()
		}
		s.size = int64(offset + r.size)
		s.last = max(s.last, r.at.UnixNano(), r.state.at.UnixNano())
		if !r.erased {
			j.loadRecord(s, r, int64(offset), now)
		}
	}, func(offset int, what string) {
		j.log.Warn("journal segment is damaged", "segment", s.name(), "offset", offset, "error", what)
	})
	if s.size < size {
		j.log.Warn("journal segment ends in an unfinished record", "segment", s.name(),
			"offset", s.size, "bytes", size-s.size)
		if err := s.file.Truncate(s.size); err != nil {
			return err
		}
	} else if s.size > size { // zeros at the end of the last record
		if err := s.file.Truncate(s.size); err != nil {
			return err
		}
	}
	return nil
}

// scan calls each with the records of a segment, and damaged with the places before the end of the last record where something is damaged.
func scan(text []byte, each func(r record, offset int), damaged func(offset int, what string)) {
	end := 0
	for offset := 0; offset+headSize <= len(text); {
		r, err := parseRecord(text[offset:])
		if err != nil {
			offset += align
			continue
		}
		if offset > end {
			damaged(end, fmt.Sprintf("%d bytes are not records; the events in them are lost", offset-end))
		}
		if _, ok := getState(text[offset:]); !ok && !r.erased {
			damaged(offset, "the state of an event is not what was written; it may run again")
		}
		each(r, offset)
		offset += r.size
		end = offset
	}
}

// loadRecord takes in one record. A later one of the same key is what counts: the earlier was settled for a day, or it was moved.
func (j *Journal) loadRecord(s *segment, r record, offset int64, now time.Time) {
	k := idOf(r.key)
	if before, ok := j.index[k]; ok && before.event != nil {
		before.in.live--
		j.pending--
		j.bytes -= int64(before.event.size)
	}
	s.ids = append(s.ids, k)
	if r.state.settled {
		until := r.state.at.Add(keyLife)
		if r.key.Synthetic {
			until = r.at.Add(syntheticLife)
		}
		delete(j.index, k)
		if now.Before(until) {
			j.index[k] = slot{in: s, until: until.UnixNano()}
		}
		return
	}
	j.order++
	ev := &event{key: r.key, id: k, order: j.order, at: r.at, attempt: r.state.attempt, size: int32(r.size), in: s, offset: offset}
	if r.state.begun && ev.attempt < math.MaxUint8 {
		ev.attempt++ // whether the event was what ended the process nobody knows, but it may have been
	}
	j.index[k] = slot{event: ev, in: s}
	j.pending++
	j.bytes += int64(r.size)
	s.live++
}

func readAll(f io.ReaderAt, size int64) ([]byte, error) {
	var b bytes.Buffer
	_, err := io.Copy(&b, io.NewSectionReader(f, 0, size))
	return b.Bytes(), err
}
