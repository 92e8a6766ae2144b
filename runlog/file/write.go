package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

const (
	suffix       = ".log"
	mark         = "lingrun2"
	frameHead    = 8
	maxFrameRead = 1 << 30
	// maxFrom is more than any event's number: numbers are those of JSON.
	maxFrom = 1<<53 - 1
)

// Kinds of records: one byte, then the run's number in the files of this process, but for the last kind, then what it has. A text stands
// behind its length.
const (
	recordRun   = 'r' // id; number of the first event; opening; base. All that came before of this run is of no use.
	recordPiece = 'p' // number of the block's first event, offset in it, bytes
	recordEnd   = 'e' // head
	recordDrop  = 'd' // nothing: it need not be kept any more
	recordGone  = 'g' // id: the same of a run that another process has begun
)

func segmentName(number uint64) string { return fmt.Sprintf("%012d", number) + suffix }

// ready sees to it that there is a file to write to.
func (l *Log) ready(now time.Time) error {
	if l.file != nil {
		s := &l.segments[len(l.segments)-1]
		if s.size < segmentSize && (now.Sub(s.began) < segmentAge || s.size <= int64(len(mark)+len(l.boot))) {
			return nil
		}
		if err := l.sync(now); err != nil {
			return err
		}
		err := l.file.Close()
		l.file = nil
		if err != nil {
			return err
		}
	}
	if len(l.live) == 0 || l.broken && now.Before(l.retry) {
		return nil
	}
	// The number of a file that could not be made is not used again.
	l.number++
	f, err := l.folder.create(segmentName(l.number))
	if err != nil {
		return err
	}
	l.file = f
	l.segments = append(l.segments, segment{number: l.number, began: now})
	return l.put(append([]byte(mark), l.boot[:]...))
}

// take appends what is new of a run to the frame.
func (l *Log) take(e *entry) error {
	state := e.state.Load() // before the tube is looked at: behind an end, nothing comes
	if state == entryDropped {
		if e.index > 0 {
			l.leave(e)
			switch {
			case l.file == nil:
			case e.heir:
				l.frame = appendText(append(l.frame, recordGone), []byte(e.run.ID))
			case e.segment > 0:
				l.frame = binary.AppendUvarint(append(l.frame, recordDrop), e.handle)
			}
		}
		return nil
	}
	if e.index == 0 || e.left && e.segment > 0 {
		return nil
	}
	if l.file == nil {
		l.warn(e)
		return nil
	}
	if e.anew.Swap(false) || e.segment == 0 {
		e.at, e.over = tube.Place{}, false
		if err := l.begin(e); err != nil {
			return err
		}
	}
	for {
		piece, ok := e.run.Tube.Piece(&e.at)
		if !ok {
			if err := l.begin(e); err != nil {
				return err
			}
			continue
		}
		if len(piece.Data) == 0 {
			break
		}
		l.frame = binary.AppendUvarint(append(l.frame, recordPiece), e.handle)
		l.frame = binary.AppendUvarint(l.frame, piece.First)
		l.frame = binary.AppendUvarint(l.frame, uint64(piece.Offset))
		l.frame = appendText(l.frame, piece.Data)
		if len(l.frame) >= maxFrame {
			if err := l.write(); err != nil {
				return err
			}
		}
	}
	if state == entryEnded && !e.over {
		e.over = true
		l.frame = binary.AppendUvarint(append(l.frame, recordEnd), e.handle)
		l.frame = appendText(l.frame, *e.head.Load())
	}
	return nil
}

func appendText(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// begin appends the beginning of a run: what it is, and what it has come to, as far as the pieces that follow do not say it.
func (l *Log) begin(e *entry) error {
	t := e.run.Tube
	var base []byte
	if !t.Compact(smallLog) {
		base = t.AppendBase(nil, &e.at)
	}
	l.frame = binary.AppendUvarint(append(l.frame, recordRun), e.handle)
	l.frame = appendText(l.frame, []byte(e.run.ID))
	l.frame = binary.AppendUvarint(l.frame, t.From())
	l.frame = appendText(l.frame, *e.opening.Load())
	l.frame = appendText(l.frame, base)
	e.segment = l.number
	if len(l.frame) >= maxFrame {
		return l.write()
	}
	return nil
}

// write writes the frame.
func (l *Log) write() error {
	payload := l.frame[frameHead:]
	if len(payload) == 0 || l.file == nil {
		l.frame = l.frame[:frameHead]
		return nil
	}
	at := l.segments[len(l.segments)-1].size
	binary.LittleEndian.PutUint32(l.frame, uint32(len(payload)))
	binary.LittleEndian.PutUint32(l.frame[4:], checksum(l.boot, l.number, at, payload))
	err := l.put(l.frame)
	if cap(l.frame) > 2*maxFrame { // it was for something that seldom comes
		l.frame = make([]byte, frameHead)
	}
	l.frame = l.frame[:frameHead]
	return err
}

func (l *Log) put(text []byte) error {
	n, err := l.file.Write(text)
	l.segments[len(l.segments)-1].size += int64(n)
	l.dirty = true
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is of a frame and of where it stands.
func checksum(boot [8]byte, number uint64, at int64, payload []byte) uint32 {
	var place [24]byte
	copy(place[:], boot[:])
	binary.LittleEndian.PutUint64(place[8:], number)
	binary.LittleEndian.PutUint64(place[16:], uint64(at))
	return crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, payload)
}

func (l *Log) sync(now time.Time) error {
	if l.file == nil || !l.dirty {
		return nil
	}
	l.dirty, l.synced = false, now
	return l.file.Sync()
}

// tidy syncs what is due, and removes what is not needed any more.
func (l *Log) tidy(now time.Time) error {
	if now.Sub(l.synced) >= SyncEvery {
		if err := l.sync(now); err != nil {
			return err
		}
	}
	if len(l.live) == 0 {
		l.clear()
		return nil
	}
	if l.file == nil {
		return nil
	}
	if l.broken {
		// All that goes on stands in the newest file. Those before are of no use once it is safe.
		if err := l.sync(now); err != nil {
			return err
		}
		l.broken = false
		for _, e := range l.live {
			e.warned = false
		}
		l.log.Info("writing running runs again")
		l.removeUpTo(len(l.segments) - 1)
		return nil
	}
	for n := len(l.segments) - 1; n > 0; n-- {
		oldest := l.segments[0]
		taken := oldest.left && len(l.left) == 0 // nobody needs it any more
		if !taken && now.Sub(oldest.began) < keepSegment && !l.tooMuch() {
			return nil
		}
		for _, e := range slices.Clone(l.live) { // taking one that was dropped takes it out
			if e.segment <= oldest.number {
				e.segment = 0
				if err := l.take(e); err != nil {
					return err
				}
			}
		}
		if err := errors.Join(l.write(), l.sync(now)); err != nil {
			return err
		}
		l.removeUpTo(1)
	}
	return nil
}

// tooMuch says whether the files take more than a few times what the runs do.
func (l *Log) tooMuch() bool {
	var stored, needed int64
	for _, s := range l.segments {
		stored += s.size
	}
	if stored <= 4*segmentSize {
		return false
	}
	for _, e := range l.live {
		needed += int64(e.run.Tube.Bytes())
	}
	return stored > 4*needed
}

// removeUpTo removes the oldest files, so many of them.
func (l *Log) removeUpTo(n int) {
	for _, s := range l.segments[:n] {
		if err := l.folder.remove(segmentName(s.number)); err != nil {
			l.log.Warn("cannot remove old files of runs", "file", segmentName(s.number), "error", err)
		}
	}
	l.segments = slices.Delete(l.segments, 0, n)
}

// clear removes all files: nothing goes on.
func (l *Log) clear() {
	if l.file != nil {
		err := l.file.Close() // a file that goes
		l.file, l.dirty = nil, false
		if err == nil {
			l.broken = false
		}
	} else {
		l.broken = false
	}
	l.removeUpTo(len(l.segments))
}

// fail gives the file up. The runs go on, and are written anew when another one can be.
func (l *Log) fail(err error, now time.Time) {
	if !l.broken {
		l.log.Error("cannot write running runs", "code", CodeNotDurable, "error", err)
	}
	l.broken, l.retry = true, now.Add(retryEvery)
	if l.file != nil {
		_ = l.file.Close() // whatever that says, the file is not used any more
		l.file, l.dirty = nil, false
	}
	l.frame = l.frame[:frameHead]
	for _, e := range l.live {
		e.segment = 0
		l.warn(e)
	}
}

// warn tells a run, once each time, that it is not kept.
func (l *Log) warn(e *entry) {
	if e.warned || !l.broken {
		return
	}
	e.warned = true
	if e.run.Trouble != nil {
		e.run.Trouble(runlog.ErrAway)
	}
}
