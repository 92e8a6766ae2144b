package tube

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lingserve/lingserve/jsonuri"
)

// ErrEnded says that the run has ended: the event was not sent.
var ErrEnded = errors.New("tube: the run has ended")

// Options are the settings of a tube.
type Options struct {
	MaxBytes int    // of the log in memory; default 8 MiB
	From     uint64 // number of the first event; not 0 where the run has had others before, which are not known any more
	HoldEnd  bool   // readers see the terminal event when [Tube.ShowEnd] says so; for who stores it before
	First    func() // called once, when something is written to the document for the first time; it must not block, nor use the tube
}

// defaultMaxBytes is more than a million tokens.
const defaultMaxBytes = 8 << 20

// Tube is the ordered events of one run. It is safe for concurrent use.
type Tube struct {
	run     string
	max     int
	done    chan struct{} // closed after the terminal event
	sent    atomic.Uint64 // number of the first event that readers do not see yet; it can be read without the lock
	holdEnd bool

	mu       sync.Mutex
	log      log
	from     uint64 // number of the first event
	filters  filters
	waiting  []*Reader // to be woken by the next event
	ended    bool
	terminal uint64 // number of the terminal event
	first    func() // Options.First, until it is called

	folded folded       // has its own lock, which is taken before mu
	extra  atomic.Int64 // bytes that folded holds
}

// New returns the tube of the run with this id.
func New(run string, o *Options) *Tube {
	t := &Tube{run: run, max: o.MaxBytes, done: make(chan struct{}), first: o.First}
	t.folded.visible = new(jsonuri.Document)
	if t.max <= 0 {
		t.max = defaultMaxBytes
	}
	t.log.large = min(max(t.max/16, minBlock), maxBlock)
	t.from, t.log.next, t.folded.at.n, t.folded.rooted = o.From, o.From, o.From, o.From > 0
	t.sent.Store(o.From)
	t.holdEnd = o.HoldEnd
	return t
}

// Run returns the run's id.
func (t *Tube) Run() string { return t.run }

// Send appends an event, gives it the next number and returns that at once. Errors: [ErrEnded]; a name that is not allowed,
// the names of the terminal events among them; a value or uri that is not what [Event] says. White space around JSON and
// line breaks between its tokens are taken out.
func (t *Tube) Send(e Event) (n uint64, err error) {
	if err := check(&e); err != nil {
		return 0, err
	}
	if e.Terminal() {
		return 0, fmt.Errorf("tube: event %q is sent only when the run ends", e.Name)
	}
	n, size, err := t.append(&e, false)
	if size > t.max {
		t.trim(size)
	}
	return n, err
}

// append puts an event into the log, whose size it returns.
func (t *Tube) append(e *Event, terminal bool) (n uint64, size int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock() // a matcher may panic
	if t.ended {
		return 0, 0, ErrEnded
	}
	hidden := e.Hidden
	if len(t.filters.list) > 0 && !terminal {
		hidden = t.filters.hide(e, e.Kind != Named && t.log.same(e.URI)) || hidden
	}
	if t.first != nil && e.Kind != Named && e.Kind != Done {
		first := t.first
		t.first = nil
		first()
	}
	n = t.log.next
	t.log.put(e, hidden, terminal)
	if terminal {
		t.ended, t.terminal = true, n
	}
	if !terminal || !t.holdEnd {
		t.shown(n+1, terminal)
	}
	return n, t.log.size, nil
}

// shown lets readers see the events below n. It is called with the tube locked.
func (t *Tube) shown(n uint64, terminal bool) {
	t.sent.Store(n)
	if terminal {
		close(t.done)
	}
	for i, r := range t.waiting {
		t.waiting[i] = nil
		r.waiting = false
		r.wake()
	}
	t.waiting = t.waiting[:0]
}

// ShowEnd lets readers see the terminal event of a tube with [Options].HoldEnd. Without one, or if they see it already, it does nothing.
func (t *Tube) ShowEnd() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended && t.sent.Load() == t.terminal {
		t.shown(t.terminal+1, true)
	}
}

// end returns the number up to which events are shown and folded, short of the terminal one. It is called with the tube locked.
func (t *Tube) end() uint64 {
	n := t.sent.Load()
	if t.ended {
		n = min(n, t.terminal)
	}
	return n
}

// From returns the number of the first event of the run, or of this time that it is run.
func (t *Tube) From() uint64 { return t.from }

// AddFilter hides what f says from now on and returns a function that takes that back.
func (t *Tube) AddFilter(f Filter) (remove func()) {
	f.Exclude, f.Include = slices.Clone(f.Exclude), slices.Clone(f.Include)
	for _, m := range f.Include {
		if _, ok := m.(EventFunc); ok {
			panic("tube: an EventFunc excludes, and cannot include")
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.filters.list = append(t.filters.list, &f)
	t.filters.known = false
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.filters.list = slices.DeleteFunc(t.filters.list, func(x *Filter) bool { return x == &f })
		t.filters.known = false
	}
}

// Filters returns the filters in force, which must not be changed.
func (t *Tube) Filters() []*Filter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.filters.list)
}

// Hides reports whether a filter hides all that is sent at uri.
func (t *Tube) Hides(uri []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.filters.hides(uri)
}

// ClearFilters takes all filters back.
func (t *Tube) ClearFilters() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.filters = filters{}
}

// Close ends the run with a "finished" event of this status: completed, failed or interrupted. Only the first of Close and
// Cancel appends anything; the others return [ErrEnded].
func (t *Tube) Close(status string) error { return t.finish(finished, "status", status) }

// Cancel ends the run with a "canceled" event.
func (t *Tube) Cancel(reason string) error { return t.finish(canceled, "reason", reason) }

func (t *Tube) finish(name, member, text string) error {
	data := jsonuri.AppendEscaped([]byte(`{"`+member+`":"`), text)
	data = append(data, `"}`...)
	_, _, err := t.append(&Event{Kind: Named, Name: name, Value: data}, true)
	return err
}

// Ended is closed once the terminal event is there for readers.
func (t *Tube) Ended() <-chan struct{} { return t.done }

// Len returns how many events were sent, as far as readers may see them.
func (t *Tube) Len() uint64 { return t.sent.Load() }

// Bytes returns how much memory the tube takes: its log, what was kept of events that have left it, and the documents.
func (t *Tube) Bytes() int {
	const fixed = 1 << 10 // the tube itself and what the allocator rounds up
	t.mu.Lock()
	defer t.mu.Unlock()
	return fixed + t.log.size + int(t.extra.Load())
}

// Measure returns Bytes, with the documents that all events so far fold to.
func (t *Tube) Measure() int {
	t.folded.mu.Lock()
	t.foldUp()
	t.folded.mu.Unlock()
	return t.Bytes()
}

// Snapshot returns the fold of all events so far, those that clients may see or all of them, as JSON text: the document
// and the object of reserved uris. Deltas that the document refuses are left out.
func (t *Tube) Snapshot(all bool) (document, reserved []byte) {
	f := &t.folded
	f.mu.Lock()
	defer f.mu.Unlock()
	t.foldUp()
	d := f.document(all)
	return d.AppendJSON(nil), d.AppendReserved(nil)
}

// Document is [Tube.Snapshot] as a document, without the reserved uris.
func (t *Tube) Document(all bool) *jsonuri.Document {
	text, _ := t.Snapshot(all)
	d := new(jsonuri.Document)
	_ = d.Set(nil, text) // it comes from a document
	return d
}

// Events yields the events that clients see, from number from on, and ends after the terminal event; its last pair carries ctx's cause if
// ctx ends first. Instead of events that have left the log it yields a snapshot.
func (t *Tube) Events(ctx context.Context, from uint64) iter.Seq2[Event, error] {
	return t.events(ctx, from, false)
}

// AllEvents is Events with those that filters and quiet bots hide from clients. It is for listeners on the server: what it yields must not
// be passed on.
func (t *Tube) AllEvents(ctx context.Context, from uint64) iter.Seq2[Event, error] {
	return t.events(ctx, from, true)
}

func (t *Tube) events(ctx context.Context, from uint64, all bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := t.NewReader(from)
		r.all = all
		defer r.Leave()
		for {
			for e := range r.Waiting() {
				if !yield(e, nil) {
					return
				}
			}
			if r.Ended() {
				return
			}
			select {
			case <-r.More():
			case <-ctx.Done():
				yield(Event{}, context.Cause(ctx))
				return
			}
		}
	}
}

// NewReader returns a client's cursor that begins with the event numbered from. It holds nothing that must be closed.
func (t *Tube) NewReader(from uint64) *Reader {
	if from == 0 {
		from = t.from
	}
	return &Reader{tube: t, next: from, lost: true, more: make(chan struct{}, 1)}
}

// SnapshotReader returns a client's cursor that begins with a snapshot of the document so far.
func (t *Tube) SnapshotReader() *Reader {
	r := t.NewReader(0)
	r.snapshot = true
	return r
}
