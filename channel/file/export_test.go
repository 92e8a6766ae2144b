package file

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lingserve/lingserve/internal/vfs"
)

// OpenJournalIn opens a journal in a folder of another file system.
var OpenJournalIn = openJournal

// Abandon ends a journal as the end of its process does: nothing is written any more.
func (j *Journal) Abandon() {
	j.commit <- struct{}{}
	j.layout.Lock()
	j.mu.Lock()
	j.closed = true
	if j.timer != nil && j.timer.Stop() {
		j.sweeping.Done()
	}
	_ = j.closeFiles()
	j.mu.Unlock()
	j.layout.Unlock()
	<-j.commit
	j.sweeping.Wait()
}

// Break makes the disk fail from now on, until it is called with nil: writes leave half of what they were given.
func (j *Journal) Break(writing, syncing error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.segments {
		if b, ok := s.file.(*broken); ok {
			s.file = b.File
		}
		if writing != nil || syncing != nil {
			s.file = &broken{s.file, writing, syncing}
		}
	}
}

type broken struct {
	vfs.File
	writing, syncing error
}

func (b *broken) WriteAt(p []byte, off int64) (int, error) {
	if b.writing == nil {
		return b.File.WriteAt(p, off)
	}
	n, err := b.File.WriteAt(p[:len(p)/2], off)
	return n, errors.Join(b.writing, err)
}

func (b *broken) Sync() error { return b.syncing }

// Segments names the segments, with the events in each that wait.
func (j *Journal) Segments() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var b strings.Builder
	for _, s := range j.segments {
		fmt.Fprintf(&b, "%d:%d ", s.number, s.live)
	}
	return strings.TrimSpace(b.String())
}

// Known counts the keys in memory.
func (j *Journal) Known() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.index)
}

// ParseRecord reads a record.
func ParseRecord(b []byte) (key string, raw []byte, err error) {
	r, err := parseRecord(b)
	return r.key.String(), r.raw, err
}

// Scan finds the records in a text, and writes them again.
func Scan(text []byte, each func(offset, size int, again []byte, raw []byte, erased bool)) {
	scan(text, func(r record, offset int) {
		again := appendRecord(nil, r.key, r.at, r.raw)
		putState(again, r.state)
		each(offset, r.size, again, r.raw, r.erased)
	}, func(int, string) {})
}
