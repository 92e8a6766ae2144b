package nats

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// applied is what the messages of a run come to. It is used from one goroutine, but for what is atomic and the tube.
type applied struct {
	run      string
	lean     bool // without the events
	options  *tube.Options
	follower *tube.Follower // nil before the run has begun
	last     uint64         // sequence of the last message that was taken
	begin    uint64
	other    bool   // the opening is not the one that it began with
	owner    string // the replica that has written it
	wrote    writer // of the last batch that is whole
	whole    uint64 // sequence of its last message
	page     uint64 // sequence of the last page of which that has all
	number   uint64 // of what pages have behind that, up to what was taken
	paged    []byte // the records of that
	opening  atomic.Pointer[[]byte]
	head     atomic.Pointer[[]byte]

	parts []byte // of the batch whose end is not there yet
	of    id     // the part that follows
	at    uint64 // sequence of its first part
}

const (
	maxParts  = 1 << 30 // bytes of a batch, which is one value where it is large
	maxNumber = 1 << 53 // of an event: what comes after is no number to a browser
)

// errBegun says that the message a run begins with is gone.
var errBegun = fmt.Errorf("%w: what it began with has expired", runlog.ErrUnknown)

// take takes the message that follows. What it says is checked: the messages are those of other replicas.
func (a *applied) take(seq uint64, data []byte) error {
	h, records, err := parse(data)
	if err != nil {
		return err
	}
	if a.last == 0 && h.begin != 0 {
		return errBegun
	}
	a.last, a.owner = seq, h.replica
	switch {
	case h.part == 0:
		// Where a replica has died in the middle of a batch, nothing of it counts.
		a.parts, a.of, a.at = nil, h.id, seq
	case h.id != a.of:
		return nil // of a batch that does not count
	}
	if len(a.parts)+len(records) > maxParts {
		return fmt.Errorf("%w: a batch of more than %d bytes", errMessage, maxParts)
	}
	if h.flags&flagMore != 0 {
		a.parts = append(a.parts, records...)
		a.of.part++
		return nil
	}
	if a.parts != nil {
		records, a.parts = append(a.parts, records...), nil
	}
	a.of = id{}
	a.wrote, a.whole, a.page = writer{h.replica, h.run, h.life}, seq, h.page
	a.number, a.paged = 0, a.paged[:0]
	if err := a.records(records); err != nil {
		return fmt.Errorf("message %d: %w", seq, err)
	}
	return nil
}

func (a *applied) records(b []byte) error {
	p := parser{rest: b}
	for len(p.rest) > 0 && !p.bad {
		kind := p.rest[0]
		p.rest = p.rest[1:]
		if kind != recordRun && a.follower == nil {
			return errors.New("something stands before the beginning")
		}
		switch kind {
		case recordRun:
			from, opening := p.number(), p.text()
			if p.bad = p.bad || from > maxNumber; p.bad {
				break
			}
			opening = append([]byte{}, opening...)
			a.opening.Store(&opening)
			a.begin, a.other = a.at, false
			if a.follower != nil {
				a.follower.Restart(from)
				break
			}
			o := *a.options
			o.From = from
			a.follower = tube.NewFollower(a.run, &o)
		case recordAdopt:
		case recordOther:
			if opening := p.text(); !p.bad {
				opening = append([]byte{}, opening...)
				a.opening.Store(&opening)
				a.other = true
			}
		case recordLeap:
			n := p.number()
			if p.bad = p.bad || n > maxNumber; !p.bad {
				a.follower.Leap(n)
			}
		case recordPiece:
			piece := tube.Piece{First: p.number(), Offset: int(p.number() & (1<<31 - 1)), Data: p.text()}
			if p.bad || a.lean {
				break
			}
			if err := a.follower.Piece(piece); err != nil {
				return err
			}
		case recordEnd:
			if head := p.text(); !p.bad {
				head = append([]byte{}, head...)
				a.head.Store(&head)
			}
		default:
			p.bad = true
		}
	}
	if p.bad {
		return errMessage
	}
	return nil
}

// ended says whether the run's end is there.
func (a *applied) ended() bool { return a.head.Load() != nil }

func load(p *atomic.Pointer[[]byte]) []byte {
	if b := p.Load(); b != nil {
		return *b
	}
	return nil
}
