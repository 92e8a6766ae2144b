package tube

import (
	"bytes"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
)

// folded is what a tube knows of its events without its log: the documents that they fold to, and the events that a
// document cannot say. It lags behind the log until someone asks or a block leaves.
type folded struct {
	mu sync.Mutex
	at cursor // the next event to fold

	visible *jsonuri.Document
	all     *jsonuri.Document // nil as long as it would be the same
	rooted  bool              // something was set at the root

	kept  []Event // named and Done events of blocks that have left the log, hidden ones included
	bytes int     // that kept takes
}

// document returns one of the folds.
func (f *folded) document(all bool) *jsonuri.Document {
	if all && f.all != nil {
		return f.all
	}
	return f.visible
}

// fold takes the events of a block up to number end.
func (f *folded) fold(data []byte, end uint64) {
	for f.at.n < end && f.at.off < len(data) {
		e, _ := f.at.read(data)
		if e.Kind > Set {
			continue
		}
		f.rooted = f.rooted || len(e.URI) == 0
		if e.Hidden && f.all == nil {
			f.all, _ = foldOf(snapshotOf(f.visible, false))
		}
		if !e.Hidden {
			_ = apply(f.visible, e)
		}
		if f.all != nil {
			_ = apply(f.all, e)
		}
	}
	if len(data) >= maxBlock/2 {
		runtime.Gosched() // a large block takes most of a millisecond, and there may be many, in many tubes
	}
}

// foldBlocks folds the events up to number end of blocks, the first of which is the one numbered seq.
func (f *folded) foldBlocks(blocks []block, seq int, end uint64) {
	for i := f.at.seq - seq; i < len(blocks) && f.at.n < end; i++ {
		if f.at.seq < seq+i {
			f.at = cursor{seq: seq + i, n: blocks[i].first}
		}
		f.fold(blocks[i].data, end)
	}
}

// apply changes a document by an event. What the document refuses is ignored in a fold: senders have their own checks.
func apply(d *jsonuri.Document, e Event) error {
	if e.Kind == Append {
		return d.Append(e.URI, e.Value)
	}
	return d.Set(e.URI, e.Value)
}

// snapshotOf returns the deltas that make any document the same as d. rooted says that the reader's root may be something else
// than an object with some of d's members.
func snapshotOf(d *jsonuri.Document, rooted bool) []Event {
	var group []Event
	put := func(uri, value []byte, replace bool) {
		if replace {
			group = append(group, Event{Kind: Set, URI: uri, Value: null})
		}
		if value[0] == '"' {
			group = append(group, Event{Kind: Append, URI: uri, Value: value[1 : len(value)-1]})
		} else {
			group = append(group, Event{Kind: Set, URI: uri, Value: value})
		}
	}
	document := d.AppendJSON(nil)
	put([]byte{}, document, document[0] == '"' || rooted && string(document) == "{}")
	for uri, value := range rawjson.Members(d.AppendReserved(nil)) {
		put([]byte(uri), value, value[0] == '"' || string(value) == "{}")
	}
	return group
}

// keep remembers the events of a block that leaves the log which a snapshot of the document does not hold.
func (f *folded) keep(b block, limit int) {
	for e := range b.beside() {
		e.URI, e.Value = bytes.Clone(e.URI), bytes.Clone(e.Value)
		f.kept = append(f.kept, e)
		f.bytes += keptSize(e)
	}
	if f.bytes <= limit {
		return
	}
	// Down to half the limit, so that this is rare. Done events are the least loss, then the older ones; the run's first
	// event, which says what runs, is always kept.
	for _, done := range []bool{true, false} {
		f.kept = slices.DeleteFunc(f.kept, func(e Event) bool {
			drop := f.bytes > limit/2 && e.N > 0 && (e.Kind == Done) == done
			if drop {
				f.bytes -= keptSize(e)
			}
			return drop
		})
	}
}

// beside yields the events that a document cannot say: those that are kept, and those of the blocks of the log.
func (f *folded) beside(blocks []block) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for _, e := range f.kept {
			if !yield(e) {
				return
			}
		}
		for _, b := range blocks {
			for e := range b.beside() {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func keptSize(e Event) int { return 120 + len(e.URI) + len(e.Name) + len(e.Value) }

// foldUp folds all that is in the log now and shown, short of the terminal event, and returns the number of the next
// event. It is called with folded locked; writers are held up only while the list of blocks is copied.
func (t *Tube) foldUp() (end uint64) {
	f := &t.folded
	t.mu.Lock()
	if end = t.end(); f.at.n >= end {
		t.mu.Unlock()
		return end
	}
	blocks, seq := slices.Clone(t.log.blocks), t.log.seq
	t.mu.Unlock()
	f.foldBlocks(blocks, seq, end)
	t.account()
	return end
}

// account notes how much memory folded takes. It is called with folded locked.
func (t *Tube) account() {
	f := &t.folded
	n := f.bytes + f.visible.Size()
	if f.all != nil {
		n += f.all.Size()
	}
	t.extra.Store(int64(n))
}

// trim lets blocks leave the log until it is within its limit; size is what the caller has seen of it. The block with the
// newest event always stays, and what is not shown. Writers go on meanwhile; only when one finds the log an eighth over its limit does it wait
// for a snapshot that is being made.
func (t *Tube) trim(size int) {
	f := &t.folded
	if size > t.max+t.max/8 {
		f.mu.Lock()
	} else if !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	for {
		t.mu.Lock()
		if t.log.size <= t.max || len(t.log.blocks) < 2 {
			t.mu.Unlock()
			break
		}
		b, next := t.log.blocks[0], t.log.blocks[1].first
		seq, shown := t.log.seq, next <= t.sent.Load()
		t.mu.Unlock()
		if !shown {
			break
		}
		if f.at.seq == seq {
			f.fold(b.data, next)
			f.at = cursor{seq: seq + 1, n: next}
		}
		f.keep(b, max(t.max/8, minBlock))
		t.mu.Lock()
		t.log.shift()
		t.mu.Unlock()
	}
	t.account()
}

// regroup gives r a snapshot of all events up to now, as the package comment says, and moves it behind them.
func (t *Tube) regroup(r *Reader) {
	f := &t.folded
	f.mu.Lock() // nothing leaves the log meanwhile
	defer f.mu.Unlock()
	end := t.foldUp()
	t.mu.Lock()
	blocks := slices.Clone(t.log.blocks)
	t.mu.Unlock()
	if end <= r.next { // nothing but a terminal event
		return
	}

	var named, done []Event
	for e := range f.beside(blocks) {
		switch {
		case e.N < r.next, e.N >= end, e.Hidden && !r.all:
		case e.Kind == Named:
			e.Part = true
			named = append(named, e)
		default:
			done = append(done, e)
		}
	}
	group := append(snapshotOf(f.document(r.all), f.rooted), done...)
	for i := range group {
		group[i].N, group[i].Part = end-1, true
	}
	group[len(group)-1].Part = false
	r.group = append(named, group...)
	r.next, r.lost = end, true
}
