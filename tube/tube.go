package tube

import (
	"context"
	"errors"
	"iter"
)

// ErrEnded says that the run has ended: the event was not sent.
var ErrEnded = errors.New("tube: the run has ended")

// Document is what a tube folds its deltas into, for snapshots and results. Its zero value is made by Options.Document.
type Document interface {
	Append(uri, content []byte) error
	Set(uri, value []byte) error
	AppendJSON(dst []byte) []byte
	// AppendReserved appends one object {uri: value} with what stands beside the document.
	AppendReserved(dst []byte) []byte
}

// Matcher decides by uri; *regexp.Regexp and *jsonuri.Pattern are matchers.
type Matcher interface{ Match(uri []byte) bool }

// URI matches one uri exactly.
type URI string

func (u URI) Match(uri []byte) bool { return string(u) == string(uri) }

// Func makes a matcher of a function.
type Func func(uri []byte) bool

func (f Func) Match(uri []byte) bool { return f(uri) }

// Filter hides events from clients by their uri. Named events are never filtered.
type Filter struct {
	Root    string    // only uris at or below this root; "" is all
	Exclude []Matcher // uris that match any of these are hidden
	Include []Matcher // where not empty, uris that match none of these are hidden
}

// Options are the settings of a tube.
type Options struct {
	MaxBytes int             // of the log in memory; default 8 MiB
	Document func() Document // an empty document; required
}

// Tube is the ordered events of one run. It is safe for concurrent use.
type Tube struct{}

// New returns the tube of the run with this id.
func New(run string, o *Options) *Tube { panic("tube: not built yet") }

// Run returns the run's id.
func (t *Tube) Run() string { panic("tube: not built yet") }

// Send appends an event, gives it the next number and returns that at once. Errors: [ErrEnded]; a name that is not allowed;
// a value that is not one line.
func (t *Tube) Send(e Event) (n uint64, err error) { panic("tube: not built yet") }

// AddFilter hides what f says from now on and returns a function that takes that back.
func (t *Tube) AddFilter(f Filter) (remove func()) { panic("tube: not built yet") }

// ClearFilters takes all filters back.
func (t *Tube) ClearFilters() { panic("tube: not built yet") }

// Close ends the run with a "finished" event of this status: completed, failed or interrupted. Only the first of Close and
// Cancel appends anything; the others return [ErrEnded].
func (t *Tube) Close(status string) error { panic("tube: not built yet") }

// Cancel ends the run with a "canceled" event.
func (t *Tube) Cancel(reason string) error { panic("tube: not built yet") }

// Ended is closed once the terminal event is in the log.
func (t *Tube) Ended() <-chan struct{} { panic("tube: not built yet") }

// Len returns how many events were sent.
func (t *Tube) Len() uint64 { panic("tube: not built yet") }

// Bytes returns how much memory the log takes.
func (t *Tube) Bytes() int { panic("tube: not built yet") }

// Snapshot returns the fold of all events so far, those that clients may see or all of them, as JSON text: the document
// and, beside it, the object of reserved uris.
func (t *Tube) Snapshot(all bool) (document, reserved []byte) { panic("tube: not built yet") }

// Events yields every event from number from on, hidden ones included, and ends after the terminal event; its last pair
// carries ctx's cause if ctx ends first. It is for listeners on the server. An event that has left the log yields a snapshot.
func (t *Tube) Events(ctx context.Context, from uint64) iter.Seq2[Event, error] {
	panic("tube: not built yet")
}

// NewReader returns a client's cursor that begins with the event numbered from. It holds nothing that must be closed.
func (t *Tube) NewReader(from uint64) *Reader { panic("tube: not built yet") }

// SnapshotReader returns a client's cursor that begins with a snapshot of the document so far.
func (t *Tube) SnapshotReader() *Reader { panic("tube: not built yet") }
