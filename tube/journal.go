package tube

import (
	"errors"
	"fmt"
	"slices"
)

// A journal is how a tube that goes on is written down piece by piece, so that it is known after a crash how far it came:
// [Tube.Piece] gives what the log has got since, as its own bytes, and where that is too much or not there any more
// [Tube.AppendBase] gives what it folds to. A [Replay] makes a tube of them again. Nothing of this is work for those who send.

// Place is how far a tube was written down. The zero value is the beginning of its log.
type Place struct{ at cursor }

// End returns the number of the event behind it.
func (p Place) End() uint64 { return p.at.n }

// Piece is a part of a block of the log: whole records, whose bytes are part of the log and must not be changed.
type Piece struct {
	First  uint64 // number of the block's first event
	Offset int    // of Data in the block
	End    uint64 // number of the event behind the last one of Data; Replay does not need it
	Data   []byte
}

// Piece returns the next part of the log after p, at most one block, and moves p to its end. Data is empty if there is no more. ok is false if
// the events after p have already left the log.
func (t *Tube) Piece(p *Place) (piece Piece, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := &t.log
	if p.at.seq < l.seq && p.at.n == l.begin() { // what has left the log is written down
		p.at = cursor{seq: l.seq, n: p.at.n}
	}
	data, ok := l.view(&p.at)
	if data == nil {
		return piece, ok
	}
	i := p.at.seq - l.seq
	piece = Piece{First: l.blocks[i].first, Offset: p.at.off, End: l.next, Data: data[p.at.off:len(data):len(data)]}
	if i+1 < len(l.blocks) {
		piece.End = l.blocks[i+1].first
	}
	p.at.off, p.at.n = len(data), piece.End
	return piece, true
}

// Compact says whether the log is whole and takes no more than so many bytes: then its pieces from the beginning are as good
// as a base, or better, since they have all events.
func (t *Tube) Compact(bytes int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.log.seq == 0 && t.log.size <= bytes && t.log.begin() == t.from
}

// AppendBase appends what all events up to now fold to, and those that a document cannot say, and moves p behind them.
func (t *Tube) AppendBase(dst []byte, p *Place) []byte {
	f := &t.folded
	f.mu.Lock() // nothing leaves the log meanwhile
	defer f.mu.Unlock()
	t.mu.Lock()
	t.log.sealed = true // what follows begins a block, for a piece can be read only with all of its block before it
	blocks, seq, next := slices.Clone(t.log.blocks), t.log.seq, t.log.next
	end := next
	if t.ended {
		end = t.terminal
	}
	t.mu.Unlock()
	*p = Place{cursor{seq: seq + len(blocks), n: next}}
	if end == 0 { // there is no base of nothing
		*p = Place{}
		return dst
	}
	f.foldBlocks(blocks, seq, end)
	t.account()

	// The terminal event stands behind what is folded.
	b := base{Next: end, Visible: snapshotOf(f.visible, false), Kept: slices.Collect(f.beside(blocks))}
	if f.all != nil {
		b.All = snapshotOf(f.all, false)
	}
	return b.appendTo(dst)
}

// Replay makes a tube of its base and its pieces, in the order in which they were taken.
type Replay struct {
	run     string
	options Options
	tube    *Tube
	block   []byte // as far as it is known
	at      cursor // in it
	first   uint64 // number of its first event
}

// NewReplay returns the replay of a run.
func NewReplay(run string, o *Options) *Replay {
	return &Replay{run: run, options: *o, tube: New(run, o)}
}

// Tube returns the tube as far as it came. It is asked for when all is there.
func (r *Replay) Tube() *Tube {
	t := r.tube
	if l := &t.log; l.begin() != t.from || l.size > t.max/2 {
		t.forget()
	}
	return t
}

// Ended says whether the end of the run is there.
func (r *Replay) Ended() bool { return r.tube.ended }

// forget removes the log except for the end of the run. If the log of the tube that was written down had lost its beginning,
// it is unknown how far that went, and a client may have had an event as a part of a snapshot, with its id, but nothing of what was
// folded: to continue behind that id from a log that begins before it would be a gap.
func (t *Tube) forget() {
	f := &t.folded
	f.mu.Lock()
	defer f.mu.Unlock()
	t.foldUp()
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.log.blocks) > 1 || len(t.log.blocks) == 1 && !t.ended {
		f.keep(t.log.blocks[0], max(t.max/8, minBlock))
		t.log.shift()
	}
	if !t.ended {
		f.at = cursor{seq: t.log.seq, n: t.log.next}
	}
	t.account()
}

// Base puts what AppendBase has given in the place of all that came before. It takes all of it or nothing.
func (r *Replay) Base(text []byte) error {
	t := New(r.run, &r.options)
	if len(text) > 0 { // else it is the base of no events
		b, err := readBase(text)
		if err == nil {
			err = t.restore(&b)
		}
		if err != nil {
			return fmt.Errorf("%w: a base: %w", ErrArchive, err)
		}
	}
	t.account()
	r.tube, r.block = t, nil
	return nil
}

// errPiece says that bytes are not whole records.
var errPiece = errors.New("not whole records of a log")

// Piece appends a piece, which must follow what is there. Records before a wrong one are added.
func (r *Replay) Piece(p Piece) error {
	switch {
	case p.Offset == 0 && p.First == r.tube.log.next:
		r.block, r.first, r.at = nil, p.First, cursor{n: p.First}
	case p.Offset > 0 && p.First == r.first && p.Offset == len(r.block):
	default:
		return fmt.Errorf("%w: a piece does not follow event %d", ErrArchive, r.tube.log.next)
	}
	r.block = append(r.block, p.Data...)
	for r.at.off < len(r.block) {
		e, terminal, err := r.at.check(r.block)
		if err == nil {
			err = check(&e)
		}
		if err != nil {
			return fmt.Errorf("%w: event %d: %w", ErrArchive, r.tube.log.next, err)
		}
		if terminal != e.Terminal() {
			return fmt.Errorf("%w: event %d is %q: only the last one ends a run", ErrArchive, e.N, e.Name)
		}
		r.tube.log.sealed = r.tube.log.sealed || terminal // the end has a separate block; see forget
		_, size, err := r.tube.append(&e, terminal)
		if err != nil {
			return fmt.Errorf("%w: event %d: %w", ErrArchive, e.N, err)
		}
		if size > r.tube.max {
			r.tube.trim(size)
		}
	}
	return nil
}

// check is read of bytes that may be anything: they are not trusted, so reading may go beyond their end.
func (c *cursor) check(data []byte) (e Event, terminal bool, err error) {
	before := *c
	defer func() {
		if recover() != nil {
			*c, err = before, errPiece
		}
	}()
	if data[c.off]&headSame != 0 && Kind(data[c.off]&headKind) != Named && c.uri.off == 0 { // no uri stands at the beginning of a block
		return e, false, errPiece
	}
	e, terminal = c.read(data[:len(data):len(data)])
	if c.off <= before.off {
		*c, err = before, errPiece
	}
	return e, terminal, err
}
