package tube

import (
	"fmt"
)

// A Follower makes a tube of the pieces of another one, somewhere else, while that goes on; its tube has readers meanwhile. Pieces
// come in order. One that has what is there already is passed over, event by event; one that leaves something out is
// refused with a [GapError], and changes nothing. The tube has the same events with the same numbers and marks, as far as its
// own MaxBytes allow, and shows those of a piece together. It is used from one goroutine, but for its tube.
type Follower struct {
	tube  *Tube
	known bool   // whether there is a block
	block []byte // as far as it is known
	at    cursor // in it
	first uint64 // number of its first event
	leapt uint64 // no block that begins below it comes any more
}

// GapError says that pieces are missing.
type GapError struct {
	Next  uint64 // the first event that is missing
	Piece Piece  // what came in its place, without its Data
}

func (e *GapError) Error() string {
	if e.Piece.Offset == 0 {
		return fmt.Sprintf("tube: event %d is missing: the piece that came begins with event %d", e.Next, e.Piece.First)
	}
	return fmt.Sprintf("tube: event %d is missing: the piece that came begins %d bytes behind event %d", e.Next, e.Piece.Offset, e.Piece.First)
}

// NewFollower returns the follower of a run that begins with event o.From. Its tube is held, so that somebody can go on with it who
// stores what is sent; what was followed is shown.
func NewFollower(run string, o *Options) *Follower {
	c := *o
	c.Held = true
	return &Follower{tube: New(run, &c)}
}

// Tube returns the tube, which is there from the beginning. Nobody else may send to it while it follows.
func (f *Follower) Tube() *Tube { return f.tube }

// Next returns the number of the next event that is expected.
func (f *Follower) Next() uint64 { return f.tube.written() }

// Piece takes a piece. Errors: a *[GapError]; an [ErrArchive] for what is no piece of a log: what stands before the record that is
// wrong is taken.
func (f *Follower) Piece(p Piece) error {
	next := f.tube.written()
	switch {
	case p.First < f.leapt || f.known && p.First < f.first: // of a block that is over
		return nil
	case f.known && p.First == f.first && p.Offset <= len(f.block):
		p.Data = p.Data[min(len(f.block)-p.Offset, len(p.Data)):]
	case p.Offset == 0 && p.First <= next:
		f.known, f.first, f.block, f.at = true, p.First, f.block[:0], cursor{n: p.First}
	default:
		p.Data = nil
		return &GapError{next, p}
	}
	f.block = append(f.block, p.Data...)
	err := f.records()
	if err != nil {
		f.block = f.block[:f.at.off]
	}
	f.tube.Show(f.tube.written())
	if cap(f.block) > 2*maxBlock || f.tube.ended { // it was for something that seldom comes, or nothing comes any more
		f.block = append([]byte(nil), f.block...)
	}
	return err
}

// records sends what stands in the block behind the cursor.
func (f *Follower) records() error {
	t := f.tube
	for f.at.off < len(f.block) {
		before := f.at
		err := func() error {
			e, terminal, ok := f.at.check(f.block)
			if !ok {
				return errPiece
			}
			if err := check(&e); err != nil {
				return err
			}
			if terminal != e.Terminal() {
				return fmt.Errorf("it is %q: only the last one ends a run", e.Name)
			}
			if e.N < t.written() {
				return nil
			}
			_, size, err := t.append(&e, terminal)
			if size > t.max {
				t.trim(size)
			}
			return err
		}()
		if err != nil {
			f.at = before
			return fmt.Errorf("%w: event %d: %w", ErrArchive, before.n, err)
		}
	}
	return nil
}

// Leap is [Tube.Leap] of who is followed: the same document goes on, with event n.
func (f *Follower) Leap(n uint64) {
	if n > f.tube.written() {
		f.tube.Leap(n)
		f.known, f.block, f.leapt = false, f.block[:0], n
	}
}

// Restart says that the run is run once more, from event n on: the document is empty again, and all readers get a snapshot.
func (f *Follower) Restart(n uint64) {
	if n > f.tube.written() {
		f.tube.restart(n)
		f.known, f.block, f.leapt = false, f.block[:0], n
	}
}
