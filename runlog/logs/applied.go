package logs

import (
	"fmt"
	"sync/atomic"

	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tube"
)

// applied is what is stored of a run, as far as it was read. It is used from one goroutine, but for what is atomic and the tube. Records
// may be taken twice.
type applied struct {
	run, name string
	options   *tube.Options
	follower  *tube.Follower // nil before the run has begun
	rev       store.Rev      // of the run's log, as far as it was read
	last      uint64         // number of the last entry of that
	head      head           // then
	page      uint64         // number of the last page that was read
	paged     []byte         // what pages have behind last
	parts     []byte         // of records that go on in the next entry
	opening   atomic.Pointer[[]byte]
	end       atomic.Pointer[[]byte] // the head that the run has ended with
}

func (l *Log) newApplied(run string) *applied {
	return &applied{run: run, name: runName(run), options: l.options.Tube()}
}

// errBegun says that the entry that a run begins in was removed.
var errBegun = fmt.Errorf("%w: its beginning has expired", runlog.ErrUnknown)

// takeEntry takes the next entry of the run's log.
func (a *applied) takeEntry(n uint64, data []byte) error {
	if len(data) == 0 || data[0] > entryMore {
		return fmt.Errorf("entry %d: %w", n, errRecord)
	}
	a.last = n
	if data[0] == entryMore {
		a.parts = append(a.parts, data[1:]...)
		return nil
	}
	records := data[1:]
	if a.parts != nil {
		records, a.parts = append(a.parts, records...), nil
	}
	if err := a.take(records); err != nil {
		return fmt.Errorf("entry %d: %w", n, err)
	}
	return nil
}

// take takes records.
func (a *applied) take(records []byte) error {
	return parseRecords(records, func(r record) error {
		if r.kind != recordRun && a.follower == nil {
			return errRecord
		}
		switch r.kind {
		case recordRun:
			a.opening.Store(new(append([]byte{}, r.text...)))
			if a.follower != nil {
				a.follower.Restart(r.number)
				break
			}
			o := *a.options
			o.From = r.number
			a.follower = tube.NewFollower(a.run, &o)
		case recordOther:
			a.opening.Store(new(append([]byte{}, r.text...)))
		case recordLeap:
			a.follower.Leap(r.number)
		case recordPiece:
			return a.follower.Piece(tube.Piece{First: r.number, Offset: r.offset, Data: r.text})
		case recordEnd:
			a.end.Store(new(append([]byte{}, r.text...)))
		}
		return nil
	})
}

// ended reports whether the run's end was read.
func (a *applied) ended() bool { return a.end.Load() != nil }

func load(p *atomic.Pointer[[]byte]) []byte {
	if b := p.Load(); b != nil {
		return *b
	}
	return nil
}
