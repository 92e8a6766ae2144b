package runlog

import (
	"context"
	"errors"

	"github.com/lingserve/lingserve/tube"
)

// Errors that a caller may branch on.
var (
	// ErrAway says that runs cannot be kept now. They are kept when that is over.
	ErrAway = errors.New("runlog: cannot store runs now")
	// ErrFenced says that another replica goes on with a run: nothing more of it is kept from here.
	ErrFenced = errors.New("runlog: another replica has this run")
	// ErrLost says that a log has lost what it had of a run.
	ErrLost = errors.New("runlog: the stored run is gone")
	// ErrUnknown says that there is no such run, or not any more.
	ErrUnknown = errors.New("runlog: unknown run")
	// ErrEnded says that a run has ended, so that nobody can go on with it.
	ErrEnded = errors.New("runlog: the run has ended")
	// ErrClosed says that the log was closed.
	ErrClosed = errors.New("runlog: closed")
)

// Log keeps runs. It is safe for concurrent use.
type Log interface {
	// Keep takes a run in. What its tube has, and gets from now on, is written, and nobody waits for that. One that was left
	// is gone on with. Its tube must be held where Holds says so.
	Keep(Run) Entry
	// Holds says whether tubes must be held: their readers then see an event when it is stored.
	Holds() bool
	// Flush waits until all is written that runs have sent, and their heads.
	Flush(ctx context.Context) error
	// Close writes what there is, as far as that goes soon, and ends what the log has started. Runs that go on stay as they are.
	Close() error
}

// Run is what a log is given of a run.
type Run struct {
	ID      string
	Opening []byte     // what stands before the events; it must not be changed
	Tube    *tube.Tube // of this run
	// Trouble is told what becomes of it, by the log's goroutine: it must not block, nor use the log. Of [ErrAway] it is told once
	// each time; [ErrFenced] and [ErrLost] are the last: what was not stored is never shown, so that the run is to be canceled, and
	// whoever reads a held tube of one that is fenced goes on with Follow. It may be nil.
	Trouble func(error)
}

// Entry is a run in a log. Its methods return at once, and count once.
type Entry interface {
	// End has the rest of the run written, and head behind it. Its tube has ended.
	End(head []byte)
	// Drop forgets the run: it need not be kept any more.
	Drop()
}

// Reopener is what an [Entry] is, too, whose run may come to have another opening while it goes on.
type Reopener interface {
	// Reopen has the opening written once more, which is another one by now. It must not be changed.
	Reopen(opening []byte)
}

// Leaver is what an [Entry] is, too, whose run somebody else may take up.
type Leaver interface {
	// Leave has nothing more of the run written, its end neither: whoever adopts it goes on from what is stored.
	Leave()
}

// Left is a run that nobody goes on with, as far as it was kept. Who takes it calls Keep for it again, to end it or to go on: with
// the same tube, after a Leap or without, or a new one that begins with a higher event; it is then run once more.
type Left struct {
	ID      string
	Opening []byte
	Tube    *tube.Tube
	Head    []byte // nil where its end was not kept
}

// Shared is a log that replicas have in common.
type Shared interface {
	Log
	// Find says what there is of a run; [ErrUnknown].
	Find(ctx context.Context, id string) (Found, error)
	// Follow gives the events of a run that is kept by any replica, as they are stored; [ErrUnknown].
	Follow(ctx context.Context, id string) (Tail, error)
	// Running lists the runs that a replica has not ended, or any replica where that is empty. It is a hint: a run may have
	// ended meanwhile, or be another replica's by now, as Adopt says.
	Running(ctx context.Context, replica string) ([]Going, error)
	// Adopt takes a run over from a replica that is not there any more: of all who try, one gets it, and the replica, should it
	// come back, is fenced. Errors: [ErrUnknown]; [ErrEnded]; [ErrFenced] where somebody else has it, or the replica still writes.
	Adopt(ctx context.Context, id, from string) (*Left, error)
}

// Going is a run that goes on, and the replica that has it.
type Going struct{ ID, Replica string }

// Found is what a shared log says of a run.
type Found struct {
	ID      string
	Opening []byte
	Replica string // that has it, or had it last
	Ended   bool
	Head    []byte // of one that has ended
}

// Tail is a run that is followed. All who follow a run on a replica have the same tube.
type Tail interface {
	Tube() *tube.Tube
	Opening() []byte
	// Gone is closed when the run cannot be followed any more, though it has not ended: it was dropped, or it has expired.
	Gone() <-chan struct{}
	// Head is what the run ended with, nil as long as that is not known.
	Head() []byte
	// Leave says that the caller reads no more. It is called once.
	Leave()
}
